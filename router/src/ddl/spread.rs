//! One command for several shards, and one reply of theirs.

use bson::{Bson, Document, doc};

use crate::places::Places;
use crate::refusal::Refusal;

/// Runs a command on shards, one after the other, until one refuses; replies by shard.
pub(super) async fn on_shards(
    places: &Places,
    shards: &[String],
    database: &str,
    command: &Document,
) -> Result<Vec<(String, Document)>, Refusal> {
    let mut replies = Vec::new();
    for shard in shards {
        let reply = places.on_shard(shard, database, command).await;
        replies.push((shard.clone(), reply.map_err(|refusal| named(shard, refusal))?));
    }
    Ok(replies)
}

/// Which shard it was.
fn named(shard: &str, mut refusal: Refusal) -> Refusal {
    refusal.message = format!("on shard {shard}: {}", refusal.message);
    refusal
}

/// The replies by shard, as a mongos puts them together.
pub(super) fn raw(replies: Vec<(String, Document)>) -> Document {
    let raw: Document = replies.into_iter().map(|(shard, reply)| (shard, Bson::Document(reply))).collect();
    doc! { "raw": raw, "ok": 1.0 }
}

/// Runs a command on every shard that holds a collection; replies by shard, and whether it is sharded.
pub(super) async fn on_homes(
    places: &Places,
    database: &str,
    collection: &str,
    asked: &Document,
) -> Result<(Vec<(String, Document)>, bool), Refusal> {
    let namespace = format!("{database}.{collection}");
    let (homes, is_sharded) = places.homes(&namespace).await?;
    if homes.is_empty() {
        return Err(Refusal::namespace_not_found(&namespace));
    }
    Ok((on_shards(places, &homes, database, asked).await?, is_sharded))
}

/// `validate` on every shard that holds the collection; valid if it is on all of them.
pub(super) async fn validate(
    places: &Places,
    database: &str,
    collection: &str,
    asked: &Document,
) -> Result<Document, Refusal> {
    let (replies, _) = on_homes(places, database, collection, asked).await?;
    let valid = replies.iter().all(|(_, reply)| reply.get_bool("valid").unwrap_or(false));
    let mut reply = raw(replies);
    reply.insert("valid", valid);
    Ok(reply)
}
