//! The seam to the database: one request in, one outcome per key out.

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{
    CollectionOptions, ReadConcern, ReadPreference as DriverReadPreference, SelectionCriteria,
    WriteConcern as DriverWriteConcern,
};
use mongodb::{Client, Collection};

use crate::dataset::{Documents, id};
use crate::ledger::Ledger;
use crate::outcome::{self, Cause, Outcome};
use crate::scenario::{Dataset, ReadPreference, Workload, WriteConcern};

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

/// The collection as one workload sees it: with its own write concern and read preference.
#[derive(Clone, Debug)]
pub struct Store {
    collection: Collection<RawDocumentBuf>,
    documents: Documents,
    ledger: Arc<Ledger>,
    reads_primary: bool,
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
        let options = CollectionOptions::builder()
            .write_concern(driver_write_concern(workload.write_concern))
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::ReadPreference(driver_preference(
                workload.read_preference,
            )))
            .build();
        let database = client.database(&dataset.database);
        let collection = database.collection_with_options(&dataset.collection, options);
        let reads_primary = workload.read_preference == ReadPreference::Primary;
        Self { collection, documents, ledger, reads_primary }
    }

    /// Does it. One outcome per key, in the order of the keys.
    pub async fn execute(&self, request: Request) -> Vec<Outcome> {
        match request {
            Request::Insert { first, count: 1 } => vec![self.insert_one(first).await],
            Request::Insert { first, count } => self.insert_batch(first, count).await,
            Request::Read { key } => vec![self.read(key).await],
            Request::Update { key, version } => vec![self.update(key, version).await],
        }
    }

    /// Books the outcomes of an insert in the ledger; other requests leave no trace there.
    pub fn book(&self, request: Request, outcomes: &[Outcome]) {
        let Request::Insert { first, .. } = request else {
            return;
        };
        for (key, outcome) in (first..).zip(outcomes) {
            match outcome {
                Outcome::Ok => self.ledger.acknowledge(key),
                Outcome::Failed(_) => self.ledger.refuse(key),
                Outcome::Unknown(_) => {}
            }
        }
    }

    async fn insert_one(&self, key: u64) -> Outcome {
        match self.collection.insert_one(self.documents.document(key, 0)).await {
            Ok(_) => Outcome::Ok,
            Err(error) => outcome::of_write(&error),
        }
    }

    async fn insert_batch(&self, first: u64, count: u64) -> Vec<Outcome> {
        let documents = (first..first + count).map(|key| self.documents.document(key, 0));
        let total = usize::try_from(count).unwrap_or(usize::MAX);
        match self.collection.insert_many(documents).ordered(true).await {
            Ok(_) => vec![Outcome::Ok; total],
            Err(error) => outcome::of_batch(&error, total, true),
        }
    }

    async fn read(&self, key: u64) -> Outcome {
        match self.collection.find_one(doc! { "_id": id(key) }).await {
            Ok(Some(found)) => match self.documents.check(&found) {
                Ok((found_key, _)) if found_key == key => Outcome::Ok,
                Ok((other, _)) => self.wrong_content(format!("asked for key {key}, got key {other}")),
                Err(error) => self.wrong_content(format!("key {key}: {error}")),
            },
            Ok(None) => self.not_found(key),
            Err(error) => outcome::of_read(&error),
        }
    }

    /// The server answered, but not with what was acknowledged. A secondary may lag, and what was
    /// acknowledged below majority may be rolled back: those are stale reads, and legal. The final check
    /// decides what is lost.
    fn not_found(&self, key: u64) -> Outcome {
        self.ledger.note_stale_read();
        if self.reads_primary && self.ledger.is_majority(key) {
            Outcome::Failed(Cause::new("not_found", format!("acknowledged key {key} was not found")))
        } else {
            Outcome::Ok
        }
    }

    fn wrong_content(&self, text: String) -> Outcome {
        self.ledger.note_corrupt_read();
        Outcome::Failed(Cause::new("wrong_content", text))
    }

    async fn update(&self, key: u64, version: u32) -> Outcome {
        let change = match decode(&self.documents.update(key, version)) {
            Ok(change) => change,
            Err(error) => return Outcome::Failed(Cause::new("invalid_update", error.to_string())),
        };
        match self.collection.update_one(doc! { "_id": id(key) }, change).await {
            Ok(result) if result.matched_count == 1 => Outcome::Ok,
            Ok(_) => self.not_found(key),
            Err(error) => outcome::of_write(&error),
        }
    }
}

/// The driver takes an update only as a document, not as bytes.
fn decode(bytes: &[u8]) -> Result<Document, bson::error::Error> {
    Document::try_from(RawDocument::from_bytes(bytes)?)
}

fn driver_write_concern(concern: WriteConcern) -> DriverWriteConcern {
    match concern {
        WriteConcern::Majority => DriverWriteConcern::majority(),
        WriteConcern::Nodes(n) => DriverWriteConcern::nodes(n),
    }
}

fn driver_preference(preference: ReadPreference) -> DriverReadPreference {
    let options = None;
    match preference {
        ReadPreference::Primary => DriverReadPreference::Primary,
        ReadPreference::PrimaryPreferred => DriverReadPreference::PrimaryPreferred { options },
        ReadPreference::Secondary => DriverReadPreference::Secondary { options },
        ReadPreference::SecondaryPreferred => DriverReadPreference::SecondaryPreferred { options },
        ReadPreference::Nearest => DriverReadPreference::Nearest { options },
    }
}
