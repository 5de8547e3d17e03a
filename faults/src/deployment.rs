//! What a fault may ask for. The test seam: a real cluster implements it, and so do test doubles.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bson::Document;
use serde::{Deserialize, Serialize};

use crate::catalog::Need;
use crate::network::Network;
use crate::{CommandError, FaultError};

/// The members as they are right now, each asked directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// All members, in the order of their names.
    pub members: Vec<Member>,
}

impl View {
    /// The member of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name == name)
    }

    /// The primary (or the one standalone node).
    #[must_use]
    pub fn primary(&self) -> Option<&Member> {
        self.members.iter().find(|m| matches!(m.role, Role::Primary | Role::Standalone))
    }

    /// The members of the replica sets to which these nodes belong: what a fault on them has to do with. A router,
    /// which belongs to none, is alone.
    #[must_use]
    pub fn around(&self, nodes: &[String]) -> Self {
        let named = |member: &Member| nodes.contains(&member.name);
        if !self.members.iter().any(named) {
            return self.clone();
        }
        let sets: Vec<_> = self.members.iter().filter(|m| named(m)).map(|m| &m.set).collect();
        let beside = |m: &&Member| named(m) || m.role != Role::Router && sets.contains(&&m.set);
        Self { members: self.members.iter().filter(beside).cloned().collect() }
    }

    /// Each replica set by itself, in the order of their names; routers belong to none.
    #[must_use]
    pub fn sets(&self) -> Vec<Self> {
        let mut sets = BTreeMap::<_, Self>::new();
        for member in self.members.iter().filter(|m| m.role != Role::Router) {
            sets.entry(&member.set).or_default().members.push(member.clone());
        }
        sets.into_values().collect()
    }

    /// Whether every replica set has a primary.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        !self.members.is_empty() && self.sets().iter().all(|set| set.primary().is_some())
    }

    /// The newest election term that any member knows.
    #[must_use]
    pub fn term(&self) -> Option<i64> {
        self.members.iter().filter_map(|m| m.term).max()
    }
}

/// One member of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name in this deployment: `node1`, `node2` ...
    pub name: String,
    /// What it says of itself; `Down` when it does not answer.
    pub role: Role,
    /// Election term as this member knows it; `None` when it does not answer or has none.
    pub term: Option<i64>,
    /// Its replica set in a sharded cluster: `config`, `shard0`, `shard1` ...; `None`: the deployment is one set, or
    /// a standalone, or this is a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
}

impl Member {
    /// Whether it leads, follows or routes.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        matches!(self.role, Role::Primary | Role::Secondary | Role::Standalone | Role::Router)
    }
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Follows.
    Secondary,
    /// A mongod without replication.
    Standalone,
    /// Passes operations on to the shards.
    Router,
    /// Answers, but is neither (starting, recovering, rolling back).
    Other,
    /// Does not answer.
    Down,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("it was not running"),
        }
    }
}

/// Where a node lives on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Folder of its data.
    pub data: PathBuf,
    /// Its log.
    pub log: PathBuf,
    /// Folder into which the tool writes its own recording: never to be filled.
    pub own_output: Option<PathBuf>,
}

/// How a node is started, beyond its usual way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOptions {
    /// More arguments, after all others: `["--oplogSize", "64"]`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// `--setParameter` name=value; replaces the usual one of that name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// A deployment as a fault sees it. What it cannot do, it says with [`FaultError::Unavailable`].
#[async_trait]
pub trait Deployment: Send + Sync {
    /// Asks every member directly what it is now. Members that do not answer soon are `Down`.
    async fn view(&self) -> View;

    /// Runs a command on this very node, past proxies and routers.
    async fn command(
        &self,
        node: &str,
        database: &str,
        body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError>;

    /// What of a need is not there for this node, and what to try; `None`: it is there, or only trying it out
    /// will tell.
    async fn lacks(&self, node: &str, need: Need) -> Option<String> {
        let _of_any = node;
        need.missing()
    }

    /// Process id of a node; `None` while it does not run, or is out of reach.
    async fn pid(&self, node: &str) -> Option<i32>;

    /// Sends a signal to a node's process; one that ends it notes that its end is expected.
    async fn signal(&self, node: &str, signal: i32) -> Result<(), FaultError>;

    /// Waits until a node's process has ended, at most `deadline`.
    async fn wait_exit(&self, node: &str, deadline: Duration) -> Result<Exit, FaultError>;

    /// From now on the end of a node's process is the doing of a fault (`expected`), or again a finding.
    async fn expect_end(&self, node: &str, expected: bool) -> Result<(), FaultError> {
        let _nobody_counts = (node, expected);
        Ok(())
    }

    /// Starts a node again on its old port and data. Does nothing when it runs.
    async fn start(&self, node: &str) -> Result<i32, FaultError>;

    /// Waits until a node answers and is our process, at most `deadline`.
    async fn wait_ready(&self, node: &str, deadline: Duration) -> Result<(), FaultError>;

    /// Whether the processes end with this one, whatever happens to it.
    fn ends_with_tester(&self) -> bool;

    /// How a client reaches the node: `host:port`, through the proxy where there is one.
    fn address(&self, node: &str) -> Option<String>;

    /// The proxies between everybody and every node; `None`: there are none.
    fn network(&self) -> Option<&Network> {
        None
    }

    /// Where the node lives; `None`: not on this machine, or unknown.
    fn place(&self, node: &str) -> Option<Place> {
        let _elsewhere = node;
        None
    }

    /// Changes how a node is started from its next start on; `None`: as usual again.
    async fn launch_options(&self, node: &str, options: Option<LaunchOptions>) -> Result<(), FaultError> {
        let _as_it_is = options;
        Err(unavailable(node, "only a managed cluster can start a node with other options"))
    }

    /// Empties the data folder of a node that does not run.
    async fn wipe(&self, node: &str) -> Result<(), FaultError> {
        Err(unavailable(node, "only the data of a managed cluster is removed"))
    }

    /// Facts of a node for the user's own commands: `name`, `host`, `port`, `pid`, `data`, `log`.
    async fn facts(&self, node: &str) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::from([("name".to_owned(), node.to_owned())]);
        if let Some(address) = self.address(node) {
            if let Some((host, port)) = address.rsplit_once(':') {
                facts.insert("host".into(), host.into());
                facts.insert("port".into(), port.into());
            }
            facts.insert("address".into(), address);
        }
        if let Some(pid) = self.pid(node).await {
            facts.insert("pid".into(), pid.to_string());
        }
        if let Some(place) = self.place(node) {
            facts.insert("data".into(), place.data.display().to_string());
            facts.insert("log".into(), place.log.display().to_string());
        }
        facts
    }
}

fn unavailable(node: &str, why: &str) -> FaultError {
    FaultError::Unavailable { node: node.into(), why: why.into() }
}
