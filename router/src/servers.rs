//! The config servers and the shards, asked directly. Finds whoever leads, and asks again after an election: but only
//! what was never sent, or was refused for want of a leader.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use wire::{CommandError, Connection};

use crate::answer::Refusal;

/// A member that lives answers at once.
const HELLO_DEADLINE: Duration = Duration::from_secs(2);
/// A move of a large chunk on a busy disk.
pub(crate) const LONG: Duration = Duration::from_secs(20 * 60);
/// An election, and some more.
const LEADER_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// Kept connections to one server.
const MOST_IDLE: usize = 16;
/// What config says is believed so long.
const BELIEVED: Duration = Duration::from_secs(5);
/// `NotWritablePrimary`, `NotPrimaryNoSecondaryOk`, `PrimarySteppedDown`, `InterruptedAtShutdown`,
/// `ShutdownInProgress`, `NotPrimaryOrSecondary`: nothing was done.
const NO_LEADER: [i32; 6] = [10_107, 13_435, 189, 11_600, 91, 13_436];

/// Everybody behind the router but the engine.
#[derive(Debug)]
pub(crate) struct Servers {
    config: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: BTreeMap<String, Vec<Connection>>,
    /// Who led a set when it was last asked, by its first host.
    leaders: BTreeMap<String, String>,
    shards: Option<(Instant, BTreeMap<String, Vec<String>>)>,
}

impl Servers {
    /// Of a cluster with these config servers.
    pub fn new(config: Vec<String>) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// Runs a command on the leading config server.
    pub async fn on_config(&self, database: &str, command: &Document) -> Result<Document, Refusal> {
        self.on_leader(&self.config, database, command).await
    }

    /// Runs a command on the primary of a shard.
    pub async fn on_shard(
        &self,
        shard: &str,
        database: &str,
        command: &Document,
    ) -> Result<Document, Refusal> {
        let shards = self.shards().await?;
        let missing = || Refusal::new(70, "ShardNotFound", format!("there is no shard {shard}"));
        let hosts = shards.get(shard).ok_or_else(missing)?;
        self.on_leader(hosts, database, command).await
    }

    /// Runs a command on every member of every shard; who does not answer is left out.
    pub async fn on_all_members(&self, command: &Document) -> Result<(), Refusal> {
        for host in self.shards().await?.into_values().flatten() {
            if let Err(error) = self.ask(&host, "admin", command, HELLO_DEADLINE).await {
                tracing::debug!(%host, %error, "a member did not take a command that all get");
            }
        }
        Ok(())
    }

    /// The shards with their hosts.
    pub async fn shards(&self) -> Result<BTreeMap<String, Vec<String>>, Refusal> {
        let known = self.state().shards.clone();
        if let Some((at, shards)) = known
            && at.elapsed() < BELIEVED
        {
            return Ok(shards);
        }
        let found = self.find("shards", doc! {}).await?;
        let hosts = |shard: &Document| {
            let host = shard.get_str("host").ok()?;
            let hosts = host.split_once('/').map_or(host, |(_, hosts)| hosts);
            let hosts = hosts.split(',').map(str::to_owned).collect();
            Some((shard.get_str("_id").ok()?.to_owned(), hosts))
        };
        let shards: BTreeMap<_, _> = found.iter().filter_map(hosts).collect();
        self.state().shards = Some((crate::now(), shards.clone()));
        Ok(shards)
    }

    /// Shards come and go: look again.
    pub fn forget(&self) {
        self.state().shards = None;
    }

    /// Documents of a collection of `config`, as the majority has them.
    pub async fn find(&self, collection: &str, filter: Document) -> Result<Vec<Document>, Refusal> {
        let find = doc! {
            "find": collection,
            "filter": filter,
            "batchSize": 100_000,
            "singleBatch": true,
            "readConcern": { "level": "majority" },
        };
        let answer = self.on_config("config", &find).await?;
        let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let batch = batch.map_err(|error| Refusal::malformed(error.to_string()))?;
        Ok(batch.iter().filter_map(Bson::as_document).cloned().collect())
    }

    async fn on_leader(
        &self,
        hosts: &[String],
        database: &str,
        command: &Document,
    ) -> Result<Document, Refusal> {
        let until = crate::now() + LEADER_WITHIN;
        loop {
            let why = match self.leader(hosts).await {
                Some(leader) => match self.ask(&leader, database, command, LONG).await {
                    Ok(answer) => return Ok(answer),
                    Err(CommandError::Server { code, code_name, message }) if NO_LEADER.contains(&code) => {
                        Refusal::new(code, &code_name, message)
                    }
                    Err(error @ CommandError::Server { .. }) => return Err(error.into()),
                    // It may have been done.
                    Err(error) => {
                        self.forget_leader(hosts);
                        return Err(error.into());
                    }
                },
                None => {
                    let text = format!("none of {} is primary", hosts.join(", "));
                    Refusal::new(133, "FailedToSatisfyReadPreference", text)
                }
            };
            self.forget_leader(hosts);
            if crate::now() > until {
                return Err(why);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn leader(&self, hosts: &[String]) -> Option<String> {
        let key = hosts.first()?;
        if let Some(known) = self.state().leaders.get(key).cloned() {
            return Some(known);
        }
        for host in hosts {
            let hello = self.ask(host, "admin", &doc! { "hello": 1 }, HELLO_DEADLINE).await;
            if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                self.state().leaders.insert(key.clone(), host.clone());
                return Some(host.clone());
            }
        }
        None
    }

    fn forget_leader(&self, hosts: &[String]) {
        if let Some(key) = hosts.first() {
            self.state().leaders.remove(key);
        }
    }

    /// Runs a command on one server. A kept connection that turns out to be cut is looked at before it is used.
    async fn ask(
        &self,
        host: &str,
        database: &str,
        command: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        let kept = self.state().idle.get_mut(host).and_then(Vec::pop);
        let mut connection = match kept {
            Some(connection) if connection.is_open() => connection,
            _ => Connection::connect(host, HELLO_DEADLINE).await?,
        };
        let answer = connection.command(database, command, deadline).await;
        if !connection.is_broken() {
            let mut state = self.state();
            let idle = state.idle.entry(host.to_owned()).or_default();
            if idle.len() < MOST_IDLE {
                idle.push(connection);
            }
        }
        answer
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
