//! A cluster of our own processes, as the faults see it.

use std::collections::BTreeMap;
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
use super::binary::Binary;
use super::kept::{self, Kept, KeptNode, node_name};
use super::node::{EXIT_ADDRESS_IN_USE, Node, Settings};
use super::own_disk;
use super::port::Ports;
use super::process::Lifetime;
use super::proxies;
use super::replica_set::{self, SET_NAME};
use crate::clock::{Clock, Moment};
use crate::event::{Event, Events};
use crate::scenario::{Managed, Topology};

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

/// What a managed cluster is made of.
#[derive(Debug)]
pub struct Start<'a> {
    /// Shape and options.
    pub settings: &'a Managed,
    /// Which mongod.
    pub binary: &'a Binary,
    /// Folder of the nodes' folders. If the nodes of an earlier run are in it, they are started again.
    pub dir: PathBuf,
    /// Whether the processes die with the tester.
    pub lifetime: Lifetime,
}

/// A running cluster. Its processes die with it (unless detached), whatever happens.
#[derive(Debug)]
pub struct ManagedCluster {
    nodes: Vec<Arc<Node>>,
    /// Folder of their folders.
    dir: PathBuf,
    topology: Topology,
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
        let port = |n: u8| kept.as_ref().and_then(|k| k.nodes.get(usize::from(n) - 1)).map(|node| node.port);
        let made = async {
            let nodes = make_nodes(start, port, clock).await?;
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
            return match start.settings.topology {
                Topology::Standalone => Ok(()),
                Topology::ReplicaSet => {
                    replica_set::adopt(&self.nodes, start.settings.election_timeout, self.events.clock())
                        .await
                }
            };
        }
        self.bring_up(start.settings, stop).await?;
        if start.lifetime == Lifetime::Detached {
            return Ok(());
        }
        let node = |node: &Arc<Node>| KeptNode { name: node.name().into(), port: node.ports().public };
        Kept::new(self.topology, self.nodes.iter().map(node).collect(), true).write(&start.dir)
    }

    async fn bring_up(&self, settings: &Managed, stop: &CancellationToken) -> Result<(), ClusterError> {
        for node in &self.nodes {
            self.launch(node).await?;
        }
        for node in &self.nodes {
            self.ready_on_a_free_port(node).await?;
        }
        match settings.topology {
            Topology::Standalone => Ok(()),
            Topology::ReplicaSet => {
                replica_set::initiate(&self.nodes, settings.election_timeout, self.events.clock(), stop).await
            }
        }
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
        let hosts: Vec<_> = self.nodes.iter().map(|n| n.address()).collect();
        match self.topology {
            Topology::Standalone => format!("mongodb://{}/?directConnection=true", hosts.join(",")),
            Topology::ReplicaSet => format!("mongodb://{}/?replicaSet={SET_NAME}", hosts.join(",")),
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
        while self.view().await.primary().is_none() {
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

/// The nodes, none of them started, on these ports or free ones.
async fn make_nodes(
    start: &Start<'_>,
    port: impl Fn(u8) -> Option<u16>,
    clock: Clock,
) -> Result<Vec<Arc<Node>>, ClusterError> {
    let mut nodes = Vec::new();
    for n in 1..=start.settings.members {
        let ports = Ports::new(port(n), start.settings.proxies)?;
        nodes.push(Arc::new(Node::new(node_settings(start, n).await?, ports, clock)?));
    }
    Ok(nodes)
}

/// Settings of a node, with its folder, disk and clock in place.
async fn node_settings(start: &Start<'_>, number: u8) -> Result<Settings, ClusterError> {
    let name = node_name(number);
    let dir = start.dir.join(&name);
    own_disk::attach(&dir, start.settings.disk_bytes).await?;
    let environment = if start.settings.clock_library {
        let installed = std::fs::create_dir_all(&dir).and_then(|()| faults::resource::clock::install(&dir));
        installed.map_err(|e| ClusterError::folder(&dir, &e))?
    } else {
        BTreeMap::new()
    };
    Ok(Settings {
        dir,
        name,
        binary: start.binary.clone(),
        replica_set: (start.settings.topology == Topology::ReplicaSet).then(|| SET_NAME.to_owned()),
        cache_bytes: start.settings.cache_bytes,
        oplog_bytes: start.settings.oplog_bytes,
        parameters: parameters(start.settings),
        environment,
        lifetime: start.lifetime,
    })
}

fn parameters(settings: &Managed) -> BTreeMap<String, String> {
    let mut all = settings.parameters.clone();
    if settings.test_commands {
        all.insert("enableTestCommands".into(), "1".into());
    }
    all
}
