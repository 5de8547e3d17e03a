//! Shards come and go.

use bson::{Document, doc};

use super::{copy, text};
use crate::catalog::{majority, split_namespace};
use crate::places::{Places, first_batch};
use crate::refusal::Refusal;

pub(super) async fn add(places: &Places, connection: &str, asked: &Document) -> Result<Document, Refusal> {
    let mut command = doc! { "_configsvrAddShard": connection };
    copy(asked, &mut command, &["name"]);
    command.insert("writeConcern", majority());
    let reply = places.on_config("admin", &command).await;
    places.forget_shards();
    reply
}

/// To be asked again until it is completed.
pub(super) async fn remove(places: &Places, shard: &str) -> Result<Document, Refusal> {
    let command = doc! { "_configsvrRemoveShard": shard, "writeConcern": majority() };
    let reply = places.on_config("admin", &command).await;
    places.forget_shards();
    reply
}

pub(super) async fn list(places: &Places) -> Result<Document, Refusal> {
    let find = doc! { "find": "shards", "batchSize": 1_000, "singleBatch": true };
    let reply = places.on_config("config", &find).await?;
    Ok(doc! { "shards": first_batch(&reply), "ok": 1.0 })
}

pub(super) async fn move_primary(
    places: &Places,
    database: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let to = text(asked, "to")?;
    let home = places.database(database).await?.ok_or_else(|| Refusal::namespace_not_found(database))?;
    let command = doc! {
        "_shardsvrMovePrimary": database,
        "to": to,
        "databaseVersion": home.version,
        "writeConcern": majority(),
    };
    places.on_shard(&home.primary, "admin", &command).await
}

/// A command of shards, not of a mongos: here it means all of them. It waits until nothing is left to be deleted.
pub(super) async fn cleanup_orphaned(places: &Places, asked: &Document) -> Result<Document, Refusal> {
    split_namespace(text(asked, "cleanupOrphaned")?)?;
    let mut raw = Document::new();
    for shard in places.shards().await?.iter() {
        raw.insert(&shard.id, places.on_shard(&shard.id, "admin", asked).await?);
    }
    Ok(doc! { "raw": raw, "ok": 1.0 })
}
