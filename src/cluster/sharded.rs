//! Makes one cluster of config servers and shards that are initiated replica sets. The config server is spoken to
//! directly, with the commands that a mongos would send: there is no router yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use faults::{CONFIG_SET, ROUTER_SET};
use tokio_util::sync::CancellationToken;
use wire::CommandError;

use super::ClusterError;
use super::managed::ManagedCluster;
use super::node::Node;
use super::routing::Routing;
use crate::clock::Clock;

/// Adding a shard waits for majorities on two replica sets.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
/// A shard without data is drained at once; the config server looks again after some seconds.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);
/// Not yet, on a config server that was elected a moment ago.
const TRY_AGAIN: [i32; 4] = [134, 189, 91, 11600];

/// A replica set by its name, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    /// Its name.
    name: String,
    /// `host:port` of its members.
    hosts: Vec<String>,
}

impl Set {
    fn connection(&self) -> String {
        format!("{}/{}", self.name, self.hosts.join(","))
    }
}

impl ManagedCluster {
    /// Makes one cluster of the sets. The first config server is the primary: its set was initiated a moment ago.
    pub(super) async fn assemble(&self, stop: &CancellationToken) -> Result<(), ClusterError> {
        let mut sets = self.sets();
        let Some(config) = sets.remove(CONFIG_SET) else { return Ok(()) };
        let hosts = |nodes: &[Arc<Node>]| nodes.iter().map(|node| node.address()).collect();
        let shards: Vec<_> =
            sets.iter().map(|(name, nodes)| Set { name: (*name).to_owned(), hosts: hosts(nodes) }).collect();
        assemble(&config[0], &shards, self.clock(), stop).await
    }

    /// The replica sets by name, members in their order.
    pub(super) fn sets(&self) -> BTreeMap<&str, Vec<Arc<Node>>> {
        let mut sets = BTreeMap::<&str, Vec<Arc<Node>>>::new();
        for node in self.nodes() {
            if let Some(name) = node.replica_set() {
                sets.entry(name).or_default().push(Arc::clone(node));
            }
        }
        sets
    }

    /// What a mongos is started with: where the config servers are, and for a stand-in the server that routes.
    pub(super) fn routes(&self, mongos: &Node) -> Vec<String> {
        let sets = self.sets();
        let hosts = |set: &str| -> Vec<String> {
            sets.get(set).into_iter().flatten().map(|node| node.address()).collect()
        };
        let (port, config) = (mongos.ports().own.to_string(), hosts(CONFIG_SET));
        let text = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        match self.routing() {
            Some(Routing::Mongos(_)) => {
                let (config, log) = (config_db(&config), mongos.log_path());
                let log = log.to_string_lossy();
                text(&[
                    "--configdb",
                    &config,
                    "--port",
                    &port,
                    "--bind_ip",
                    "127.0.0.1",
                    "--nounixsocket",
                    "--logpath",
                    &log,
                    "--logappend",
                ])
            }
            _ => {
                let engine = hosts(ROUTER_SET).join(",");
                text(&["router", "--port", &port, "--engine", &engine, "--config", &config.join(",")])
            }
        }
    }
}

/// Adds the shards, drains the set behind a stand-in router, and stops the balancer: chunks move when a scenario
/// says so.
///
/// # Errors
/// Which command failed, and why.
async fn assemble(
    config: &Node,
    shards: &[Set],
    clock: Clock,
    stop: &CancellationToken,
) -> Result<(), ClusterError> {
    // The one that is drained again must not be the last one.
    let (engine, shards): (Vec<_>, Vec<_>) = shards.iter().partition(|set| set.name == ROUTER_SET);
    for set in engine.iter().chain(&shards) {
        let add =
            doc! { "_configsvrAddShard": set.connection(), "name": &set.name, "writeConcern": majority() };
        until_done(config, &add, "add a shard", clock, stop, |_| true).await?;
    }
    for set in &engine {
        let remove = doc! { "_configsvrRemoveShard": &set.name, "writeConcern": majority() };
        let is_drained = |answer: &Document| answer.get_str("state").is_ok_and(|state| state == "completed");
        until_done(config, &remove, "drain the router's set", clock, stop, is_drained).await?;
    }
    let still = doc! { "_configsvrBalancerStop": 1, "maxTimeMS": 60_000 };
    until_done(config, &still, "stop the balancer", clock, stop, |_| true).await
}

fn majority() -> Document {
    doc! { "w": "majority", "wtimeout": 60_000 }
}

/// Asks until the answer is what is wanted.
async fn until_done(
    config: &Node,
    command: &Document,
    what: &'static str,
    clock: Clock,
    stop: &CancellationToken,
    wanted: impl Fn(&Document) -> bool,
) -> Result<(), ClusterError> {
    let until = clock.now() + DRAINED_WITHIN;
    let failed = |why: String| ClusterError::Sharding { what, node: config.name().into(), why };
    loop {
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(ClusterError::Stopped),
            answer = config.ask(command, COMMAND_DEADLINE) => answer,
        };
        let why = match answer {
            Ok(answer) if wanted(&answer) => return Ok(()),
            Ok(answer) => answer.to_string(),
            Err(CommandError::Server { code, message, .. }) if TRY_AGAIN.contains(&code) => message,
            Err(error) => return Err(failed(error.to_string())),
        };
        if clock.now() > until {
            return Err(failed(format!("not within {} s: {why}", DRAINED_WITHIN.as_secs())));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Name and hosts of the config servers, as a mongos takes them.
fn config_db(hosts: &[String]) -> String {
    Set { name: CONFIG_SET.into(), hosts: hosts.to_vec() }.connection()
}
