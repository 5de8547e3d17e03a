//! What became of an operation of our own engine: from the reply itself, or from the way in which the
//! connection broke. The words and the decisions are those for driver errors.

use wire::hot::{Answer, LineError, Refusal};

use super::{
    Cause, Failure, NO_WRITES_PERFORMED, OVERLOADED, Outcome, by_key, clip, command_class, command_outcome,
    write_error_class,
};

/// Outcome of a read whose reply is not `ok`.
#[must_use]
pub fn of_refused_read(answer: &Answer<'_>) -> Outcome {
    Outcome::Failed(refusal(answer))
}

/// Outcome of a write of one document, from any reply.
#[must_use]
pub fn of_single_write(answer: &Answer<'_>) -> Outcome {
    let mut outcomes = of_writes(answer, 1, true);
    outcomes.pop().unwrap_or(Outcome::Ok)
}

/// One outcome per write of a command, from any reply.
#[must_use]
pub fn of_writes(answer: &Answer<'_>, count: usize, ordered: bool) -> Vec<Outcome> {
    if !answer.ok {
        return vec![refused_write(answer); count];
    }
    let (errors, concern) = match (answer.write_errors(), answer.write_concern_error()) {
        (Ok(errors), Ok(concern)) => (errors, concern),
        (Err(error), _) | (_, Err(error)) => {
            return vec![Outcome::Unknown(Cause::new("invalid_response", error.to_string())); count];
        }
    };
    // On the primary, but not confirmed: it may be rolled back.
    let written = concern.map_or(Outcome::Ok, |why| Outcome::Unknown(cause("write_concern", &why)));
    let failures =
        errors.iter().map(|why| Failure { index: why.index, cause: cause(write_error_class(why.code), why) });
    by_key(&written, failures, count, ordered)
}

/// Outcome of an operation whose connection broke, or spoke another language.
#[must_use]
pub fn of_line(error: &LineError, is_write: bool) -> Outcome {
    let class = match error {
        LineError::NotSent(_) => NOT_SENT,
        LineError::Lost(_) => "network",
        LineError::NotAReply(_) => "invalid_response",
    };
    let cause = Cause::new(class, clip(&error.to_string()));
    if is_write && error.was_sent() { Outcome::Unknown(cause) } else { Outcome::Failed(cause) }
}

/// Outcome of an operation for which no connection could be made.
#[must_use]
pub fn of_no_connection(text: &str) -> Outcome {
    Outcome::Failed(Cause::new(NOT_SENT, clip(text)))
}

/// Outcome of an operation whose deadline passed before its request had left.
#[must_use]
pub fn of_not_sent_in_time(seconds: f64, text: &str) -> Outcome {
    let text = format!("not sent within the deadline of {seconds} s: {text}");
    Outcome::Failed(Cause { timed_out: true, ..Cause::new("deadline", clip(&text)) })
}

/// Outcome of an operation for which no server was found until its deadline.
#[must_use]
pub fn of_no_server(seconds: f64, wanted: &str) -> Outcome {
    let text = format!("no {wanted} was known within the deadline of {seconds} s");
    Outcome::Failed(Cause { timed_out: true, ..Cause::new("server_selection", text) })
}

/// Whether the server said that it is not the one to ask any more.
#[must_use]
pub fn is_about_the_role(outcome: &Outcome) -> bool {
    let (Outcome::Failed(cause) | Outcome::Unknown(cause)) = outcome else { return false };
    matches!(cause.class, "not_primary" | "shutting_down" | "stepping_down")
}

const NOT_SENT: &str = "not_sent";

fn refused_write(answer: &Answer<'_>) -> Outcome {
    let cause = refusal(answer);
    if answer.has_label(NO_WRITES_PERFORMED) || answer.has_label(OVERLOADED) {
        return Outcome::Failed(cause);
    }
    command_outcome(answer.refusal().code, cause)
}

fn refusal(answer: &Answer<'_>) -> Cause {
    let why = answer.refusal();
    let class = command_class(why.code);
    let overloaded = class == "command" && answer.has_label(OVERLOADED);
    cause(if overloaded { "overloaded" } else { class }, &why)
}

fn cause(class: &'static str, why: &Refusal) -> Cause {
    let Refusal { code, code_name, message, .. } = why;
    let text = match (class, code_name.as_str()) {
        ("write_concern", _) => format!("write concern not met, {code_name} ({code}): {message}"),
        (_, "") => format!("({code}) {message}"),
        _ => format!("{code_name} ({code}): {message}"),
    };
    Cause { code: Some(*code), ..Cause::new(class, clip(&text)) }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn word(outcome: &Outcome) -> &'static str {
        match outcome {
            Outcome::Ok => "ok",
            Outcome::Failed(_) => "failed",
            Outcome::Unknown(_) => "unknown",
        }
    }

    fn single(reply: &RawDocumentBuf) -> (&'static str, &'static str, Option<i32>) {
        let outcome = of_single_write(&Answer::read(reply.as_bytes()).unwrap());
        match &outcome {
            Outcome::Ok => ("ok", "", None),
            Outcome::Failed(cause) | Outcome::Unknown(cause) => (word(&outcome), cause.class, cause.code),
        }
    }

    fn command_error(code: i32, label: &str) -> RawDocumentBuf {
        rawdoc! { "ok": 0.0, "code": code, "codeName": "Name", "errmsg": "text", "errorLabels": [label] }
    }

    #[test]
    fn the_reply_to_a_write_decides_as_a_driver_error_would() {
        assert_eq!(single(&rawdoc! { "n": 1, "ok": 1.0 }).0, "ok");
        let cases = [
            (command_error(10107, "RetryableWriteError"), ("failed", "not_primary", Some(10107))),
            (command_error(11602, ""), ("unknown", "stepping_down", Some(11602))),
            (command_error(91, ""), ("unknown", "shutting_down", Some(91))),
            (command_error(91, "NoWritesPerformed"), ("failed", "shutting_down", Some(91))),
            (command_error(13, ""), ("unknown", "command", Some(13))),
            (command_error(462, "SystemOverloadedError"), ("failed", "overloaded", Some(462))),
            (
                rawdoc! { "ok": 1.0, "writeErrors": [{ "index": 0, "code": 11000 }] },
                ("failed", "duplicate_key", Some(11000)),
            ),
            (
                rawdoc! { "ok": 1.0, "writeErrors": [{ "index": 0, "code": 121 }] },
                ("failed", "write_error", Some(121)),
            ),
            (rawdoc! { "ok": 1.0, "writeErrors": [{ "code": 121 }] }, ("unknown", "invalid_response", None)),
            (
                rawdoc! { "ok": 1.0, "writeConcernError": { "code": 64 } },
                ("unknown", "write_concern", Some(64)),
            ),
            (rawdoc! {}, ("unknown", "command", Some(0))),
        ];
        for (reply, expected) in cases {
            assert_eq!(single(&reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn a_batch_is_booked_key_by_key() {
        let words = |reply: &RawDocumentBuf, ordered| {
            let outcomes = of_writes(&Answer::read(reply.as_bytes()).unwrap(), 5, ordered);
            outcomes.iter().map(|outcome| &word(outcome)[..1]).collect::<String>()
        };
        let duplicate = rawdoc! { "ok": 1.0, "n": 4, "writeErrors": [{ "index": 2, "code": 11000 }] };
        assert_eq!(words(&duplicate, false), "oofoo");
        assert_eq!(words(&duplicate, true), "oofff");
        let both = rawdoc! {
            "ok": 1.0, "writeErrors": [{ "index": 2, "code": 11000 }], "writeConcernError": { "code": 64 }
        };
        assert_eq!(words(&both, false), "uufuu");
        assert_eq!(words(&command_error(10107, ""), true), "fffff");
        assert_eq!(words(&command_error(189, ""), true), "uuuuu");
    }

    #[test]
    fn only_a_request_that_left_can_have_been_applied() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let cases = [
            (LineError::NotSent(broken()), "failed", "not_sent"),
            (LineError::Lost(broken()), "unknown", "network"),
            (LineError::NotAReply("odd".into()), "unknown", "invalid_response"),
        ];
        for (error, write, class) in cases {
            let outcome = of_line(&error, true);
            let (Outcome::Failed(cause) | Outcome::Unknown(cause)) = &outcome else { panic!("{error}") };
            assert_eq!((word(&outcome), cause.class), (write, class));
            assert_eq!(word(&of_line(&error, false)), "failed");
        }
    }
}
