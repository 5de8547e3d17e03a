//! The documented exit codes, and which of several wins. Knows nothing else.

use serde::{Deserialize, Serialize};

/// What a run (or any other command) came to. The text form stands in `report.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every limit held, the data was checked, every planned fault took effect and was healed.
    Pass,
    /// A limit was broken.
    Fail,
    /// Bad command line, scenario or plan; nothing was touched.
    Usage,
    /// An acknowledged majority write was lost, or a document is corrupt, duplicated or invented.
    Violation,
    /// The evidence does not carry a verdict.
    Inconclusive,
    /// The tester or its infrastructure broke.
    Error,
    /// Stopped by the user; everything was healed.
    Interrupted,
}

impl Outcome {
    /// The process exit code of this outcome.
    pub const fn code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Usage => 2,
            Self::Violation => 3,
            Self::Inconclusive => 4,
            Self::Error => 5,
            Self::Interrupted => 130,
        }
    }

    /// Rank when several hold at once: 3 before 5 before 130 before 1 before 4 before 0.
    const fn rank(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Inconclusive => 1,
            Self::Fail => 2,
            Self::Interrupted => 3,
            Self::Error => 4,
            Self::Violation => 5,
            Self::Usage => 6,
        }
    }

    /// The outcome that wins when both hold.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Lower-case word, as in `report.json`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Usage => "usage",
            Self::Violation => "violation",
            Self::Inconclusive => "inconclusive",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Outcome> for std::process::ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{self, *};

    #[test]
    fn the_documented_order_decides_when_several_hold() {
        let order = [Violation, Error, Interrupted, Fail, Inconclusive, Pass];
        for (i, high) in order.iter().enumerate() {
            for low in &order[i..] {
                assert_eq!(high.worse(*low), *high);
                assert_eq!(low.worse(*high), *high);
            }
        }
        assert_eq!(order.map(Outcome::code), [3, 5, 130, 1, 4, 0]);
    }
}
