//! Chunks: split, merged, moved.

use bson::{Bson, Document, doc};

use super::{copy, document, is_true, text};
use crate::catalog::{Chunk, Collection, majority, split_namespace};
use crate::places::Places;
use crate::refusal::{Failure, Refusal};
use crate::upstream::Upstream;

/// At a given key, or where the shard finds the middle of a chunk.
pub(super) async fn split(
    places: &Places,
    upstream: &mut Upstream,
    namespace: &str,
    asked: &Document,
) -> Result<Document, Failure> {
    let collection = places.sharded(namespace).await?;
    let (chunk, at) = match asked.get_document("middle") {
        Ok(middle) => {
            check_key(&collection, middle)?;
            (places.chunk_holding(&collection, middle).await?, Bson::Array(vec![middle.into()]))
        }
        Err(_) => {
            let chunk = named_chunk(places, upstream, &collection, asked).await?;
            let middle = middle_of(places, &collection, &chunk).await?;
            (chunk, middle)
        }
    };
    let command = doc! {
        "splitChunk": namespace,
        "from": &chunk.shard,
        "keyPattern": &collection.key,
        "epoch": &collection.epoch,
        "timestamp": &collection.timestamp,
        "min": &chunk.min,
        "max": &chunk.max,
        "splitKeys": at,
    };
    Ok(places.on_shard(&chunk.shard, "admin", &command).await?)
}

async fn middle_of(places: &Places, collection: &Collection, chunk: &Chunk) -> Result<Bson, Refusal> {
    let database = split_namespace(&collection.namespace)?.0;
    let command = doc! {
        "splitVector": &collection.namespace,
        "keyPattern": &collection.key,
        "min": &chunk.min,
        "max": &chunk.max,
        "force": true,
    };
    let reply = places.on_shard(&chunk.shard, database, &command).await?;
    match reply.get_array("splitKeys") {
        Ok(keys) if !keys.is_empty() => Ok(Bson::Array(keys.clone())),
        _ => Err(Refusal::bad_value(format!("the chunk from {} has too few keys to be split", chunk.min))),
    }
}

/// Of neighbours on one shard.
pub(super) async fn merge(places: &Places, namespace: &str, asked: &Document) -> Result<Document, Refusal> {
    let collection = places.sharded(namespace).await?;
    let (min, max) = bounds(asked)?;
    let chunk = places.chunk_from(&collection, min, None).await?;
    let command = doc! {
        "mergeChunks": namespace,
        "bounds": [min, max],
        "epoch": collection.epoch,
        "timestamp": collection.timestamp,
    };
    places.on_shard(&chunk.shard, "admin", &command).await
}

/// The chunk that holds a key, or the one with these bounds.
pub(super) async fn move_chunk(
    places: &Places,
    upstream: &mut Upstream,
    namespace: &str,
    asked: &Document,
) -> Result<Document, Failure> {
    let collection = places.sharded(namespace).await?;
    let to = text(asked, "to")?;
    let chunk = named_chunk(places, upstream, &collection, asked).await?;
    let range = doc! { "min": chunk.min, "max": chunk.max };
    Ok(places.on_config("admin", &moving(namespace, to, &range, asked)).await?)
}

/// A range inside a chunk; without an upper end as much as one migration takes.
pub(super) async fn move_range(
    places: &Places,
    namespace: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let to = text(asked, "toShard")?;
    if !asked.contains_key("min") && !asked.contains_key("max") {
        return Err(Refusal::bad_value("moveRange needs `min` or `max`"));
    }
    places.on_config("admin", &moving(namespace, to, asked, asked)).await
}

/// The command for the config servers; they want these types and no others.
fn moving(namespace: &str, to: &str, range: &Document, asked: &Document) -> Document {
    let mut command = doc! { "_configsvrMoveRange": namespace, "toShard": to };
    copy(range, &mut command, &["min", "max"]);
    let waits = ["_waitForDelete", "waitForDelete"].iter().any(|name| is_true(asked, name));
    command.insert("waitForDelete", waits);
    command.insert("forceJumbo", i32::from(is_true(asked, "forceJumbo")));
    if ["_secondaryThrottle", "secondaryThrottle"].iter().any(|name| is_true(asked, name)) {
        let mut throttle = doc! { "secondaryThrottle": true };
        copy(asked, &mut throttle, &["writeConcern"]);
        command.insert("secondaryThrottle", throttle);
    }
    copy(asked, &mut command, &["maxTimeMS"]);
    command.insert("writeConcern", majority());
    command
}

pub(super) async fn clear_jumbo_flag(
    places: &Places,
    upstream: &mut Upstream,
    namespace: &str,
    asked: &Document,
) -> Result<Document, Failure> {
    let collection = places.sharded(namespace).await?;
    let chunk = named_chunk(places, upstream, &collection, asked).await?;
    let command = doc! {
        "_configsvrClearJumboFlag": namespace,
        "epoch": collection.epoch,
        "minKey": chunk.min,
        "maxKey": chunk.max,
        "writeConcern": majority(),
    };
    Ok(places.on_config("admin", &command).await?)
}

/// The chunk that a command names by `bounds` or by `find`.
async fn named_chunk(
    places: &Places,
    upstream: &mut Upstream,
    collection: &Collection,
    asked: &Document,
) -> Result<Chunk, Failure> {
    if asked.contains_key("bounds") {
        let (min, max) = bounds(asked)?;
        return Ok(places.chunk_from(collection, min, Some(max)).await?);
    }
    let query = document(asked, "find")?;
    let mut key = Document::new();
    for (name, kind) in &collection.key {
        let value = value_at(query, name).ok_or_else(|| {
            Refusal::bad_value(format!("`find` has no value for {name} of the shard key {}", collection.key))
        })?;
        let value =
            if kind.as_str() == Some("hashed") { hashed(upstream, value).await? } else { value.clone() };
        key.insert(name, value);
    }
    Ok(places.chunk_holding(collection, &key).await?)
}

fn bounds(asked: &Document) -> Result<(&Document, &Document), Refusal> {
    let bounds = asked.get_array("bounds").map(Vec::as_slice).unwrap_or_default();
    match bounds {
        [Bson::Document(min), Bson::Document(max)] => Ok((min, max)),
        _ => Err(Refusal::bad_value("`bounds` must be two documents")),
    }
}

fn check_key(collection: &Collection, key: &Document) -> Result<(), Refusal> {
    if key.keys().eq(collection.key.keys()) {
        return Ok(());
    }
    Err(Refusal::bad_value(format!("{key} is no value of the shard key {}", collection.key)))
}

/// A shard key may reach into documents; the query may name the whole path, or nest.
fn value_at<'a>(query: &'a Document, path: &str) -> Option<&'a Bson> {
    if let Some(value) = query.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    value_at(query.get_document(first).ok()?, rest)
}

/// The value under which a hashed key is found in the routing table.
async fn hashed(upstream: &mut Upstream, value: &Bson) -> Result<Bson, Failure> {
    let command = doc! {
        "aggregate": 1,
        "pipeline": [
            { "$documents": [{ "value": { "$literal": value } }] },
            { "$project": { "hash": { "$toHashedIndexKey": "$value" } } },
        ],
        "cursor": {},
    };
    let reply = upstream.command("admin", &command).await?;
    let first = crate::places::first_batch(&reply).into_iter().next();
    let hash = first.and_then(|mut document| document.remove("hash"));
    hash.ok_or_else(|| Refusal::of_reply(&reply).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_has_the_types_that_config_servers_want() {
        let range = doc! { "min": { "k": 1 }, "max": { "k": 2 } };
        let asked = doc! { "moveChunk": "d.c", "to": "s1", "_waitForDelete": true, "forceJumbo": true,
        "_secondaryThrottle": true, "writeConcern": { "w": 2 } };
        let expected = doc! {
            "_configsvrMoveRange": "d.c", "toShard": "s1", "min": { "k": 1 }, "max": { "k": 2 },
            "waitForDelete": true, "forceJumbo": 1,
            "secondaryThrottle": { "secondaryThrottle": true, "writeConcern": { "w": 2 } },
            "writeConcern": majority(),
        };
        assert_eq!(moving("d.c", "s1", &range, &asked), expected);
        let plain = moving("d.c", "s1", &doc! { "min": { "k": 1 } }, &doc! {});
        let expected = doc! { "_configsvrMoveRange": "d.c", "toShard": "s1", "min": { "k": 1 },
        "waitForDelete": false, "forceJumbo": 0, "writeConcern": majority() };
        assert_eq!(plain, expected);
    }

    #[test]
    fn values_are_found_by_path_or_nested() {
        let query = doc! { "a.b": 1, "c": { "d": { "e": 2 } } };
        assert_eq!(value_at(&query, "a.b"), Some(&Bson::Int32(1)));
        assert_eq!(value_at(&query, "c.d.e"), Some(&Bson::Int32(2)));
        assert_eq!(value_at(&query, "c.x"), None);
    }

    #[test]
    fn bounds_are_two_documents() {
        let asked = doc! { "bounds": [{ "a": 1 }, { "a": 2 }] };
        assert_eq!(bounds(&asked), Ok((&doc! { "a": 1 }, &doc! { "a": 2 })));
        assert_eq!(bounds(&doc! { "bounds": [1, 2] }).unwrap_err().code, 2);
        assert_eq!(bounds(&doc! {}).unwrap_err().code, 2);
    }
}
