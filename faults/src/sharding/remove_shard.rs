//! `remove_shard`: a shard is drained of its chunks and databases, leaves the cluster, and joins it again.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::routing::whole;
use super::{balancer, routing};
use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, Takes,
    facts,
};

/// The balancer moves one chunk of a shard after the other.
const DRAINED_WITHIN: Duration = Duration::from_secs(60 * 60);
const LOOK: Duration = Duration::from_secs(1);
/// One command; a database that moves is copied in it.
const COMMAND_DEADLINE: Duration = Duration::from_secs(15 * 60);
/// Lines of progress that are kept: the last one says the most.
const MOST_LINES: usize = 200;
/// Databases of the servers themselves.
const OWN: [&str; 3] = ["admin", "config", "local"];

/// `removeShard` and `addShard`.
pub const REMOVE_SHARD: Kind = Kind {
    name: "remove_shard",
    group: "sharding",
    does: "drains a shard (the balancer moves its chunks, databases get another primary), removes it, and adds it again",
    parameters: &[
        Parameter {
            name: "shard",
            takes: Takes::Text,
            default: Preset::Absent,
            about: "which; left out: the last one by name",
        },
        FOR_30_S,
    ],
    needs: &[Need::Managed, Need::Sharded],
    build: |parameters| {
        let shard = parameters.has("shard").then(|| parameters.text("shard")).transpose()?;
        Ok(Box::new(RemoveShard { shard, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct RemoveShard {
    shard: Option<String>,
    hold: Duration,
}

#[async_trait]
impl Fault for RemoveShard {
    fn target(&self) -> NodeTarget {
        NodeTarget::Mongos
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// Who belongs to the cluster stands in its data.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let found = routing::find(site, "shards", doc! {}).await?;
        let name = |shard: &Document| shard.get_str("_id").unwrap_or_default().to_owned();
        let mut names: Vec<_> = found.iter().map(name).collect();
        names.sort_unstable();
        if names.len() < 2 {
            return Err(site.nothing_to_do("has one shard only: it cannot be removed"));
        }
        let shard = self.shard.clone().or_else(|| names.last().cloned()).unwrap_or_default();
        let Some(there) = found.iter().find(|found| name(found) == shard) else {
            return Err(site.unavailable(format!("there is no shard {shard}, only {}", names.join(", "))));
        };
        let databases = routing::find(site, "databases", doc! { "primary": &shard }).await?;
        let databases: Vec<_> = databases.iter().map(name).collect();
        let others: Vec<_> = names.iter().filter(|name| **name != shard).cloned().collect();
        Ok(facts([
            ("shard", json!(shard)),
            ("hosts", json!(there.get_str("host").unwrap_or_default())),
            ("others", json!(others)),
            ("databases", json!(databases)),
            ("balancer_was_on", json!(balancer::is_on(site).await)),
        ]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        // Without it nothing is drained.
        balancer::switch(site, true).await?;
        let shard = text(memo, "shard");
        let mut lines = Vec::new();
        let drained = async {
            loop {
                let state = ask(site, doc! { "removeShard": &shard }, "remove a shard through").await?;
                book(&mut lines, &state);
                if state.get_str("state").is_ok_and(|state| state == "completed") {
                    return Ok(());
                }
                move_databases(site, memo, &state).await?;
                tokio::time::sleep(LOOK).await;
            }
        };
        let done: Result<Result<(), FaultError>, _> = tokio::time::timeout(DRAINED_WITHIN, drained).await;
        done.map_err(|_| site.no_effect(DRAINED_WITHIN, format!("{shard} is still being drained")))??;
        Ok(facts([("shard", json!(shard)), ("progress", json!(lines))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let shard = text(memo, "shard");
        let what = format!("{shard} is still one of the shards");
        site.until(deadline, &what, || async {
            let left = routing::shards(site).await.ok()?;
            (!left.contains(&shard)).then(|| facts([("shards", json!(left))]))
        })
        .await
    }

    /// Also what was broken off in the middle: a shard that is only being drained stays.
    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let shard = text(memo, "shard");
        let mut done = Evidence::new();
        if routing::shards(site).await?.contains(&shard) {
            stop_draining(site, &shard).await?;
        } else {
            let dropped = drop_leftovers(site, &shard).await?;
            done.insert("leftovers_dropped".into(), json!(dropped));
            let add = doc! { "addShard": text(memo, "hosts"), "name": &shard };
            ask(site, add, "add a shard through").await?;
        }
        for database in memo["databases"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let back = doc! { "movePrimary": database, "to": &shard };
            ask(site, back, "move a database back through").await?;
        }
        if memo["balancer_was_on"] == json!(false) {
            balancer::switch(site, false).await?;
        }
        Ok(done)
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let shard = text(memo, "shard");
        let what = format!("{shard} is not one of the shards again");
        site.until(deadline, &what, || async {
            let found = routing::find(site, "shards", doc! { "_id": &shard }).await.ok()?;
            let stays = !found.first()?.get_bool("draining").unwrap_or(false);
            stays.then(|| facts([("shard_is_back", json!(true))]))
        })
        .await
    }
}

fn text(memo: &Memo, name: &str) -> String {
    memo[name].as_str().unwrap_or_default().to_owned()
}

async fn ask(site: &Site<'_>, command: Document, doing: &'static str) -> Result<Document, FaultError> {
    let answer = site.on.command(site.node, "admin", &command, COMMAND_DEADLINE).await;
    answer.map_err(|error| site.failed(doing, error))
}

/// How much of that is left to be drained.
fn remaining(state: &Document, what: &str) -> Option<i64> {
    whole(state.get_document("remaining").ok()?.get(what)?)
}

/// What is left to be drained, when that has changed.
fn book(lines: &mut Vec<Value>, state: &Document) {
    let line = json!({
        "state": state.get_str("state").unwrap_or_default(),
        "chunks": remaining(state, "chunks"),
        "databases": remaining(state, "dbs"),
    });
    if lines.last() != Some(&line) {
        if lines.len() >= MOST_LINES {
            lines.pop();
        }
        lines.push(line);
    }
}

/// Databases whose chunks are gone get another primary: the servers leave that to whoever removes a shard.
async fn move_databases(site: &Site<'_>, memo: &Memo, state: &Document) -> Result<(), FaultError> {
    if remaining(state, "chunks") != Some(0) {
        return Ok(());
    }
    let Some(to) = memo["others"][0].as_str() else { return Ok(()) };
    for database in state.get_array("dbsToMove").into_iter().flatten().filter_map(Bson::as_str) {
        let away = doc! { "movePrimary": database, "to": to };
        ask(site, away, "move a database away through").await?;
    }
    Ok(())
}

/// There is no command for it; this is what is written where draining is asked for.
async fn stop_draining(site: &Site<'_>, shard: &str) -> Result<(), FaultError> {
    let update = doc! {
        "update": "shards",
        "updates": [{ "q": { "_id": shard }, "u": { "$unset": { "draining": "" } } }],
        "writeConcern": { "w": "majority" },
    };
    let done = site.on.command(site.node, "config", &update, COMMAND_DEADLINE).await;
    done.map(drop).map_err(|error| site.failed("stop the draining through", error))
}

/// A shard that was drained keeps empty databases, and with them it would be refused. What is not empty is left
/// alone, and then it is.
async fn drop_leftovers(site: &Site<'_>, shard: &str) -> Result<Vec<String>, FaultError> {
    let view = site.on.view().await;
    let of_shard = view.members.iter().filter(|member| member.set.as_deref() == Some(shard));
    let primary =
        of_shard.filter(|member| member.role == crate::Role::Primary).map(|m| m.name.clone()).next();
    let primary = primary.ok_or_else(|| site.failed("clean up", format!("{shard} has no primary")))?;
    let on = async |database: &str, command: Document| -> Result<Document, CommandError> {
        site.on.command(&primary, database, &command, COMMAND_DEADLINE).await
    };
    let failed = |error: CommandError| site.failed("clean up a removed shard for", error);
    let all = on("admin", doc! { "listDatabases": 1, "nameOnly": true }).await.map_err(failed)?;
    let names = |answer: &Document, field: &str| -> Vec<String> {
        let list = answer.get_array(field).cloned().unwrap_or_default();
        list.iter().filter_map(|one| Some(one.as_document()?.get_str("name").ok()?.to_owned())).collect()
    };
    let mut dropped = Vec::new();
    for database in names(&all, "databases").into_iter().filter(|name| !OWN.contains(&name.as_str())) {
        let listed = on(&database, doc! { "listCollections": 1, "nameOnly": true }).await.map_err(failed)?;
        let batch = listed.get_document("cursor").cloned().unwrap_or_default();
        for collection in names(&batch, "firstBatch") {
            let count = on(&database, doc! { "count": &collection }).await.map_err(failed)?;
            if count.get("n").and_then(whole) != Some(0) {
                let why = format!("{database}.{collection} on {shard} is not empty; it was left alone");
                return Err(site.failed("clean up a removed shard for", why));
            }
        }
        on(&database, doc! { "dropDatabase": 1 }).await.map_err(failed)?;
        dropped.push(database);
    }
    Ok(dropped)
}
