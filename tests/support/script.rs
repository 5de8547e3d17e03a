//! What a fake server is told to do wrong, and when.

use std::ops::Range;
use std::time::Duration;

/// Plan of one fake server. The default answers everything at once and correctly.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Time between the arrival of a data command and its reply. A command takes effect at the end
    /// of it.
    pub service_time: Duration,
    /// What the times of the windows count from.
    pub origin: Origin,
    /// While one lasts, nothing takes effect and no reply of any kind leaves; at its end all that
    /// was held is answered at once.
    pub freezes: Vec<Range<Duration>>,
    /// What arrives while one lasts is never answered and never takes effect, but for `hello`.
    pub swallows: Vec<Range<Duration>>,
    /// The first rule that fits a command decides.
    pub rules: Vec<Rule>,
}

/// Moment at which the windows of a script start to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Arrival of the first data command.
    #[default]
    FirstDataCommand,
    /// Arrival of the n-th command of this name.
    Arrival(&'static str, u64),
    /// The call of `arm`.
    Call,
}

/// The name that rules use for the first `hello` of a connection of the tester's own client; to the counts
/// it is a `hello` like any other.
pub const GREETING: &str = "greeting";

/// Special treatment of some commands of one name.
#[derive(Clone, Debug)]
pub struct Rule {
    pub command: &'static str,
    pub when: When,
    pub answer: Answer,
}

impl Rule {
    /// A rule for inserts.
    pub fn insert(when: When, answer: Answer) -> Self {
        Self { command: "insert", when, answer }
    }
}

/// Which commands of a name, counted from 1 in the order of their arrival.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// This one.
    Nth(u64),
    /// Every n-th one.
    Every(u64),
    /// All up to this one.
    First(u64),
}

impl When {
    pub fn fits(self, number: u64) -> bool {
        match self {
            Self::Nth(n) => number == n,
            Self::Every(n) => number.is_multiple_of(n),
            Self::First(n) => number <= n,
        }
    }
}

/// What happens to a command.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Refused as a whole, without effect.
    Error { code: i32, labels: Vec<&'static str> },
    /// Takes effect; the reply says that the write concern was not met.
    WriteConcernError { code: i32 },
    /// The writes at these indexes are refused; the others happen, in an ordered command only those
    /// before the first refused one.
    WriteErrors { indexes: Vec<usize>, code: i32 },
    /// Takes effect; the first half of the reply is sent, then the connection is closed.
    CutReply,
    /// Takes effect and is answered this much later.
    Late(Duration),
    /// Without effect and without an answer: the connection is closed.
    HangUp,
    /// Takes effect and is answered; then the connection is closed.
    Goodbye,
    /// An insert: takes effect, and the answer is that to a second try of a driver that lost the first one.
    AsSecondTry,
    /// A find: the last document comes twice, the one before it not at all.
    LastTwice,
    /// A delete: answered as if it had been done.
    WithoutEffect,
}

/// Name of an error code, as in `error_codes.yml` of the server.
pub fn code_name(code: i32) -> &'static str {
    match code {
        2 => "BadValue",
        59 => "CommandNotFound",
        64 => "WriteConcernTimeout",
        91 => "ShutdownInProgress",
        112 => "WriteConflict",
        121 => "DocumentValidationFailure",
        189 => "PrimarySteppedDown",
        10107 => "NotWritablePrimary",
        11000 => "DuplicateKey",
        11600 => "InterruptedAtShutdown",
        11602 => "InterruptedDueToReplStateChange",
        _ => "UnknownError",
    }
}
