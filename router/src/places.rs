//! Where config servers and shards are, and who is their primary now.
//!
//! Administrative commands are rare: each gets a connection of its own, after the server has said on it that it is
//! the primary. So there is no state that could be stale, but for a hint where to look first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Bson, Document, doc};
use tokio::time::{sleep, timeout};
use wire::{CommandError, Connection};

use crate::body;
use crate::options::Options;
use crate::refusal::Refusal;

/// Connecting, and the first answer of a server.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks at all members of a set without a primary.
const PAUSE: Duration = Duration::from_millis(100);
/// Reads of the routing table.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that is not the primary did nothing. Other errors of a change of state leave that open.
const NOT_PRIMARY: [i32; 3] = [10107, 13435, 10058];

/// A shard as `config.shards` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub id: String,
    /// `host:port` of each member.
    pub hosts: Vec<String>,
}

/// How servers are reached.
#[derive(Debug)]
pub(crate) struct Places {
    config: Vec<String>,
    primary_timeout: Duration,
    admin_timeout: Duration,
    /// `None` after something changed.
    shards: Mutex<Option<Arc<Vec<Shard>>>>,
    /// First member of a set -> the primary of last time. Bounded: cleared when it gets long.
    hints: Mutex<HashMap<String, String>>,
}

/// A cluster has a few sets; more hints come only from shards that were removed.
const HINTS_MAX: usize = 1_000;

impl Places {
    pub fn new(options: &Options) -> Self {
        Self {
            config: options.config.clone(),
            primary_timeout: options.primary_timeout,
            admin_timeout: options.admin_timeout,
            shards: Mutex::default(),
            hints: Mutex::default(),
        }
    }

    /// Runs a command on the primary of the config servers.
    pub async fn on_config(&self, database: &str, command: &Document) -> Result<Document, Refusal> {
        self.on_primary(&self.config, database, command, self.admin_timeout).await
    }

    /// Reads the routing table.
    pub async fn read_config(&self, command: &Document) -> Result<Document, Refusal> {
        self.on_primary(&self.config, "config", command, READ_TIMEOUT).await
    }

    /// Runs a command on the primary of a shard.
    pub async fn on_shard(&self, id: &str, database: &str, command: &Document) -> Result<Document, Refusal> {
        // The config servers are the home of two databases.
        if id == "config" {
            return self.on_config(database, command).await;
        }
        let hosts = self.hosts_of(id).await?;
        let result = self.on_primary(&hosts, database, command, self.admin_timeout).await;
        if result.is_err() {
            self.forget_shards();
        }
        result
    }

    async fn hosts_of(&self, id: &str) -> Result<Vec<String>, Refusal> {
        let hosts =
            |shards: &[Shard]| shards.iter().find(|shard| shard.id == id).map(|shard| shard.hosts.clone());
        if let Some(hosts) = hosts(&self.shards().await?) {
            return Ok(hosts);
        }
        // It may have come by way of another router.
        self.forget_shards();
        hosts(&self.shards().await?).ok_or_else(|| Refusal::shard_not_found(id))
    }

    /// All shards; as old as a tick of the sweeper at most.
    pub async fn shards(&self) -> Result<Arc<Vec<Shard>>, Refusal> {
        let known = self.shards.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(shards) = known {
            return Ok(shards);
        }
        let find = doc! { "find": "shards", "batchSize": 1_000, "singleBatch": true };
        let reply = self.read_config(&find).await?;
        let shards = Arc::new(first_batch(&reply).iter().filter_map(Shard::of).collect::<Vec<_>>());
        *self.shards.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shards));
        Ok(shards)
    }

    /// The list of shards is read again when it is next needed.
    pub fn forget_shards(&self) {
        *self.shards.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn on_primary(
        &self,
        hosts: &[String],
        database: &str,
        command: &Document,
        deadline: Duration,
    ) -> Result<Document, Refusal> {
        // One that lost its office between the greeting and the command is asked no second time.
        for _ in 0..3 {
            let mut connection = self.primary(hosts).await?;
            match connection.command(database, command, deadline).await {
                Ok(reply) => return Ok(body::quiet(reply)),
                Err(CommandError::Server { code, .. }) if NOT_PRIMARY.contains(&code) => sleep(PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refusal::unreachable(format!("the primary of {} changes all the time", hosts.join(","))))
    }

    async fn primary(&self, hosts: &[String]) -> Result<Connection, Refusal> {
        let searching = timeout(self.primary_timeout, self.search(hosts)).await;
        searching.map_err(|_| {
            let members = hosts.join(",");
            Refusal::unreachable(format!("no primary among {members} within {:?}", self.primary_timeout))
        })
    }

    /// Asks the members in turn until one says that it is the primary.
    async fn search(&self, hosts: &[String]) -> Connection {
        let key = hosts.first().map_or("", String::as_str);
        let hint = self.hints.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let mut first = hint.filter(|hint| hosts.contains(hint));
        loop {
            let start = first.take();
            for host in start.iter().chain(hosts) {
                if let Some(connection) = greeted_primary(host).await {
                    self.note_primary(key, host);
                    return connection;
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn note_primary(&self, key: &str, host: &str) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.len() >= HINTS_MAX {
            hints.clear();
        }
        hints.insert(key.to_owned(), host.to_owned());
    }
}

/// A connection to a server that says it is the primary.
async fn greeted_primary(host: &str) -> Option<Connection> {
    let mut connection = Connection::connect(host, GREETING_TIMEOUT).await.ok()?;
    let hello = connection.command("admin", &doc! { "hello": 1 }, GREETING_TIMEOUT).await.ok()?;
    hello.get_bool("isWritablePrimary").unwrap_or(false).then_some(connection)
}

impl Shard {
    fn of(document: &Document) -> Option<Self> {
        let id = document.get_str("_id").ok()?.to_owned();
        // `set/host:port,host:port`
        let host = document.get_str("host").ok()?;
        let hosts = host.split_once('/').map_or(host, |(_, hosts)| hosts);
        Some(Self { id, hosts: hosts.split(',').map(str::to_owned).collect() })
    }
}

/// The documents of the first, and here only, batch of a reply.
pub(crate) fn first_batch(reply: &Document) -> Vec<Document> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.map(Vec::as_slice).unwrap_or_default().iter();
    documents.filter_map(Bson::as_document).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_read_from_its_document() {
        let shard = Shard::of(&doc! { "_id": "s0", "host": "set0/a:1,b:2", "state": 1 }).unwrap();
        assert_eq!(shard, Shard { id: "s0".into(), hosts: vec!["a:1".into(), "b:2".into()] });
        assert_eq!(Shard::of(&doc! { "_id": "s0" }), None);
    }

    #[test]
    fn a_batch_is_read_from_its_reply() {
        let reply = doc! { "cursor": { "firstBatch": [{ "a": 1 }], "id": 0_i64 } };
        assert_eq!(first_batch(&reply), [doc! { "a": 1 }]);
        assert!(first_batch(&doc! {}).is_empty());
    }
}
