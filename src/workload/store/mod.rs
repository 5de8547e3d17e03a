//! The seam to the database: one request in, one outcome per key out.
//!
//! `driver` sends by the MongoDB driver, `wire` by our own client; `judge` and `many` know what an answer
//! means, whoever brought it.

mod asked;
mod driver;
mod judge;
mod many;
mod read_back;
mod request;
mod wire;

use std::sync::Arc;

use mongodb::Client;

use crate::dataset::Documents;
use crate::ledger::Ledger;
use crate::outcome::Outcome;
use crate::scenario::{Dataset, Workload};

use driver::Driver;
use judge::Judge;
use read_back::ReadBack;
pub use request::{Outcomes, Request};

pub use wire::{Monitor, Session, Traffic, Wire};

/// The collection as one workload sees it: with its own concerns and read preference.
#[derive(Clone, Debug)]
pub struct Store {
    driver: Driver,
    judge: Judge,
    read_back: ReadBack,
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
        let read_back = ReadBack::new(client, dataset, documents.clone(), Arc::clone(&ledger));
        let judge = Judge::new(workload, documents, ledger);
        Self { driver, judge, read_back }
    }

    /// Does it. The books stay as they are: see [`Store::book`].
    pub async fn execute(&self, request: Request) -> Outcomes {
        if let Request::Insert { first, count } = request {
            return self.insert(first, count).await;
        }
        Outcomes::One(self.one(request).await.unwrap_or_else(|not_acknowledged| not_acknowledged))
    }

    /// The same collection by our own client.
    #[must_use]
    pub fn wire(&self, monitor: &Monitor, dataset: &Dataset, workload: &Workload) -> Wire {
        Wire::new(monitor, dataset, workload, &self.judge)
    }

    /// Books the outcomes of inserts and deletes in the ledger; other requests leave no trace there.
    pub fn book(&self, request: Request, outcomes: &Outcomes) {
        self.judge.book(request, outcomes);
    }

    async fn insert(&self, first: u64, count: u64) -> Outcomes {
        let outcomes = match count {
            1 => Outcomes::One(self.driver.insert_one(first).await),
            _ => self.driver.insert_batch(first, count).await,
        };
        self.read_back.settle(first, count, outcomes).await
    }

    /// A request with one outcome.
    async fn one(&self, request: Request) -> Result<Outcome, Outcome> {
        let (driver, judge) = (&self.driver, &self.judge);
        Ok(match request {
            // Has an outcome for each key.
            Request::Insert { .. } => Outcome::Ok,
            Request::Read { key } => judge.read(key, driver.read(key).await?.as_deref()),
            Request::Find { key } => self.find(key).await?,
            Request::Scan { key, length } => {
                let mut check = judge.scan(key, length);
                driver.scan(key, length, |raw| check.see(raw)).await?;
                check.judge()
            }
            Request::Update { key, version } => {
                judge.will_change();
                judge.changed(key, driver.update(key, version).await?)
            }
            Request::Replace { key, version } => {
                judge.will_change();
                judge.changed(key, driver.replace(key, version).await?)
            }
            Request::ReadModifyWrite { key, version } => self.read_modify_write(key, version).await?,
            Request::Delete { key } => judge.deleted(key, driver.delete(key).await?),
            Request::Count { key, length } => {
                let expected = judge.expected(key, length);
                judge.counted(key, length, expected, driver.count(key, length).await?)
            }
            Request::Pipeline { key } => {
                driver.pipeline(key).await?;
                Outcome::Ok
            }
        })
    }

    async fn find(&self, key: u64) -> Result<Outcome, Outcome> {
        let mut check = self.judge.find(key, &self.driver.asked.field)?;
        let limit = self.driver.asked.limit;
        self.driver.find(check.wanted(), |raw| check.see(raw)).await?;
        match check.judge(limit) {
            Ok(outcome) => Ok(outcome),
            Err(missed) => {
                // Strange, but right if somebody else changed the document: look at it itself.
                let found = self.driver.read(key).await?;
                Ok(self.judge.missed_by_index(missed, found.as_deref()))
            }
        }
    }

    async fn read_modify_write(&self, key: u64, version: u32) -> Result<Outcome, Outcome> {
        let found = self.driver.read(key).await?;
        let read = self.judge.read(key, found.as_deref());
        if read != Outcome::Ok || found.is_none() {
            return Ok(read);
        }
        self.judge.will_change();
        Ok(self.judge.changed(key, self.driver.update(key, version).await?))
    }
}
