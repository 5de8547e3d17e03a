//! Sizes: sums over shards.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::spread::{on_homes, on_shards, raw};
use crate::places::Places;
use crate::refusal::Refusal;

/// Numbers of a collection that add up.
const COLLECTION_SUMS: [&str; 7] =
    ["count", "size", "storageSize", "totalIndexSize", "totalSize", "freeStorageSize", "numOrphanDocs"];

/// Numbers of a database that add up.
const DATABASE_SUMS: [&str; 10] = [
    "objects",
    "dataSize",
    "storageSize",
    "freeStorageSize",
    "indexes",
    "indexSize",
    "indexFreeStorageSize",
    "totalSize",
    "totalFreeStorageSize",
    "views",
];

pub(super) async fn of_collection(
    places: &Places,
    database: &str,
    collection: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let (replies, is_sharded) = on_homes(places, database, collection, asked).await?;
    let mut reply = doc! { "sharded": is_sharded, "ns": format!("{database}.{collection}") };
    add_sums(&mut reply, &replies, &COLLECTION_SUMS);
    let (size, count) = (sum(&replies, "size"), sum(&replies, "count"));
    if count > 0.0 {
        reply.insert("avgObjSize", size / count);
    }
    if let Some(indexes) = replies.first().and_then(|(_, first)| first.get("nindexes")) {
        reply.insert("nindexes", indexes);
    }
    let shards = replies.into_iter().map(|(shard, reply)| (shard, Bson::Document(reply)));
    reply.insert("shards", shards.collect::<Document>());
    reply.insert("ok", 1.0);
    Ok(reply)
}

pub(super) async fn of_database(
    places: &Places,
    database: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let replies = on_shards(places, &all(places).await?, database, asked).await?;
    let mut reply = doc! { "db": database };
    add_sums(&mut reply, &replies, &DATABASE_SUMS);
    reply.extend(raw(replies));
    Ok(reply)
}

/// All databases of all shards; of the config servers the two that are a cluster's own.
pub(super) async fn databases(places: &Places, asked: &Document) -> Result<Document, Refusal> {
    let mut replies = on_shards(places, &all(places).await?, "admin", asked).await?;
    let on_config = places.on_config("admin", asked).await?;
    for (_, reply) in &mut replies {
        keep_databases(reply, |name| !matches!(name, "admin" | "config" | "local"));
    }
    replies.push(("config".into(), on_config));
    if let Some((_, reply)) = replies.last_mut() {
        keep_databases(reply, |name| matches!(name, "admin" | "config"));
    }
    let mut merged: BTreeMap<String, (f64, Document)> = BTreeMap::new();
    for (shard, reply) in &replies {
        for database in reply.get_array("databases").into_iter().flatten().filter_map(Bson::as_document) {
            let size = number(database.get("sizeOnDisk"));
            let name = database.get_str("name").unwrap_or_default().to_owned();
            let entry = merged.entry(name).or_default();
            entry.0 += size;
            entry.1.insert(shard, size as i64);
        }
    }
    Ok(listed(merged, asked.get_bool("nameOnly").unwrap_or(false)))
}

fn keep_databases(reply: &mut Document, keep: impl Fn(&str) -> bool) {
    if let Ok(databases) = reply.get_array_mut("databases") {
        let name = |database: &Bson| {
            database.as_document().and_then(|database| database.get_str("name").ok()).map(str::to_owned)
        };
        databases.retain(|database| name(database).is_some_and(|name| keep(&name)));
    }
}

fn listed(merged: BTreeMap<String, (f64, Document)>, name_only: bool) -> Document {
    let total: f64 = merged.values().map(|(size, _)| size).sum();
    let databases = merged.into_iter().map(|(name, (size, shards))| {
        if name_only {
            doc! { "name": name }
        } else {
            doc! { "name": name, "sizeOnDisk": size as i64, "empty": size == 0.0, "shards": shards }
        }
    });
    let mut reply = doc! { "databases": databases.collect::<Vec<_>>() };
    if !name_only {
        reply.insert("totalSize", total as i64);
        reply.insert("totalSizeMb", (total / 1_048_576.0) as i64);
    }
    reply.insert("ok", 1.0);
    reply
}

async fn all(places: &Places) -> Result<Vec<String>, Refusal> {
    Ok(places.shards().await?.iter().map(|shard| shard.id.clone()).collect())
}

fn add_sums(reply: &mut Document, replies: &[(String, Document)], names: &[&str]) {
    for name in names.iter().filter(|name| replies.iter().any(|(_, reply)| reply.contains_key(name))) {
        let sum = sum(replies, name);
        reply.insert(*name, if sum.fract() == 0.0 { Bson::Int64(sum as i64) } else { Bson::Double(sum) });
    }
}

fn sum(replies: &[(String, Document)], name: &str) -> f64 {
    replies.iter().map(|(_, reply)| number(reply.get(name))).sum()
}

fn number(value: Option<&Bson>) -> f64 {
    match value {
        Some(Bson::Int32(number)) => (*number).into(),
        Some(Bson::Int64(number)) => *number as f64,
        Some(Bson::Double(number)) => *number,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_types_add_up() {
        let replies =
            [("s0".to_owned(), doc! { "count": 1, "size": 2.5 }), ("s1".into(), doc! { "count": 4_i64 })];
        let mut reply = doc! {};
        add_sums(&mut reply, &replies, &["count", "size", "absent"]);
        assert_eq!(reply, doc! { "count": 5_i64, "size": 2.5 });
    }

    #[test]
    fn databases_are_listed_by_name_or_with_their_sizes() {
        let merged = BTreeMap::from([("d".to_owned(), (10.0, doc! { "s0": 10_i64 }))]);
        assert_eq!(listed(merged.clone(), true), doc! { "databases": [{ "name": "d" }], "ok": 1.0 });
        let full = doc! { "databases": [{ "name": "d", "sizeOnDisk": 10_i64, "empty": false, "shards": { "s0": 10_i64 } }],
        "totalSize": 10_i64, "totalSizeMb": 0_i64, "ok": 1.0 };
        assert_eq!(listed(merged, false), full);
    }
}
