//! Sends by the MongoDB driver. What an answer means is not known here.

use bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{
    CollectionOptions, ReadConcern, ReadPreference as DriverReadPreference, SelectionCriteria,
    WriteConcern as DriverWriteConcern,
};
use mongodb::{Client, Collection};

use super::Outcomes;
use crate::dataset::{Documents, id};
use crate::outcome::{self, Cause, Outcome};
use crate::scenario::{Dataset, ReadPreference, Workload, WriteConcern};

/// A collection of the driver with the concerns of one workload.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    collection: Collection<RawDocumentBuf>,
    documents: Documents,
}

impl Driver {
    pub(super) fn new(client: &Client, dataset: &Dataset, workload: &Workload, documents: Documents) -> Self {
        let options = CollectionOptions::builder()
            .write_concern(driver_write_concern(workload.write_concern))
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::ReadPreference(driver_preference(
                workload.read_preference,
            )))
            .build();
        let database = client.database(&dataset.database);
        let collection = database.collection_with_options(&dataset.collection, options);
        Self { collection, documents }
    }

    pub(super) async fn insert_one(&self, key: u64) -> Outcome {
        match self.collection.insert_one(self.documents.document(key, 0)).await {
            Ok(_) => Outcome::Ok,
            Err(error) => outcome::of_write(&error),
        }
    }

    pub(super) async fn insert_batch(&self, first: u64, count: u64) -> Outcomes {
        let documents = (first..first + count).map(|key| self.documents.document(key, 0));
        let total = usize::try_from(count).unwrap_or(usize::MAX);
        match self.collection.insert_many(documents).ordered(true).await {
            Ok(_) => Outcomes::One(Outcome::Ok),
            Err(error) => Outcomes::Each(outcome::of_batch(&error, total, true)),
        }
    }

    /// The document of a key, if there is one; or why there was no answer.
    pub(super) async fn read(&self, key: u64) -> Result<Option<RawDocumentBuf>, Outcome> {
        let found = self.collection.find_one(doc! { "_id": id(key) }).await;
        found.map_err(|error| outcome::of_read(&error))
    }

    /// How many documents were there to be changed; or why it was not acknowledged.
    pub(super) async fn update(&self, key: u64, version: u32) -> Result<u64, Outcome> {
        let change = decode(&self.documents.update(key, version))
            .map_err(|error| Outcome::Failed(Cause::new("invalid_update", error.to_string())))?;
        match self.collection.update_one(doc! { "_id": id(key) }, change).await {
            Ok(result) => Ok(result.matched_count),
            Err(error) => Err(outcome::of_write(&error)),
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
