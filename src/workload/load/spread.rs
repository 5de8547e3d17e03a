//! Spreads the collection over shards before anything is in it, by the commands that every mongos takes.

use bson::{Bson, doc};

use super::{LoadError, Loading};
use crate::scenario::ShardKey;

/// Shards the collection by `_id`, if the scenario says how. Does nothing where that was done before.
///
/// # Errors
/// When the router refuses (it is none, or the collection is sharded otherwise), or nobody answers.
pub async fn spread(at: &Loading) -> Result<(), LoadError> {
    let Some(key) = at.dataset.shard_key else { return Ok(()) };
    let by = match key {
        ShardKey::Hashed => Bson::from("hashed"),
        ShardKey::Ranged => Bson::from(1),
    };
    let shard = doc! { "shardCollection": at.namespace(), "key": { "_id": by } };
    let admin = at.client.database("admin");
    for command in [doc! { "enableSharding": &at.dataset.database }, shard] {
        at.patiently(|| async { admin.run_command(command.clone()).await }).await?;
    }
    Ok(())
}
