//! Indexes: where the collection is. On a shard without chunks of it, making an index would make a collection.

use bson::{Document, doc};

use super::spread::{on_shards, raw};
use super::{checked_batch, for_primary, in_one_batch, with_write_concern};
use crate::places::Places;
use crate::refusal::Refusal;

pub(super) async fn create(
    places: &Places,
    database: &str,
    collection: &str,
    asked: Document,
) -> Result<Document, Refusal> {
    let (mut homes, _) = places.homes(&format!("{database}.{collection}")).await?;
    if homes.is_empty() {
        homes.push(places.database_made(database).await?.primary);
    }
    let command = with_write_concern(asked.clone(), &asked);
    Ok(raw(on_shards(places, &homes, database, &command).await?))
}

pub(super) async fn drop(
    places: &Places,
    database: &str,
    collection: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let namespace = format!("{database}.{collection}");
    let home = places.database(database).await?.ok_or_else(|| Refusal::namespace_not_found(&namespace))?;
    let index = asked.get("index").ok_or_else(|| Refusal::bad_value("dropIndexes needs `index`"))?;
    if home.primary == "config" {
        let command = doc! { "dropIndexes": collection, "index": index };
        return places.on_shard(&home.primary, database, &command).await;
    }
    let command = for_primary(doc! { "_shardsvrDropIndexes": collection, "index": index }, &home);
    places.on_shard(&home.primary, database, &command).await
}

/// One of the shards that hold the collection: all have the same indexes.
pub(super) async fn list(
    places: &Places,
    database: &str,
    collection: &str,
    asked: Document,
) -> Result<Document, Refusal> {
    let namespace = format!("{database}.{collection}");
    let (homes, _) = places.homes(&namespace).await?;
    let home = homes.first().ok_or_else(|| Refusal::namespace_not_found(&namespace))?;
    checked_batch(places.on_shard(home, database, &in_one_batch(asked)).await?)
}
