//! What became of an operation. The only module that looks inside a driver error.
//!
//! Labels come before kinds, kinds before codes; what is not listed is unknown. A wrong "failed" would
//! turn a correct database into a false finding; a wrong "unknown" only weakens one check.

mod reply;

use mongodb::error::{
    Error, ErrorKind, InsertManyError, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, WriteFailure,
};

pub use reply::{
    is_about_the_role, of_line, of_no_connection, of_no_server, of_not_sent_in_time, of_refused_read,
    of_single_write, of_writes,
};

/// Not primary (any more): the command was refused before it did anything. All others (stepping down,
/// shutting down, recovering) may come after something was applied.
const NOT_WRITABLE_PRIMARY: [i32; 3] = [10107, 13435, 10058];
/// The server's code for a key that is there already.
pub const DUPLICATE_KEY_CODE: i32 = 11000;
/// Class of a document whose key is there already.
pub const DUPLICATE_KEY: &str = "duplicate_key";
/// Class of the documents behind the one at which an ordered batch ended.
pub const NOT_ATTEMPTED: &str = "not_attempted";
/// `SERVER_OVERLOADED` refusals carry this label; they never count as throughput.
const OVERLOADED: &str = "SystemOverloadedError";
/// Longest error text that is kept.
const MAX_TEXT: usize = 300;

/// What became of one operation, or of one key of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged as the write concern asks, or the read returned.
    Ok,
    /// Surely not applied, or a read without an answer.
    Failed(Cause),
    /// May have been applied.
    Unknown(Cause),
}

/// Why an operation was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Our word for it; a small, fixed set.
    pub class: &'static str,
    /// The server's code, if it gave one.
    pub code: Option<i32>,
    /// One line for people, without secrets.
    pub text: String,
    /// It ended because its deadline passed, not because of an answer.
    pub timed_out: bool,
}

impl Cause {
    /// A cause without a code.
    #[must_use]
    pub fn new(class: &'static str, text: impl Into<String>) -> Self {
        Self { class, code: None, text: text.into(), timed_out: false }
    }

    /// Our own deadline passed.
    #[must_use]
    pub fn deadline(seconds: f64) -> Self {
        let text = format!("no answer within the deadline of {seconds} s");
        Self { timed_out: true, ..Self::new("deadline", text) }
    }
}

/// Outcome of a read that failed.
#[must_use]
pub fn of_read(error: &Error) -> Outcome {
    Outcome::Failed(cause(error))
}

/// Outcome of a write of one document that failed.
#[must_use]
pub fn of_write(error: &Error) -> Outcome {
    let cause = cause(error);
    if error.contains_label(NO_WRITES_PERFORMED) || error.contains_label(OVERLOADED) {
        return Outcome::Failed(cause);
    }
    match error.kind.as_ref() {
        ErrorKind::ServerSelection { .. }
        | ErrorKind::DnsResolve { .. }
        | ErrorKind::InvalidArgument { .. }
        | ErrorKind::Authentication { .. }
        | ErrorKind::InvalidTlsConfig { .. }
        | ErrorKind::Write(WriteFailure::WriteError(_)) => Outcome::Failed(cause),
        // The driver tried once more and gives the answer to that: what the first try did is not known.
        ErrorKind::Command(_) if error.contains_label(RETRYABLE_WRITE_ERROR) => Outcome::Unknown(cause),
        ErrorKind::Command(command) => command_outcome(command.code, cause),
        _ => Outcome::Unknown(cause),
    }
}

/// Outcome of a write command that was refused as a whole.
fn command_outcome(code: i32, cause: Cause) -> Outcome {
    if NOT_WRITABLE_PRIMARY.contains(&code) { Outcome::Failed(cause) } else { Outcome::Unknown(cause) }
}

/// One outcome per document of a batch whose keys we chose ourselves, from the error's indexes and the
/// `ordered` flag; never from the ids that the driver returns.
#[must_use]
pub fn of_batch(error: &Error, count: usize, ordered: bool) -> Vec<Outcome> {
    let ErrorKind::InsertMany(batch) = error.kind.as_ref() else {
        return vec![of_write(error); count];
    };
    if batch.write_errors.is_none() && batch.write_concern_error.is_none() {
        return vec![Outcome::Unknown(cause(error)); count];
    }
    batch_outcomes(batch, count, ordered)
}

fn batch_outcomes(batch: &InsertManyError, count: usize, ordered: bool) -> Vec<Outcome> {
    let written = match &batch.write_concern_error {
        // On the primary, but not confirmed: it may be rolled back.
        Some(concern) => Outcome::Unknown(Cause {
            code: Some(concern.code),
            ..Cause::new("write_concern", clip(&concern.message))
        }),
        None => Outcome::Ok,
    };
    let failures = batch.write_errors.iter().flatten().map(|failure| {
        let class = write_error_class(failure.code);
        let cause = Cause { code: Some(failure.code), ..Cause::new(class, clip(&failure.message)) };
        Failure { index: failure.index, cause }
    });
    by_key(&written, failures, count, ordered)
}

/// One write of a batch that was refused.
struct Failure {
    index: usize,
    cause: Cause,
}

/// One outcome per document, from what the others came to and those that were refused.
fn by_key(
    written: &Outcome,
    failures: impl Iterator<Item = Failure>,
    count: usize,
    ordered: bool,
) -> Vec<Outcome> {
    let mut outcomes = vec![written.clone(); count];
    let mut stopped_at = None;
    for Failure { index, cause } in failures {
        if let Some(slot) = outcomes.get_mut(index) {
            *slot = Outcome::Failed(cause);
        }
        stopped_at = Some(stopped_at.map_or(index, |at: usize| at.min(index)));
    }
    if let (true, Some(at)) = (ordered, stopped_at) {
        for slot in outcomes.iter_mut().skip(at + 1) {
            *slot = Outcome::Failed(Cause::new(NOT_ATTEMPTED, "an earlier document of the batch failed"));
        }
    }
    outcomes
}

const fn write_error_class(code: i32) -> &'static str {
    if code == DUPLICATE_KEY_CODE { DUPLICATE_KEY } else { "write_error" }
}

/// Class, code and text of a driver error.
#[must_use]
pub fn cause(error: &Error) -> Cause {
    let (class, code) = match error.kind.as_ref() {
        ErrorKind::Command(command) => (command_class(command.code), Some(command.code)),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => ("write_concern", Some(concern.code)),
        ErrorKind::Write(WriteFailure::WriteError(write)) => {
            (write_error_class(write.code), Some(write.code))
        }
        ErrorKind::InsertMany(batch) => match (&batch.write_errors, &batch.write_concern_error) {
            (_, Some(concern)) => ("write_concern", Some(concern.code)),
            (Some(errors), None) => ("write_error", errors.first().map(|e| e.code)),
            (None, None) => ("write_error", None),
        },
        ErrorKind::Io(_) => ("network", None),
        ErrorKind::ConnectionPoolCleared { .. } => ("pool_cleared", None),
        ErrorKind::ServerSelection { .. } => ("server_selection", None),
        ErrorKind::Authentication { .. } => ("authentication", None),
        ErrorKind::DnsResolve { .. } => ("dns", None),
        ErrorKind::InvalidArgument { .. } => ("invalid_argument", None),
        ErrorKind::InvalidResponse { .. } => ("invalid_response", None),
        ErrorKind::IncompatibleServer { .. } => ("incompatible_server", None),
        ErrorKind::Shutdown => ("client_shut_down", None),
        _ => ("other", None),
    };
    // The driver also labels connections that were refused; those stay "network".
    let overloaded = error.contains_label(OVERLOADED) && class == "command";
    let class = if overloaded { "overloaded" } else { class };
    Cause { class, code, text: text(error), timed_out: false }
}

const fn command_class(code: i32) -> &'static str {
    match code {
        10107 | 13435 | 10058 => "not_primary",
        11600 | 91 => "shutting_down",
        11602 | 13436 | 189 => "stepping_down",
        11601 => "interrupted",
        50 => "max_time",
        DUPLICATE_KEY_CODE => DUPLICATE_KEY,
        _ => "command",
    }
}

/// A driver error in one line for people: the driver prints kind, labels, source and the server's whole
/// answer.
#[must_use]
pub fn text(error: &Error) -> String {
    let line = match error.kind.as_ref() {
        ErrorKind::Command(command) => {
            format!("{} ({}): {}", command.code_name, command.code, command.message)
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => {
            format!("write concern not met, {} ({}): {}", concern.code_name, concern.code, concern.message)
        }
        ErrorKind::Write(WriteFailure::WriteError(write)) => format!("({}) {}", write.code, write.message),
        kind => kind.to_string(),
    };
    clip(&line)
}

/// A command of ours that failed, as the faults want to know it.
#[must_use]
pub fn command_error(error: &Error) -> wire::CommandError {
    match error.kind.as_ref() {
        ErrorKind::Command(command) => wire::CommandError::Server {
            code: command.code,
            code_name: command.code_name.clone(),
            message: clip(&command.message),
        },
        // Nobody there to ask, or gone before the answer.
        _ => wire::CommandError::Io(std::io::Error::other(text(error))),
    }
}

fn clip(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(errors: &str, concern: &str) -> InsertManyError {
        let text =
            format!(r#"{{"writeErrors": {errors}, "writeConcernError": {concern}, "insertedIds": {{}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    const KEY_4_EXISTS: &str = r#"[{"index": 4, "code": 11000, "errmsg": "E11000", "message": "E11000"}]"#;

    fn words(outcomes: &[Outcome]) -> String {
        let word = |o: &Outcome| match o {
            Outcome::Ok => 'o',
            Outcome::Failed(cause) if cause.class == NOT_ATTEMPTED => '-',
            Outcome::Failed(_) => 'f',
            Outcome::Unknown(_) => '?',
        };
        outcomes.iter().map(word).collect()
    }

    #[test]
    fn a_batch_is_booked_key_by_key() {
        let duplicate = batch(KEY_4_EXISTS, "null");
        assert_eq!(words(&batch_outcomes(&duplicate, 10, false)), "oooofooooo");
        assert_eq!(words(&batch_outcomes(&duplicate, 10, true)), "oooof-----");
        let concern =
            r#"{"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting", "errInfo": null}"#;
        assert_eq!(words(&batch_outcomes(&batch("null", concern), 10, false)), "??????????");
        assert_eq!(words(&batch_outcomes(&batch(KEY_4_EXISTS, concern), 10, false)), "????f?????");
    }

    #[test]
    fn a_lost_connection_leaves_every_key_of_a_batch_unknown() {
        let error = Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(words(&of_batch(&error, 3, false)), "???");
        assert!(matches!(of_write(&error), Outcome::Unknown(_)));
        assert!(matches!(of_read(&error), Outcome::Failed(_)));
        assert_eq!(cause(&error).class, "network");
    }

    #[test]
    fn cutting_a_long_text_keeps_whole_characters() {
        let long = "ü".repeat(MAX_TEXT + 5);
        assert_eq!(clip(&long).chars().count(), MAX_TEXT + 3);
        assert_eq!(clip("one\ntwo"), "one");
    }
}
