//! The seam to the database: one request in, one outcome per key out.
//!
//! `driver` sends by the MongoDB driver, `wire` by our own client; `judge` knows what an answer means,
//! whoever brought it.

mod driver;
mod judge;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;

use crate::dataset::Documents;
use crate::ledger::Ledger;
use crate::outcome::{Cause, Outcome};
use crate::scenario::{Dataset, Workload};

use driver::Driver;
use judge::Judge;

pub use wire::{Monitor, Session, Traffic, Wire};

/// One operation, decided before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// New documents under consecutive keys.
    Insert {
        /// First key.
        first: u64,
        /// How many, at least 1.
        count: u64,
    },
    /// One document by its key, which was acknowledged.
    Read {
        /// Its key.
        key: u64,
    },
    /// A new version of one document.
    Update {
        /// Its key.
        key: u64,
        /// The version to write.
        version: u32,
    },
}

impl Request {
    /// What is known of it when no answer came in time: a read has failed, a write may have been applied.
    #[must_use]
    pub fn given_up(self, deadline: Duration) -> Outcomes {
        let cause = Cause::deadline(deadline.as_secs_f64());
        Outcomes::One(match self {
            Self::Read { .. } => Outcome::Failed(cause),
            Self::Insert { .. } | Self::Update { .. } => Outcome::Unknown(cause),
        })
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
    fn of(&self, index: usize) -> Option<&Outcome> {
        match self {
            Self::One(outcome) => Some(outcome),
            Self::Each(all) => all.get(index),
        }
    }
}

/// The collection as one workload sees it: with its own write concern and read preference.
#[derive(Clone, Debug)]
pub struct Store {
    driver: Driver,
    judge: Judge,
}

impl Store {
    /// The dataset's collection for this workload.
    #[must_use]
    pub fn new(
        client: &Client,
        dataset: &Dataset,
        workload: &Workload,
        documents: Documents,
        ledger: Arc<Ledger>,
    ) -> Self {
        let driver = Driver::new(client, dataset, workload, documents.clone());
        let judge = Judge::new(workload, documents, ledger);
        Self { driver, judge }
    }

    /// Does it. The books stay as they are: see [`Store::book`].
    pub async fn execute(&self, request: Request) -> Outcomes {
        let (driver, judge) = (&self.driver, &self.judge);
        match request {
            Request::Insert { first, count: 1 } => Outcomes::One(driver.insert_one(first).await),
            Request::Insert { first, count } => driver.insert_batch(first, count).await,
            Request::Read { key } => Outcomes::One(match driver.read(key).await {
                Ok(found) => judge.read(key, found.as_deref()),
                Err(failed) => failed,
            }),
            Request::Update { key, version } => Outcomes::One(match driver.update(key, version).await {
                Ok(matched) => judge.changed(key, matched),
                Err(failed) => failed,
            }),
        }
    }

    /// The same collection by our own client.
    #[must_use]
    pub fn wire(&self, monitor: &Monitor, dataset: &Dataset, workload: &Workload) -> Wire {
        Wire::new(monitor, dataset, workload, &self.judge)
    }

    /// Books the outcomes of an insert in the ledger; other requests leave no trace there.
    pub fn book(&self, request: Request, outcomes: &Outcomes) {
        self.judge.book(request, outcomes);
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
        assert!(matches!(after(Request::Read { key: 1 }), Outcome::Failed(cause) if cause.timed_out));
        let insert = Request::Insert { first: 1, count: 2 };
        assert!(matches!(after(insert), Outcome::Unknown(cause) if cause.timed_out));
        assert!(matches!(after(Request::Update { key: 1, version: 1 }), Outcome::Unknown(_)));
    }
}
