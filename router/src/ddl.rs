//! Definitions. The engine must never see them: it would make collections and indexes of its own. Databases are made
//! by the config servers, everything else by the primary shard of the database, indexes by every shard with data.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};

use crate::answer::{Answer, Refusal};
use crate::command::Command;
use crate::computed::whole;
use crate::relay::{Client, Ended};
use crate::serve::Shared;

/// Numbers of `dbStats` that are the sum of those of the shards.
const SUMS: [&str; 7] =
    ["collections", "objects", "dataSize", "storageSize", "indexes", "indexSize", "totalSize"];

/// A database as config knows it.
pub(crate) struct Database {
    pub primary: String,
    pub version: Bson,
}

/// Runs one.
pub(crate) async fn run(client: &mut Client<'_>, command: &Command) -> Result<Answer, Ended> {
    let shared = client.shared;
    Ok(match command.name() {
        "listDatabases" => databases(shared, command).await,
        "createIndexes" => create_indexes(shared, command).await,
        "dropIndexes" => drop_indexes(shared, command).await,
        "drop" => drop_collection(shared, command).await,
        "dropDatabase" => drop_database(shared, command).await,
        "renameCollection" => rename(shared, command).await,
        "dbStats" => stats(shared, command).await,
        "create" => create(shared, command).await,
        _ => on_primary_shard(shared, command).await,
    })
}

/// What config says of a database; `None`: there is none of that name.
pub(crate) async fn database(shared: &Shared, name: &str) -> Result<Option<Database>, Refusal> {
    if name == "config" || name == "admin" {
        return Err(Refusal::impossible("definitions in config and admin"));
    }
    let found = shared.servers.find("databases", doc! { "_id": name }).await?;
    Ok(found.first().and_then(|found| {
        let primary = found.get_str("primary").ok()?.to_owned();
        Some(Database { primary, version: found.get("version").cloned().unwrap_or(Bson::Null) })
    }))
}

/// The database, made now if there is none.
pub(crate) async fn made(shared: &Shared, name: &str) -> Result<Database, Refusal> {
    if let Some(there) = database(shared, name).await? {
        return Ok(there);
    }
    let create = doc! { "_configsvrCreateDatabase": name, "writeConcern": majority() };
    shared.servers.on_config("admin", &create).await?;
    database(shared, name).await?.ok_or_else(|| Refusal::not_found(name))
}

/// What commands that change the cluster are to wait for.
pub(crate) fn majority() -> Document {
    doc! { "w": "majority", "wtimeout": 60_000 }
}

async fn databases(shared: &Shared, command: &Command) -> Answer {
    let mut names: Vec<_> = shared.servers.find("databases", doc! {}).await?;
    names.sort_by(|a, b| a.get_str("_id").ok().cmp(&b.get_str("_id").ok()));
    let only_names = command.body().get_bool("nameOnly").unwrap_or(false);
    let (mut all, mut total) = (Vec::new(), 0);
    for name in names.iter().filter_map(|found| found.get_str("_id").ok()).chain(["config"]) {
        if only_names {
            all.push(doc! { "name": name });
            continue;
        }
        let size = size(shared, name).await?;
        total += size;
        all.push(doc! { "name": name, "sizeOnDisk": size, "empty": size == 0 });
    }
    Ok(if only_names {
        doc! { "databases": all }
    } else {
        doc! { "databases": all, "totalSize": total }
    })
}

async fn size(shared: &Shared, name: &str) -> Result<i64, Refusal> {
    let stats = doc! { "dbStats": 1 };
    let mut size = 0;
    for shard in shared.servers.shards().await?.keys() {
        let answer = shared.servers.on_shard(shard, name, &stats).await?;
        size += whole(answer.get("totalSize")).unwrap_or(0);
    }
    Ok(size)
}

async fn stats(shared: &Shared, command: &Command) -> Answer {
    let mut sums = doc! { "db": command.database() };
    for shard in shared.servers.shards().await?.keys() {
        let answer = shared.servers.on_shard(shard, command.database(), &command.document()?).await?;
        for name in SUMS {
            let so_far = sums.get_f64(name).unwrap_or(0.0);
            let more = match answer.get(name) {
                Some(Bson::Double(number)) => *number,
                other => whole(other).unwrap_or(0) as f64,
            };
            sums.insert(name, so_far + more);
        }
    }
    Ok(sums)
}

async fn on_primary_shard(shared: &Shared, command: &Command) -> Answer {
    let Some(there) = database(shared, command.database()).await? else {
        return match command.name() {
            "listCollections" => Ok(no_documents(&format!("{}.$cmd.listCollections", command.database()))),
            _ => Err(Refusal::not_found(&command.namespace())),
        };
    };
    shared.servers.on_shard(&there.primary, command.database(), &command.document()?).await
}

fn no_documents(namespace: &str) -> Document {
    doc! { "cursor": { "id": 0_i64, "ns": namespace, "firstBatch": [] } }
}

async fn create(shared: &Shared, command: &Command) -> Answer {
    let there = made(shared, command.database()).await?;
    shared.servers.on_shard(&there.primary, command.database(), &with_concern(command)?).await
}

fn with_concern(command: &Command) -> Result<Document, Refusal> {
    let mut asked = command.document()?;
    asked.entry("writeConcern".to_owned()).or_insert(majority().into());
    Ok(asked)
}

/// Who has documents of a collection.
async fn owners(shared: &Shared, namespace: &str, primary: &str) -> Result<BTreeSet<String>, Refusal> {
    let found = shared.servers.find("collections", doc! { "_id": namespace }).await?;
    let Some(uuid) = found.first().and_then(|found| found.get("uuid").cloned()) else {
        return Ok(BTreeSet::from([primary.to_owned()]));
    };
    let chunks = shared.servers.find("chunks", doc! { "uuid": uuid }).await?;
    Ok(chunks.iter().filter_map(|chunk| chunk.get_str("shard").ok()).map(str::to_owned).collect())
}

async fn create_indexes(shared: &Shared, command: &Command) -> Answer {
    let there = made(shared, command.database()).await?;
    let asked = with_concern(command)?;
    let mut raw = Document::new();
    for shard in owners(shared, &command.namespace(), &there.primary).await? {
        let answer = shared.servers.on_shard(&shard, command.database(), &asked).await?;
        raw.insert(shard, answer);
    }
    Ok(doc! { "raw": raw })
}

async fn drop_indexes(shared: &Shared, command: &Command) -> Answer {
    let (there, mut asked) = existing(shared, command).await?;
    let mut all = doc! { "_shardsvrDropIndexes": command.subject() };
    asked.remove("dropIndexes");
    all.extend(asked);
    all.insert("databaseVersion", there.version);
    all.insert("writeConcern", majority());
    shared.servers.on_shard(&there.primary, command.database(), &all).await
}

async fn existing(shared: &Shared, command: &Command) -> Result<(Database, Document), Refusal> {
    let there = database(shared, command.database()).await?;
    let there = there.ok_or_else(|| Refusal::not_found(&command.namespace()))?;
    Ok((there, command.document()?))
}

async fn drop_collection(shared: &Shared, command: &Command) -> Answer {
    let (there, _) = existing(shared, command).await?;
    let all = doc! {
        "_shardsvrDropCollection": command.subject(),
        "databaseVersion": there.version,
        "writeConcern": majority(),
    };
    shared.servers.on_shard(&there.primary, command.database(), &all).await
}

async fn drop_database(shared: &Shared, command: &Command) -> Answer {
    let Some(there) = database(shared, command.database()).await? else { return Ok(doc! {}) };
    let all =
        doc! { "_shardsvrDropDatabase": 1, "databaseVersion": there.version, "writeConcern": majority() };
    shared.servers.on_shard(&there.primary, command.database(), &all).await
}

async fn rename(shared: &Shared, command: &Command) -> Answer {
    let mut asked = command.document()?;
    let malformed = |_| Refusal::malformed("renameCollection needs both names");
    let from = asked.get_str("renameCollection").map_err(malformed)?.to_owned();
    let (name, collection) =
        from.split_once('.').ok_or_else(|| Refusal::malformed("a name needs its database"))?;
    let there = database(shared, name).await?.ok_or_else(|| Refusal::not_found(&from))?;
    asked.remove("renameCollection");
    let mut all = doc! { "_shardsvrRenameCollection": collection };
    all.extend(asked);
    all.insert("databaseVersion", there.version);
    all.insert("writeConcern", majority());
    shared.servers.on_shard(&there.primary, name, &all).await
}
