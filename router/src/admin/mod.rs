//! Administration of a cluster, in the words of a mongos.

mod balancer;
mod chunks;
mod shards;
mod zones;

use bson::{Bson, Document, doc};

use crate::catalog::{majority, split_namespace};
use crate::command::Command;
use crate::places::Places;
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::upstream::Upstream;

/// Runs one of the commands that [`routes`](crate::routes) sends here.
pub(crate) async fn run(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Document, Failure> {
    let asked = command.document()?;
    let (places, name) = (&router.places, command.name);
    let reply = match name {
        "enableSharding" => enable_sharding(places, &subject(&asked)?, &asked).await?,
        "shardCollection" => shard_collection(places, &subject(&asked)?, &asked).await?,
        "split" => chunks::split(places, upstream, &subject(&asked)?, &asked).await?,
        "mergeChunks" => chunks::merge(places, &subject(&asked)?, &asked).await?,
        "moveChunk" => chunks::move_chunk(places, upstream, &subject(&asked)?, &asked).await?,
        "moveRange" => chunks::move_range(places, &subject(&asked)?, &asked).await?,
        "clearJumboFlag" => chunks::clear_jumbo_flag(places, upstream, &subject(&asked)?, &asked).await?,
        "cleanupOrphaned" => shards::cleanup_orphaned(places, &asked).await?,
        "addShard" => shards::add(places, &subject(&asked)?, &asked).await?,
        "removeShard" => shards::remove(places, &subject(&asked)?).await?,
        "listShards" => shards::list(places).await?,
        "movePrimary" => shards::move_primary(places, &subject(&asked)?, &asked).await?,
        "addShardToZone" | "removeShardFromZone" | "updateZoneKeyRange" => {
            places.on_config("admin", &zones::translated(name, &asked)?).await?
        }
        "getDefaultRWConcern" => places.on_config("admin", &asked).await?,
        _ => places.on_config("admin", &balancer::translated(name, &asked)?).await?,
    };
    Ok(reply)
}

/// What the command is about: the text of its first field.
fn subject(asked: &Document) -> Result<String, Refusal> {
    let (name, value) = asked.iter().next().ok_or_else(|| Refusal::bad_value("empty command"))?;
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| Refusal::bad_value(format!("{name} needs a name")))
}

/// Whatever servers take for true.
fn is_true(asked: &Document, name: &str) -> bool {
    match asked.get(name) {
        Some(Bson::Boolean(value)) => *value,
        Some(Bson::Int32(value)) => *value != 0,
        Some(Bson::Int64(value)) => *value != 0,
        Some(Bson::Double(value)) => *value != 0.0,
        _ => false,
    }
}

/// Copies those of the fields that are there.
fn copy(from: &Document, to: &mut Document, names: &[&str]) {
    for name in names {
        if let Some(value) = from.get(name) {
            to.insert(*name, value);
        }
    }
}

fn document<'a>(asked: &'a Document, name: &str) -> Result<&'a Document, Refusal> {
    asked.get_document(name).map_err(|_| Refusal::bad_value(format!("`{name}` must be a document")))
}

fn text<'a>(asked: &'a Document, name: &str) -> Result<&'a str, Refusal> {
    asked.get_str(name).map_err(|_| Refusal::bad_value(format!("`{name}` must be a text")))
}

async fn enable_sharding(places: &Places, database: &str, asked: &Document) -> Result<Document, Refusal> {
    places.create_database(database, asked.get_str("primaryShard").ok()).await?;
    Ok(doc! { "ok": 1.0 })
}

async fn shard_collection(places: &Places, namespace: &str, asked: &Document) -> Result<Document, Refusal> {
    let (database, collection) = split_namespace(namespace)?;
    let key = document(asked, "key")?;
    let home = places.database_made(database).await?;
    let mut command = doc! { "_shardsvrCreateCollection": collection, "shardKey": key };
    copy(
        asked,
        &mut command,
        &["unique", "numInitialChunks", "presplitHashedZones", "collation", "timeseries"],
    );
    command.insert("databaseVersion", home.version);
    command.insert("writeConcern", majority());
    let mut reply = places.on_shard(&home.primary, database, &command).await?;
    reply.insert("collectionsharded", namespace);
    Ok(reply)
}
