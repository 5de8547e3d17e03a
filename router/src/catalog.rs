//! The routing table: databases, collections and chunks as the config servers have them now.

use bson::{Bson, Document, Uuid, doc};

use crate::places::{Places, first_batch};
use crate::refusal::Refusal;

/// A database, and the shard that holds its unsharded collections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub primary: String,
    pub version: Document,
}

/// A sharded collection.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    pub namespace: String,
    pub uuid: Uuid,
    pub key: Document,
    pub epoch: Bson,
    pub timestamp: Bson,
}

/// A range of a collection.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub min: Document,
    pub max: Document,
    pub shard: String,
}

/// `database.collection` in two parts.
pub(crate) fn split_namespace(namespace: &str) -> Result<(&str, &str), Refusal> {
    let parts = namespace.split_once('.').filter(|(database, rest)| !database.is_empty() && !rest.is_empty());
    parts.ok_or_else(|| Refusal::bad_value(format!("{namespace:?} is not database.collection")))
}

impl Places {
    async fn find_one(&self, collection: &str, filter: Document) -> Result<Option<Document>, Refusal> {
        let find = doc! { "find": collection, "filter": filter, "limit": 1, "singleBatch": true };
        let reply = self.read_config(&find).await?;
        Ok(first_batch(&reply).into_iter().next())
    }

    /// `None` if there is no such database.
    pub async fn database(&self, name: &str) -> Result<Option<Database>, Refusal> {
        let version = Document::new();
        if name == "config" || name == "admin" {
            return Ok(Some(Database { primary: "config".into(), version }));
        }
        let found = self.find_one("databases", doc! { "_id": name }).await?;
        found.map(|found| Database::of(&found).ok_or_else(|| unreadable("databases", name))).transpose()
    }

    /// Makes the database if it is not there.
    pub async fn database_made(&self, name: &str) -> Result<Database, Refusal> {
        if let Some(database) = self.database(name).await? {
            return Ok(database);
        }
        self.create_database(name, None).await?;
        self.database(name).await?.ok_or_else(|| Refusal::namespace_not_found(name))
    }

    /// Succeeds if it is there, unless with another primary shard.
    pub async fn create_database(&self, name: &str, primary: Option<&str>) -> Result<(), Refusal> {
        let mut command = doc! { "_configsvrCreateDatabase": name };
        if let Some(primary) = primary {
            command.insert("primaryShardId", primary);
        }
        command.insert("writeConcern", majority());
        self.on_config("admin", &command).await.map(drop)
    }

    /// `None` if there is no such sharded collection.
    pub async fn collection(&self, namespace: &str) -> Result<Option<Collection>, Refusal> {
        let found = self.find_one("collections", doc! { "_id": namespace }).await?;
        let read = |found| Collection::of(&found).ok_or_else(|| unreadable("collections", namespace));
        found.map(read).transpose()
    }

    pub async fn sharded(&self, namespace: &str) -> Result<Collection, Refusal> {
        self.collection(namespace).await?.ok_or_else(|| Refusal::not_sharded(namespace))
    }

    /// The chunk whose range holds this value of the shard key.
    pub async fn chunk_holding(&self, collection: &Collection, key: &Document) -> Result<Chunk, Refusal> {
        let filter = doc! { "uuid": collection.uuid, "min": { "$lte": key }, "max": { "$gt": key } };
        self.chunk(filter, || format!("no chunk of {} holds {key}", collection.namespace)).await
    }

    /// The chunk that begins here; with `max` it must end there, too.
    pub async fn chunk_from(
        &self,
        collection: &Collection,
        min: &Document,
        max: Option<&Document>,
    ) -> Result<Chunk, Refusal> {
        let mut filter = doc! { "uuid": collection.uuid, "min": min };
        if let Some(max) = max {
            filter.insert("max", max);
        }
        self.chunk(filter, || format!("no chunk of {} has the bounds from {min}", collection.namespace)).await
    }

    async fn chunk(&self, filter: Document, missing: impl Fn() -> String) -> Result<Chunk, Refusal> {
        let found = self.find_one("chunks", filter).await?;
        found.as_ref().and_then(Chunk::of).ok_or_else(|| Refusal::bad_value(missing()))
    }

    /// Shards that own chunks of the collection.
    pub async fn owners(&self, collection: &Collection) -> Result<Vec<String>, Refusal> {
        let distinct = doc! { "distinct": "chunks", "key": "shard", "query": { "uuid": collection.uuid } };
        let reply = self.read_config(&distinct).await?;
        let values = reply.get_array("values").map(Vec::as_slice).unwrap_or_default().iter();
        Ok(values.filter_map(Bson::as_str).map(str::to_owned).collect())
    }

    /// Shards on which a collection has to be looked for, and whether it is sharded: the owners of its chunks, or
    /// the primary shard of its database. Empty if the database does not exist.
    pub async fn homes(&self, namespace: &str) -> Result<(Vec<String>, bool), Refusal> {
        if let Some(collection) = self.collection(namespace).await? {
            return Ok((self.owners(&collection).await?, true));
        }
        let database = self.database(split_namespace(namespace)?.0).await?;
        Ok((database.into_iter().map(|database| database.primary).collect(), false))
    }
}

/// What changes of the cluster must reach before they count.
pub(crate) fn majority() -> Document {
    doc! { "w": "majority", "wtimeout": 60_000 }
}

fn unreadable(collection: &str, id: &str) -> Refusal {
    Refusal::bad_value(format!("cannot read config.{collection} of {id}"))
}

impl Database {
    fn of(document: &Document) -> Option<Self> {
        let version = document.get_document("version").ok()?.clone();
        Some(Self { primary: document.get_str("primary").ok()?.to_owned(), version })
    }
}

impl Collection {
    fn of(document: &Document) -> Option<Self> {
        let Some(Bson::Binary(uuid)) = document.get("uuid") else { return None };
        Some(Self {
            namespace: document.get_str("_id").ok()?.to_owned(),
            uuid: uuid.to_uuid().ok()?,
            key: document.get_document("key").ok()?.clone(),
            epoch: document.get("lastmodEpoch")?.clone(),
            timestamp: document.get("timestamp")?.clone(),
        })
    }
}

impl Chunk {
    fn of(document: &Document) -> Option<Self> {
        Some(Self {
            min: document.get_document("min").ok()?.clone(),
            max: document.get_document("max").ok()?.clone(),
            shard: document.get_str("shard").ok()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_two_parts() {
        assert_eq!(split_namespace("a.b.c"), Ok(("a", "b.c")));
        for wrong in ["", "a", "a.", ".b"] {
            assert_eq!(split_namespace(wrong).unwrap_err().code, 2, "{wrong}");
        }
    }

    #[test]
    fn a_collection_is_read_from_its_document() {
        let uuid = Uuid::new();
        let document =
            doc! { "_id": "d.c", "uuid": uuid, "key": { "k": 1 }, "lastmodEpoch": 1, "timestamp": 2 };
        let collection = Collection::of(&document).unwrap();
        assert_eq!((collection.uuid, collection.key), (uuid, doc! { "k": 1 }));
        assert!(Collection::of(&doc! { "_id": "d.c" }).is_none());
    }
}
