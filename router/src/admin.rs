//! Shards, chunks, balancer: a mongos passes these on to the config servers, or to the shard that has the chunk, and so
//! does this.

use bson::{Bson, Document, doc};

use crate::answer::{Answer, Refusal};
use crate::command::Command;
use crate::ddl::{made, majority};
use crate::serve::Shared;

/// Stopping waits for the round that is under way.
const BALANCER_STOPS_WITHIN_MS: i32 = 60_000;

/// Runs one.
pub(crate) async fn run(shared: &Shared, command: &Command) -> Answer {
    let asked = command.document()?;
    let name = command.subject();
    let config = async |command: Document| shared.servers.on_config("admin", &command).await;
    match command.name() {
        "enableSharding" => {
            let mut all = doc! { "_configsvrCreateDatabase": name };
            if let Ok(primary) = asked.get_str("primaryShard") {
                all.insert("primaryShardId", primary);
            }
            config(with_majority(all)).await
        }
        "shardCollection" => shard_collection(shared, name, &asked).await,
        "split" => split(shared, name, &asked).await,
        "mergeChunks" => merge(shared, name, &asked).await,
        "moveChunk" | "moveRange" => move_range(shared, name, &asked).await,
        "balancerStart" => config(doc! { "_configsvrBalancerStart": 1 }).await,
        "balancerStop" => {
            config(doc! { "_configsvrBalancerStop": 1, "maxTimeMS": BALANCER_STOPS_WITHIN_MS }).await
        }
        "balancerStatus" => config(doc! { "_configsvrBalancerStatus": 1 }).await,
        "balancerCollectionStatus" => config(doc! { "_configsvrBalancerCollectionStatus": name }).await,
        "configureCollectionBalancing" => {
            config(renamed(&asked, "_configsvrConfigureCollectionBalancing")).await
        }
        "addShard" => {
            shared.servers.forget();
            config(with_majority(renamed(&asked, "_configsvrAddShard"))).await
        }
        "removeShard" => {
            shared.servers.forget();
            config(with_majority(doc! { "_configsvrRemoveShard": name })).await
        }
        "movePrimary" => move_primary(shared, name, &asked).await,
        "clearJumboFlag" => clear_jumbo(shared, name, &asked).await,
        "addShardToZone" => config(with_majority(renamed(&asked, "_configsvrAddShardToZone"))).await,
        "removeShardFromZone" => {
            config(with_majority(renamed(&asked, "_configsvrRemoveShardFromZone"))).await
        }
        "updateZoneKeyRange" => config(with_majority(renamed(&asked, "_configsvrUpdateZoneKeyRange"))).await,
        "listShards" => Ok(doc! { "shards": shared.servers.find("shards", doc! {}).await? }),
        "getDefaultRWConcern" => config(asked).await,
        _ => Err(Refusal::impossible(command.name())),
    }
}

/// The same under another name for the first field.
fn renamed(asked: &Document, name: &str) -> Document {
    let mut fields = asked.clone().into_iter();
    let first = fields.next().map_or(Bson::Null, |(_, value)| value);
    let mut all = doc! { name: first };
    all.extend(fields.filter(|(field, _)| field != "writeConcern"));
    all
}

fn with_majority(mut command: Document) -> Document {
    command.insert("writeConcern", majority());
    command
}

fn parts(namespace: &str) -> Result<(&str, &str), Refusal> {
    namespace.split_once('.').ok_or_else(|| Refusal::new(73, "InvalidNamespace", "a name needs its database"))
}

async fn shard_collection(shared: &Shared, namespace: &str, asked: &Document) -> Answer {
    let (database, collection) = parts(namespace)?;
    let there = made(shared, database).await?;
    let key = asked.get_document("key").map_err(|_| Refusal::malformed("shardCollection needs a key"))?;
    let mut all = doc! { "_shardsvrCreateCollection": collection, "shardKey": key };
    for name in ["unique", "numInitialChunks", "presplitHashedZones", "collation"] {
        if let Some(value) = asked.get(name) {
            all.insert(name, value.clone());
        }
    }
    all.insert("databaseVersion", there.version);
    let answer = shared.servers.on_shard(&there.primary, database, &with_majority(all)).await?;
    let mut reply = doc! { "collectionsharded": namespace };
    reply.extend(answer.get("collectionUUID").map(|uuid| ("collectionUUID".to_owned(), uuid.clone())));
    Ok(reply)
}

/// A sharded collection with the fields that commands on its chunks need.
struct Chunked {
    uuid: Bson,
    epoch: Bson,
    timestamp: Bson,
    key: Document,
}

async fn chunked(shared: &Shared, namespace: &str) -> Result<Chunked, Refusal> {
    let found = shared.servers.find("collections", doc! { "_id": namespace }).await?;
    let not_sharded = || Refusal::new(118, "NamespaceNotSharded", format!("{namespace} is not sharded"));
    let found = found.first().ok_or_else(not_sharded)?;
    let field = |name: &str| found.get(name).cloned().unwrap_or(Bson::Null);
    Ok(Chunked {
        uuid: field("uuid"),
        epoch: field("lastmodEpoch"),
        timestamp: field("timestamp"),
        key: found.get_document("key").cloned().unwrap_or_default(),
    })
}

/// The chunk that a command means, by `bounds`, or by a document that is in it.
async fn chunk(shared: &Shared, of: &Chunked, asked: &Document) -> Result<Document, Refusal> {
    let chunks = shared.servers.find("chunks", doc! { "uuid": of.uuid.clone() }).await?;
    let none = || Refusal::new(72, "InvalidOptions", "no chunk of the routing table has these bounds");
    let by =
        |fits: &dyn Fn(&Document) -> bool| chunks.iter().find(|chunk| fits(chunk)).cloned().ok_or_else(none);
    if let Some([min, max]) = bounds(asked) {
        return by(&|chunk| is(chunk, "min", &min) && is(chunk, "max", &max));
    }
    if let Ok(min) = asked.get_document("min") {
        return by(&|chunk| is(chunk, "min", min));
    }
    let middle = asked.get_document("find").or_else(|_| asked.get_document("middle"));
    let Ok(middle) = middle else {
        return Err(Refusal::malformed("name a chunk by bounds, min, find or middle"));
    };
    let key: Document =
        of.key.keys().filter_map(|name| Some((name.clone(), middle.get(name)?.clone()))).collect();
    if of.key.values().any(|kind| kind.as_str() == Some("hashed")) && asked.contains_key("find") {
        return Err(Refusal::impossible(
            "the search of a chunk by a value whose hash counts: give its bounds",
        ));
    }
    // Config compares as servers do, whatever the types.
    let holds = doc! { "uuid": of.uuid.clone(), "min": { "$lte": key.clone() }, "max": { "$gt": key } };
    shared.servers.find("chunks", holds).await?.into_iter().next().ok_or_else(none)
}

fn is(chunk: &Document, name: &str, bound: &Document) -> bool {
    chunk.get_document(name).is_ok_and(|found| found == bound)
}

fn bounds(asked: &Document) -> Option<[Document; 2]> {
    let bounds = asked.get_array("bounds").ok()?;
    let bound = |n: usize| bounds.get(n)?.as_document().cloned();
    Some([bound(0)?, bound(1)?])
}

fn field(chunk: &Document, name: &str) -> Bson {
    chunk.get(name).cloned().unwrap_or(Bson::Null)
}

async fn split(shared: &Shared, namespace: &str, asked: &Document) -> Answer {
    let of = chunked(shared, namespace).await?;
    let chunk = chunk(shared, &of, asked).await?;
    let shard = chunk.get_str("shard").unwrap_or_default();
    let at = match asked.get_document("middle") {
        Ok(middle) => Bson::Document(middle.clone()),
        Err(_) => middle_of(shared, namespace, &of, &chunk).await?,
    };
    let command = doc! {
        "splitChunk": namespace,
        "from": shard,
        "keyPattern": of.key,
        "epoch": of.epoch,
        "timestamp": of.timestamp,
        "min": field(&chunk, "min"),
        "max": field(&chunk, "max"),
        "splitKeys": [at],
    };
    shared.servers.on_shard(shard, "admin", &command).await.map(|_| doc! {})
}

async fn middle_of(
    shared: &Shared,
    namespace: &str,
    of: &Chunked,
    chunk: &Document,
) -> Result<Bson, Refusal> {
    let look = doc! {
        "splitVector": namespace,
        "keyPattern": of.key.clone(),
        "min": field(chunk, "min"),
        "max": field(chunk, "max"),
        "force": true,
    };
    let shard = chunk.get_str("shard").unwrap_or_default();
    let answer = shared.servers.on_shard(shard, "admin", &look).await?;
    let keys = answer.get_array("splitKeys").ok().and_then(|keys| keys.first().cloned());
    keys.ok_or_else(|| Refusal::new(72, "InvalidOptions", "the chunk has no middle: too few documents"))
}

async fn merge(shared: &Shared, namespace: &str, asked: &Document) -> Answer {
    let of = chunked(shared, namespace).await?;
    let [min, max] = bounds(asked).ok_or_else(|| Refusal::malformed("mergeChunks needs bounds"))?;
    let first = chunk(shared, &of, &doc! { "min": min.clone() }).await?;
    let command = doc! {
        "mergeChunks": namespace,
        "bounds": [min, max],
        "epoch": of.epoch,
        "timestamp": of.timestamp,
    };
    let shard = first.get_str("shard").unwrap_or_default();
    shared.servers.on_shard(shard, "admin", &command).await.map(|_| doc! {})
}

async fn move_range(shared: &Shared, namespace: &str, asked: &Document) -> Answer {
    let of = chunked(shared, namespace).await?;
    let to = asked.get_str("to").or_else(|_| asked.get_str("toShard"));
    let to = to.map_err(|_| Refusal::malformed("name the shard that is to get it"))?;
    let mut all = doc! { "_configsvrMoveRange": namespace, "toShard": to };
    match (asked.get("min"), asked.get("max")) {
        (None, None) => {
            let chunk = chunk(shared, &of, asked).await?;
            all.insert("min", field(&chunk, "min"));
            all.insert("max", field(&chunk, "max"));
        }
        (min, max) => {
            all.extend(min.map(|min| ("min".to_owned(), min.clone())));
            all.extend(max.map(|max| ("max".to_owned(), max.clone())));
        }
    }
    let yes = |names: &[&str]| names.iter().any(|name| asked.get_bool(name).unwrap_or(false));
    all.insert("waitForDelete", yes(&["_waitForDelete", "waitForDelete"]));
    // A number here, where the command of a mongos has a switch.
    all.insert("forceJumbo", i32::from(yes(&["forceJumbo"])));
    shared.servers.on_config("admin", &with_majority(all)).await.map(|_| doc! {})
}

async fn move_primary(shared: &Shared, database: &str, asked: &Document) -> Answer {
    let there = crate::ddl::database(shared, database).await?.ok_or_else(|| Refusal::not_found(database))?;
    let command = doc! {
        "_shardsvrMovePrimary": database,
        "to": asked.get("to").cloned().unwrap_or(Bson::Null),
        "databaseVersion": there.version,
    };
    shared.servers.on_shard(&there.primary, "admin", &with_majority(command)).await
}

async fn clear_jumbo(shared: &Shared, namespace: &str, asked: &Document) -> Answer {
    let of = chunked(shared, namespace).await?;
    let chunk = chunk(shared, &of, asked).await?;
    let command = doc! {
        "_configsvrClearJumboFlag": namespace,
        "epoch": of.epoch,
        "minKey": field(&chunk, "min"),
        "maxKey": field(&chunk, "max"),
    };
    shared.servers.on_config("admin", &with_majority(command)).await
}
