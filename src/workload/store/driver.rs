//! Sends by the MongoDB driver. What an answer means is not known here.
//!
//! Every call says why it was not acknowledged; reads of many documents show each of them to the caller.

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::{
    CollectionOptions, ReadConcern as DriverReadConcern, ReadPreference as DriverReadPreference,
    SelectionCriteria, WriteConcern as DriverWriteConcern,
};
use mongodb::{Client, Collection, Cursor};

use super::Outcomes;
use super::asked::{Asked, Counted};
use crate::dataset::Documents;
use crate::outcome::{self, Cause, Outcome};
use crate::scenario::{Dataset, ReadConcern, ReadPreference, Workload, WriteConcern};

/// A collection of the driver with the concerns of one workload, and what its operations ask for.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    collection: Collection<RawDocumentBuf>,
    documents: Documents,
    pub(super) asked: Asked,
}

impl Driver {
    pub(super) fn new(client: &Client, dataset: &Dataset, workload: &Workload, documents: Documents) -> Self {
        let options = CollectionOptions::builder()
            .write_concern(driver_write_concern(workload.write_concern))
            .read_concern(driver_read_concern(workload.read_concern))
            .selection_criteria(SelectionCriteria::ReadPreference(driver_preference(
                workload.read_preference,
            )))
            .build();
        let database = client.database(&dataset.database);
        let collection = database.collection_with_options(&dataset.collection, options);
        Self { collection, documents, asked: Asked::of(workload) }
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
        match self.collection.insert_many(documents).ordered(self.asked.ordered).await {
            Ok(_) => Outcomes::One(Outcome::Ok),
            Err(error) => Outcomes::Each(outcome::of_batch(&error, total, self.asked.ordered)),
        }
    }

    /// The document of a key, if there is one.
    pub(super) async fn read(&self, key: u64) -> Result<Option<RawDocumentBuf>, Outcome> {
        let found = self.collection.find_one(doc! { "_id": self.documents.id(key) }).await;
        found.map_err(|error| outcome::of_read(&error))
    }

    /// Documents whose field has this value.
    pub(super) async fn find(&self, value: Bson, see: impl FnMut(&RawDocument)) -> Result<(), Outcome> {
        self.many(doc! { &self.asked.field: value }, doc! {}, self.asked.limit, see).await
    }

    /// Documents from a key on, in the order of the keys.
    pub(super) async fn scan(
        &self,
        key: u64,
        length: u32,
        see: impl FnMut(&RawDocument),
    ) -> Result<(), Outcome> {
        self.many(doc! { "_id": { "$gte": self.documents.id(key) } }, doc! { "_id": 1 }, length, see).await
    }

    /// All in one answer where they fit: of exactly `limit` documents some servers would keep the cursor.
    async fn many(
        &self,
        filter: Document,
        sort: Document,
        limit: u32,
        see: impl FnMut(&RawDocument),
    ) -> Result<(), Outcome> {
        let find = self.collection.find(filter).limit(limit.into()).batch_size(limit.saturating_add(1));
        let found = if sort.is_empty() { find.await } else { find.sort(sort).await };
        drain(found.map_err(|error| outcome::of_read(&error))?, see).await
    }

    /// How many documents were there to be updated.
    pub(super) async fn update(&self, key: u64, version: u32) -> Result<u64, Outcome> {
        let change = decode(&self.documents.update(key, version))
            .map_err(|error| Outcome::Failed(Cause::new("invalid_update", error.to_string())))?;
        let updated = self.collection.update_one(doc! { "_id": self.documents.id(key) }, change).await;
        updated.map(|result| result.matched_count).map_err(|error| outcome::of_write(&error))
    }

    /// How many documents were there to be replaced.
    pub(super) async fn replace(&self, key: u64, version: u32) -> Result<u64, Outcome> {
        let document = self.documents.document(key, version);
        let replaced = self.collection.replace_one(doc! { "_id": self.documents.id(key) }, document).await;
        replaced.map(|result| result.matched_count).map_err(|error| outcome::of_write(&error))
    }

    /// How many documents were deleted.
    pub(super) async fn delete(&self, key: u64) -> Result<u64, Outcome> {
        let deleted = self.collection.delete_one(doc! { "_id": self.documents.id(key) }).await;
        deleted.map(|result| result.deleted_count).map_err(|error| outcome::of_write(&error))
    }

    /// Counts the documents of a range of keys on the server.
    pub(super) async fn count(&self, key: u64, length: u32) -> Result<Option<Counted>, Outcome> {
        let cursor = self
            .collection
            .aggregate(Counted::stages(&self.documents, key, length))
            .await
            .map_err(|error| outcome::of_read(&error))?;
        let mut counted = Ok(None);
        drain(cursor, |raw| counted = Counted::read(raw).map(Some)).await?;
        counted.map_err(|why| Outcome::Failed(Cause::new("invalid_response", why)))
    }

    /// The user's aggregation.
    pub(super) async fn pipeline(&self, key: u64) -> Result<(), Outcome> {
        let aggregate = self.collection.aggregate(self.asked.pipeline.iter().cloned());
        let aggregate = if self.asked.pipeline_takes_key {
            aggregate.let_vars(doc! { "key": self.documents.id(key) })
        } else {
            aggregate
        };
        let cursor = aggregate.await.map_err(|error| outcome::of_read(&error))?;
        drain(cursor, |_| {}).await
    }
}

/// Shows every document and ends the cursor.
async fn drain<T>(mut cursor: Cursor<T>, mut see: impl FnMut(&RawDocument)) -> Result<(), Outcome> {
    while cursor.advance().await.map_err(|error| outcome::of_read(&error))? {
        see(cursor.current());
    }
    Ok(())
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

fn driver_read_concern(concern: ReadConcern) -> DriverReadConcern {
    match concern {
        ReadConcern::Local => DriverReadConcern::local(),
        ReadConcern::Available => DriverReadConcern::available(),
        ReadConcern::Majority => DriverReadConcern::majority(),
        ReadConcern::Linearizable => DriverReadConcern::linearizable(),
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
