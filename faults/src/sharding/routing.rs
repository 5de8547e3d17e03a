//! The routing table: what is where, as `config` says it through the router.

use std::time::Duration;

use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use crate::{CommandError, FaultError, Site};

/// `config` is small, and its servers may be at an election.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);
/// Chunks of one collection that are looked at.
const MOST_CHUNKS: i32 = 10_000;
/// While a config server is elected: try again.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// A sharded collection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Collection {
    pub namespace: String,
    /// What its chunks are found by: its identifier, or its name on old servers.
    filter: Document,
}

/// A range of the shard key, and who has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chunk {
    pub min: Document,
    pub max: Document,
    pub shard: String,
}

impl Chunk {
    /// Its range, for evidence.
    pub fn range(&self) -> Value {
        json!([text(&self.min), text(&self.max)])
    }

    /// `[min, max]`, as the commands of a mongos take it.
    pub fn bounds(&self) -> Vec<Document> {
        vec![self.min.clone(), self.max.clone()]
    }
}

fn text(bound: &Document) -> String {
    let key = |(name, value): (&String, &Bson)| {
        let value = match value {
            Bson::MinKey => "MinKey".to_owned(),
            Bson::MaxKey => "MaxKey".to_owned(),
            other => other.to_string(),
        };
        format!("{name}: {value}")
    };
    bound.iter().map(key).collect::<Vec<_>>().join(", ")
}

/// The collection of that name.
pub(super) async fn collection(site: &Site<'_>, namespace: &str) -> Result<Collection, FaultError> {
    let found = find(site, "collections", doc! { "_id": namespace, "dropped": { "$ne": true } }).await?;
    let Some(found) = found.into_iter().next() else {
        return Err(site.nothing_to_do(format!(
            "routes no sharded collection {namespace}; write shard_key in [dataset], or name another one"
        )));
    };
    let filter =
        found.get("uuid").map_or_else(|| doc! { "ns": namespace }, |uuid| doc! { "uuid": uuid.clone() });
    let mut collection = Collection { namespace: namespace.to_owned(), filter };
    // Before 5.0 chunks were found by the name, though the collection had an identifier.
    if chunks(site, &collection).await?.is_empty() {
        collection.filter = doc! { "ns": namespace };
    }
    Ok(collection)
}

/// Its chunks, in the order of their ranges.
pub(super) async fn chunks(site: &Site<'_>, of: &Collection) -> Result<Vec<Chunk>, FaultError> {
    let found = find(site, "chunks", of.filter.clone()).await?;
    let chunk = |chunk: &Document| {
        let (min, max) = (chunk.get_document("min").ok()?.clone(), chunk.get_document("max").ok()?.clone());
        Some(Chunk { min, max, shard: chunk.get_str("shard").ok()?.to_owned() })
    };
    Ok(found.iter().filter_map(chunk).collect())
}

/// Who has the chunk that begins there now; `None`: no chunk begins there any more.
pub(super) async fn owner(
    site: &Site<'_>,
    of: &Collection,
    min: &Document,
) -> Result<Option<String>, FaultError> {
    let mut filter = of.filter.clone();
    filter.insert("min", min.clone());
    let found = find(site, "chunks", filter).await?;
    Ok(found.first().and_then(|chunk| chunk.get_str("shard").ok()).map(str::to_owned))
}

/// The names of all shards, in order.
pub(super) async fn shards(site: &Site<'_>) -> Result<Vec<String>, FaultError> {
    let found = find(site, "shards", doc! {}).await?;
    let mut names: Vec<_> =
        found.iter().filter_map(|shard| shard.get_str("_id").ok()).map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

/// A whole number, in either of the two types in which servers send it.
pub(super) fn whole(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

/// Documents of a collection of `config`.
pub(super) async fn find(
    site: &Site<'_>,
    collection: &str,
    filter: Document,
) -> Result<Vec<Document>, FaultError> {
    let find = doc! {
        "find": collection,
        "filter": filter,
        "sort": { "min": 1 },
        "batchSize": MOST_CHUNKS,
        "limit": MOST_CHUNKS,
        "readConcern": { "level": "majority" },
    };
    let mut last = None;
    for _ in 0..TRIES {
        match site.on.command(site.node, "config", &find, LOOK_DEADLINE).await {
            Ok(answer) => {
                let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
                let batch = batch.map_err(|error| site.failed("read the routing table of", error))?;
                return Ok(batch.iter().filter_map(Bson::as_document).cloned().collect());
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let why = last.map_or_else(String::new, |error: CommandError| error.to_string());
    Err(site.failed("read the routing table of", why))
}

/// Waits until no shard has old copies of what it gave away. Where the shards cannot be asked directly, nothing is
/// known, and that is said.
pub(super) async fn no_orphans(site: &Site<'_>, deadline: Duration) -> Result<crate::Evidence, FaultError> {
    let view = site.on.view().await;
    let primaries: Vec<_> =
        view.sets().iter().filter_map(|set| set.primary().map(|member| member.name.clone())).collect();
    if primaries.is_empty() {
        return Ok(crate::facts([("range_deletions", json!("unknown: the shards are out of reach"))]));
    }
    let pending = doc! { "count": "rangeDeletions" };
    site.until(deadline, "old copies of documents that moved are not deleted", || async {
        for node in &primaries {
            let answer = site.on.command(node, "config", &pending, LOOK_DEADLINE).await.ok()?;
            let count = answer.get("n").and_then(whole)?;
            if count > 0 {
                return None;
            }
        }
        Some(crate::facts([("range_deletions", json!(0))]))
    })
    .await
}
