//! What is asked for, and what became of it.

use std::time::Duration;

use crate::outcome::{Cause, Outcome};

/// One operation, decided before it is sent. Keys are acknowledged ones, but for those of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// New documents under consecutive keys.
    Insert {
        /// First key.
        first: u64,
        /// How many, at least 1.
        count: u64,
    },
    /// One document by its key.
    Read {
        /// Its key.
        key: u64,
    },
    /// Documents by an indexed field.
    Find {
        /// Key of a document whose first value is asked for.
        key: u64,
    },
    /// Documents in the order of their keys.
    Scan {
        /// The first key.
        key: u64,
        /// At most this many, at least 1.
        length: u32,
    },
    /// A new version of one document: its fields are set.
    Update {
        /// Its key.
        key: u64,
        /// The version to write.
        version: u32,
    },
    /// A new version of one document: it is replaced.
    Replace {
        /// Its key.
        key: u64,
        /// The version to write.
        version: u32,
    },
    /// Reads one document, compares it and updates it.
    ReadModifyWrite {
        /// Its key.
        key: u64,
        /// The version to write.
        version: u32,
    },
    /// Deletes one document.
    Delete {
        /// Its key, which was claimed for that.
        key: u64,
    },
    /// Number, lowest and highest key of the documents in a range of keys.
    Count {
        /// The first key.
        key: u64,
        /// Keys in the range, at least 1.
        length: u32,
    },
    /// The user's own aggregation.
    Pipeline {
        /// What it may ask for as `$$key`.
        key: u64,
    },
}

impl Request {
    /// What is known of it when no answer came in time: a read has failed, a write may have been applied.
    #[must_use]
    pub fn given_up(self, deadline: Duration) -> Outcomes {
        let cause = Cause::deadline(deadline.as_secs_f64());
        Outcomes::One(if self.is_write() { Outcome::Unknown(cause) } else { Outcome::Failed(cause) })
    }

    const fn is_write(self) -> bool {
        match self {
            Self::Insert { .. }
            | Self::Update { .. }
            | Self::Replace { .. }
            | Self::ReadModifyWrite { .. }
            | Self::Delete { .. } => true,
            Self::Read { .. }
            | Self::Find { .. }
            | Self::Scan { .. }
            | Self::Count { .. }
            | Self::Pipeline { .. } => false,
        }
    }
}

/// What became of a request. Nothing is allocated for one that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcomes {
    /// The same for all keys of the request; most have just one.
    One(Outcome),
    /// One for each key of a batch, in the order of the keys.
    Each(Vec<Outcome>),
}

impl Outcomes {
    /// An operation is as good as its worst key: unknown before failed before ok. Of equals the first: the
    /// later keys of an ordered batch were not attempted because of it.
    #[must_use]
    pub fn worst(self) -> Outcome {
        let rank = |o: &Outcome| match o {
            Outcome::Ok => 0,
            Outcome::Failed(_) => 1,
            Outcome::Unknown(_) => 2,
        };
        match self {
            Self::One(outcome) => outcome,
            Self::Each(all) => all.into_iter().rev().max_by_key(rank).unwrap_or(Outcome::Ok),
        }
    }

    /// The outcome of the key at this place of the request.
    pub(super) fn of(&self, index: usize) -> Option<&Outcome> {
        match self {
            Self::One(outcome) => Some(outcome),
            Self::Each(all) => all.get(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_as_good_as_its_worst_key_and_the_first_of_these_says_why() {
        let failed = |class| Outcome::Failed(Cause::new(class, ""));
        let unknown = Outcome::Unknown(Cause::new("network", ""));
        let each = |all: &[Outcome]| Outcomes::Each(all.to_vec()).worst();
        assert_eq!(each(&[Outcome::Ok, failed("a"), failed("b"), Outcome::Ok]), failed("a"));
        assert_eq!(each(&[failed("a"), unknown.clone(), Outcome::Ok]), unknown);
        assert_eq!(each(&[Outcome::Ok, Outcome::Ok]), Outcome::Ok);
        assert_eq!(Outcomes::One(unknown.clone()).worst(), unknown);
    }

    #[test]
    fn without_an_answer_a_read_failed_and_a_write_may_have_been_applied() {
        let after = |request: Request| request.given_up(Duration::from_secs(1)).worst();
        for read in [Request::Read { key: 1 }, Request::Scan { key: 1, length: 2 }] {
            assert!(matches!(after(read), Outcome::Failed(cause) if cause.timed_out));
        }
        for write in [Request::Insert { first: 1, count: 2 }, Request::Delete { key: 1 }] {
            assert!(matches!(after(write), Outcome::Unknown(cause) if cause.timed_out));
        }
    }
}
