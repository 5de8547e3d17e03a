//! Databases, collections and indexes: for the primary shard of the database, or the shards that hold the collection.

mod indexes;
mod spread;
mod statistics;

use bson::{Bson, Document, doc};

use crate::catalog::{Database, majority, split_namespace};
use crate::command::Command;
use crate::places::Places;
use crate::refusal::{Failure, Refusal};
use crate::router::Router;

/// Runs one of the commands that [`routes`](crate::routes) sends here.
pub(crate) async fn run(router: &Router, command: &Command<'_>) -> Result<Document, Failure> {
    let asked = command.document()?;
    let places = &router.places;
    let database = command.database;
    let reply = match command.name {
        "create" => create(places, database, asked).await?,
        "drop" => drop_collection(places, database, &command.collection()?).await?,
        "dropDatabase" => drop_database(places, database).await?,
        "renameCollection" => {
            on_admin(command)?;
            rename(places, &command.collection()?, &asked).await?
        }
        "createIndexes" => indexes::create(places, database, &command.collection()?, asked).await?,
        "dropIndexes" | "deleteIndexes" => {
            indexes::drop(places, database, &command.collection()?, &asked).await?
        }
        "listIndexes" => indexes::list(places, database, &command.collection()?, asked).await?,
        "listCollections" => list_collections(places, database, asked).await?,
        "collStats" | "collstats" => {
            statistics::of_collection(places, database, &command.collection()?, &asked).await?
        }
        "validate" => spread::validate(places, database, &command.collection()?, &asked).await?,
        "dbStats" | "dbstats" => statistics::of_database(places, database, &asked).await?,
        "listDatabases" => {
            on_admin(command)?;
            statistics::databases(places, &asked).await?
        }
        other => return Err(Refusal::not_found(format!("the stand-in router cannot {other}")).into()),
    };
    Ok(reply)
}

fn on_admin(command: &Command<'_>) -> Result<(), Refusal> {
    if command.database == "admin" {
        return Ok(());
    }
    Err(Refusal::unauthorized(format!("{} may only be run against the admin database.", command.name)))
}

/// With the write concern of whoever asked, or the one that changes of the cluster need.
fn with_write_concern(mut command: Document, asked: &Document) -> Document {
    let concern = asked.get("writeConcern").cloned();
    command.insert("writeConcern", concern.unwrap_or_else(|| majority().into()));
    command
}

async fn create(places: &Places, database: &str, asked: Document) -> Result<Document, Refusal> {
    let home = places.database_made(database).await?;
    let command = with_write_concern(asked.clone(), &asked);
    places.on_shard(&home.primary, database, &command).await
}

/// As the primary shard wants it: with the version of the database, and only with a majority.
fn for_primary(mut command: Document, home: &Database) -> Document {
    command.insert("databaseVersion", &home.version);
    command.insert("writeConcern", majority());
    command
}

async fn drop_collection(places: &Places, database: &str, collection: &str) -> Result<Document, Refusal> {
    let namespace = format!("{database}.{collection}");
    let home = places.database(database).await?.ok_or_else(|| Refusal::namespace_not_found(&namespace))?;
    if home.primary == "config" {
        let drop = doc! { "drop": collection, "writeConcern": majority() };
        return places.on_shard(&home.primary, database, &drop).await;
    }
    let command = for_primary(doc! { "_shardsvrDropCollection": collection }, &home);
    let mut reply = places.on_shard(&home.primary, database, &command).await?;
    reply.insert("ns", namespace);
    Ok(reply)
}

async fn drop_database(places: &Places, database: &str) -> Result<Document, Refusal> {
    if matches!(database, "admin" | "config" | "local") {
        return Err(Refusal::illegal(format!("the stand-in router cannot drop the database {database}")));
    }
    let Some(home) = places.database(database).await? else { return Ok(doc! { "ok": 1.0 }) };
    let command = for_primary(doc! { "_shardsvrDropDatabase": 1 }, &home);
    let mut reply = places.on_shard(&home.primary, database, &command).await?;
    reply.insert("dropped", database);
    Ok(reply)
}

async fn rename(places: &Places, from: &str, asked: &Document) -> Result<Document, Refusal> {
    let (database, collection) = split_namespace(from)?;
    let to = asked.get_str("to").map_err(|_| Refusal::bad_value("renameCollection needs `to`"))?;
    let home = places.database(database).await?.ok_or_else(|| Refusal::namespace_not_found(from))?;
    let mut command = doc! { "_shardsvrRenameCollection": collection, "to": to };
    if let Some(drop_target) = asked.get("dropTarget") {
        command.insert("dropTarget", drop_target);
    }
    places.on_shard(&home.primary, database, &for_primary(command, &home)).await
}

/// In one batch: a cursor on a shard could not be asked for more through rtr.
fn in_one_batch(mut command: Document) -> Document {
    command.insert("cursor", Document::new());
    command
}

fn checked_batch(reply: Document) -> Result<Document, Refusal> {
    let id = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).unwrap_or(0);
    if id == 0 { Ok(reply) } else { Err(Refusal::illegal("the list does not fit one batch of 16 MB")) }
}

async fn list_collections(places: &Places, database: &str, asked: Document) -> Result<Document, Refusal> {
    match places.database(database).await? {
        Some(home) => checked_batch(places.on_shard(&home.primary, database, &in_one_batch(asked)).await?),
        None => Ok(empty_batch(&format!("{database}.$cmd.listCollections"))),
    }
}

fn empty_batch(namespace: &str) -> Document {
    let none = Vec::<Bson>::new();
    doc! { "cursor": { "id": 0_i64, "ns": namespace, "firstBatch": none }, "ok": 1.0 }
}
