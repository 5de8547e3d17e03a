//! A cluster of our own processes, as the faults see it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use faults::network::Network;
use faults::{Deployment, Exit, FaultError};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::CommandError;

use super::ClusterError;
use super::kept::{self, Kept, KeptNode};
use super::made::{self, Start};
use super::node::{EXIT_ADDRESS_IN_USE, Node};
use super::own_disk;
use super::process::Lifetime;
use super::proxies;
use super::replica_set;
use super::routing::Routing;
use crate::clock::{Clock, Moment};
use crate::event::{Event, Events};
use crate::scenario::{Managed, Part, Topology};

/// A fresh mongod answers within two seconds; a loaded machine takes its time.
const START_DEADLINE: Duration = Duration::from_secs(90);
/// After a kill in the middle of a large load, a server replays its journal before it answers.
const RESTART_DEADLINE: Duration = Duration::from_secs(30 * 60);
/// Fresh ports that a node tries before the set is initiated.
const PORT_TRIES: u32 = 10;
/// A clean shutdown of a primary waits up to 15 s for its successor.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// Starts of one node that healing tries.
const HEAL_STARTS: u32 = 3;
/// A server that does not take the command in this time gets the signal.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(3);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;

/// A running cluster. Its processes die with it (unless detached), whatever happens.
#[derive(Debug)]
pub struct ManagedCluster {
    nodes: Vec<Arc<Node>>,
    /// Folder of their folders.
    dir: PathBuf,
    topology: Topology,
    routing: Option<Routing>,
    /// In front of the nodes, if the scenario wants it.
    network: Option<Network>,
    events: Events,
    /// One task per process: reaps it and reports its end.
    reapers: Mutex<JoinSet<()>>,
}

impl ManagedCluster {
    /// Starts the nodes, initiates the set, and waits until a majority write went through. Nodes of an earlier
    /// run are started on their data, and need no initiation.
    ///
    /// # Errors
    /// When a node does not come up or nobody takes writes, or the data in the folder is of another kind of
    /// cluster. Nothing is left running then.
    pub async fn start(
        start: &Start<'_>,
        events: &Events,
        stop: &CancellationToken,
    ) -> Result<Self, ClusterError> {
        let clock = events.clock();
        let kept = kept::take_over(start, clock, stop).await?;
        let port = |name: &str| {
            let known = kept.iter().flat_map(|kept| &kept.nodes).find(|node| node.name == name);
            known.map(|node| node.port)
        };
        let made = async {
            let nodes = made::nodes(start, port, clock).await?;
            let network = match start.settings.proxies {
                true => Some(proxies::open(&nodes, kept.is_some()).await?),
                false => None,
            };
            Ok::<_, ClusterError>((nodes, network))
        };
        let (nodes, network) = match made.await {
            Ok(made) => made,
            Err(error) => {
                // It says why there is no cluster; a disk that stays mounted is found at the next start.
                let _stays = own_disk::detach_below(&start.dir).await;
                return Err(error);
            }
        };
        let cluster = Self {
            nodes,
            dir: start.dir.clone(),
            topology: start.settings.topology,
            routing: start.routing.cloned(),
            network,
            events: events.clone(),
            reapers: Mutex::default(),
        };
        let result = tokio::select! {
            result = cluster.up(start, kept.is_some(), stop) => result,
            () = stop.cancelled() => Err(ClusterError::Stopped),
        };
        if let Err(error) = result {
            cluster.stop_all(Duration::ZERO).await;
            return Err(error);
        }
        Ok(cluster)
    }

    async fn up(&self, start: &Start<'_>, again: bool, stop: &CancellationToken) -> Result<(), ClusterError> {
        if again {
            // At the same time: each may replay its journal for minutes.
            for node in &self.nodes {
                self.launch(node).await?;
            }
            self.heal(RESTART_DEADLINE).await?;
            for set in self.sets().values() {
                replica_set::adopt(set, start.settings.election_timeout, self.events.clock()).await?;
            }
            return Ok(());
        }
        self.bring_up(start.settings, stop).await?;
        if start.lifetime == Lifetime::Detached {
            return Ok(());
        }
        let node = |node: &Arc<Node>| KeptNode { name: node.name().into(), port: node.ports().public };
        Kept::new(self.topology, self.nodes.iter().map(node).collect(), true).write(&start.dir)
    }

    async fn bring_up(&self, settings: &Managed, stop: &CancellationToken) -> Result<(), ClusterError> {
        let (routers, servers): (Vec<_>, Vec<_>) =
            self.nodes.iter().partition(|node| node.part() == Part::Mongos);
        for node in &servers {
            self.launch(node).await?;
        }
        for node in &servers {
            self.ready_on_a_free_port(node).await?;
        }
        let clock = self.events.clock();
        let sets = self.sets();
        let initiate = |set: &Vec<Arc<Node>>| {
            let (set, stop, timeout) = (set.clone(), stop.clone(), settings.election_timeout);
            async move { replica_set::initiate(&set, timeout, clock, &stop).await }
        };
        let mut initiated: JoinSet<_> = sets.values().map(initiate).collect();
        while let Some(result) = initiated.join_next().await {
            result.map_err(|panic| ClusterError::Panicked(panic.to_string()))??;
        }
        if settings.topology == Topology::Sharded {
            self.assemble(stop).await?;
        }
        for node in &routers {
            self.launch(node).await?;
            self.ready_on_a_free_port(node).await?;
        }
        Ok(())
    }

    /// Another program may have taken the port between our look and mongod's: then try another one.
    async fn ready_on_a_free_port(&self, node: &Arc<Node>) -> Result<(), ClusterError> {
        for _ in 0..PORT_TRIES {
            match node.ready(START_DEADLINE).await {
                Err(error) if error.is_address_in_use() => {
                    node.set_ports(node.ports().moved()?);
                    if let Some(network) = &self.network {
                        network.set_upstream(node.name(), node.upstream());
                    }
                    self.launch(node).await?;
                }
                result => return result,
            }
        }
        node.ready(START_DEADLINE).await
    }

    pub(super) async fn launch(&self, node: &Arc<Node>) -> Result<i32, ClusterError> {
        if node.part() == Part::Mongos {
            node.set_routes(self.routes(node));
        }
        let reaper = node.spawn()?;
        let pid = node.process().map_or(0, |p| p.pid());
        // Before it dials anybody: by its process a connection is known as its own.
        if let Some(network) = &self.network {
            network.set_pid(node.name(), Some(pid));
        }
        let port = node.ports().public;
        self.events.send(Event::NodeStarted { node: node.name().into(), pid, port }).await;
        let (node, events) = (Arc::clone(node), self.events.clone());
        let mut reapers = self.reapers.lock().await;
        while reapers.try_join_next().is_some() {}
        reapers.spawn(async move {
            let Exit { code, signal } = reaper.run().await;
            // A port that somebody else took is no fault of the server; whoever started it tries again.
            let expected = node.take_end_expected() || code == Some(EXIT_ADDRESS_IN_USE);
            events.send(Event::NodeExited { node: node.name().into(), code, signal, expected }).await;
        });
        Ok(pid)
    }

    /// The run clock.
    pub(super) fn clock(&self) -> Clock {
        self.events.clock()
    }

    /// Who routes, in a sharded cluster.
    pub(super) const fn routing(&self) -> Option<&Routing> {
        self.routing.as_ref()
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// The proxies in front of its nodes; `None`: there are none.
    #[must_use]
    pub const fn proxies(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// How a driver reaches it.
    #[must_use]
    pub fn uri(&self) -> String {
        let dialled = |node: &&Arc<Node>| matches!(node.part(), Part::Data | Part::Mongos);
        let dialled: Vec<_> = self.nodes.iter().filter(dialled).collect();
        let hosts = dialled.iter().map(|node| node.address()).collect::<Vec<_>>().join(",");
        match self.topology {
            Topology::Standalone => format!("mongodb://{hosts}/?directConnection=true"),
            Topology::ReplicaSet => {
                let set = dialled.first().and_then(|node| node.replica_set()).unwrap_or_default();
                format!("mongodb://{hosts}/?replicaSet={set}")
            }
            Topology::Sharded => format!("mongodb://{hosts}/"),
        }
    }

    /// Starts every node that does not run, and waits until all answer and one takes writes.
    ///
    /// # Errors
    /// Which node did not come back, and why.
    pub async fn heal(&self, deadline: Duration) -> Result<(), ClusterError> {
        let until = self.events.clock().now() + deadline;
        for node in &self.nodes {
            self.back_up(node, until).await?;
        }
        while !self.view().await.takes_writes() {
            if self.events.clock().now() > until {
                let members = format!("{:?}", self.view().await.members);
                return Err(ClusterError::NoPrimary { seconds: deadline.as_secs_f64(), members });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// A node that is shutting down right now ends first, and is then started.
    async fn back_up(&self, node: &Arc<Node>, until: Moment) -> Result<(), ClusterError> {
        let mut starts_left = HEAL_STARTS;
        loop {
            if node.process().is_none() {
                self.launch(node).await?;
                starts_left -= 1;
            }
            match node.ready(until.saturating_sub(self.events.clock().now())).await {
                Err(ClusterError::Exited { .. }) if starts_left > 0 => {}
                result => return result,
            }
        }
    }

    /// Ends all processes: asks them to shut down, kills those that still run after `grace` (at once
    /// when that is zero), and reaps all.
    pub async fn stop_all(&self, grace: Duration) {
        let clock = self.events.clock();
        let until = clock.now() + grace.min(STOP_DEADLINE);
        // A process that waits for a frozen disk could not even be killed.
        own_disk::thaw_below(&self.dir);
        if !grace.is_zero() {
            self.ask_to_shut_down().await;
        }
        for node in &self.nodes {
            node.expect_end();
            if let Some(process) = node.process() {
                tokio::select! {
                    biased;
                    _ = process.exited() => {}
                    () = clock.sleep_until(until) => {
                        let _gone = process.signal(SIGKILL);
                        process.exited().await;
                    }
                }
            }
        }
        let mut reapers = self.reapers.lock().await;
        while reapers.join_next().await.is_some() {}
        if let Err(stays) = own_disk::detach_below(&self.dir).await {
            self.events.send(Event::Note { text: stays.to_string() }).await;
        }
        if let Some(network) = &self.network {
            for what in network.stop().await {
                self.events.send(Event::Note { text: format!("proxies: {what}") }).await;
            }
        }
    }

    /// A clean shutdown of all at once. By SIGTERM alone, the primary would wait 15 s for a successor.
    async fn ask_to_shut_down(&self) {
        let mut asked = JoinSet::new();
        for node in &self.nodes {
            node.expect_end();
            let Some(process) = node.process() else {
                continue;
            };
            let node = Arc::clone(node);
            asked.spawn(async move {
                // A paused process would keep everything pending.
                let _gone = process.signal(SIGCONT);
                let command = doc! { "shutdown": 1, "force": true, "timeoutSecs": 0 };
                // It closes the connection instead of answering; where it refuses, the signal is left.
                if !matches!(node.ask(&command, SHUTDOWN_DEADLINE).await, Err(CommandError::Io(_))) {
                    let _gone = process.signal(SIGTERM);
                }
            });
        }
        asked.join_all().await;
    }

    pub(super) fn node(&self, name: &str) -> Result<&Arc<Node>, FaultError> {
        self.nodes.iter().find(|n| n.name() == name).ok_or_else(|| FaultError::Failed {
            doing: "find",
            node: name.into(),
            why: "no node has this name".into(),
        })
    }
}
