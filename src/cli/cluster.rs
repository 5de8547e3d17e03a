//! `cluster start`, `stop`, `status`, `list`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::task::JoinSet;

use super::complain;
use crate::clock::Clock;
use crate::cluster::playground::{self, Playground};
use crate::cluster::{ClusterError, Lifetime, ManagedCluster, Start, binary};
use crate::event::Events;
use crate::exit::Outcome;
use crate::scenario::{Managed, Topology, quantity};
use crate::signals::{Listener, Stop};

/// What to do with clusters.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Start a cluster that goes on when the command has ended
    Start(StartArguments),
    /// Stop a cluster and remove its data
    Stop(NamedArguments),
    /// Say how a cluster is
    Status(NamedArguments),
    /// List the clusters of this user
    List,
}

/// Arguments of `cluster start`.
#[derive(Debug, Args)]
pub struct StartArguments {
    /// Its name
    #[arg(default_value = "default")]
    name: String,
    /// Members of the replica set, 1 to 7; 0 starts a standalone
    #[arg(long, short, default_value_t = 3)]
    members: u8,
    /// Path or version prefix of the mongod to start
    #[arg(long, value_name = "PATH|VERSION")]
    mongod: Option<String>,
    /// WiredTiger cache of each node
    #[arg(long, default_value = "256MiB", value_parser = quantity::size)]
    cache: u64,
    /// Replica set election timeout
    #[arg(long, default_value = "10s", value_parser = quantity::duration)]
    election_timeout: Duration,
    /// Folder of the cluster; else one in the user's state folder
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// A cluster by its name.
#[derive(Debug, Args)]
pub struct NamedArguments {
    /// Its name
    #[arg(default_value = "default")]
    name: String,
    /// Its folder, if it was given at the start
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Does it.
pub async fn run(command: ClusterCommand) -> Outcome {
    let result = match command {
        ClusterCommand::Start(arguments) => start(&arguments).await,
        ClusterCommand::Stop(arguments) => stop(&arguments).await,
        ClusterCommand::Status(arguments) => status(&arguments),
        ClusterCommand::List => list(),
    };
    result.unwrap_or_else(|error| {
        let stopped = matches!(error, ClusterError::Stopped);
        complain(error, if stopped { Outcome::Interrupted } else { Outcome::Error })
    })
}

fn folder(name: &str, dir: Option<&Path>) -> Result<PathBuf, ClusterError> {
    if let Some(dir) = dir {
        return std::path::absolute(dir).map_err(|e| ClusterError::Playground(e.to_string()));
    }
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if !plain {
        return Err(ClusterError::Playground(format!("\"{name}\": a name is letters, digits, - and _")));
    }
    Ok(playground::base_dir()?.join(name))
}

async fn start(arguments: &StartArguments) -> Result<Outcome, ClusterError> {
    let dir = folder(&arguments.name, arguments.dir.as_deref())?;
    if let Ok(there) = playground::read(&dir) {
        let text = format!("cluster \"{}\" is there already: {}", there.name, there.uri);
        return Ok(complain(
            format!("{text}\nStop it first: mongosoak cluster stop {}", there.name),
            Outcome::Usage,
        ));
    }
    if arguments.members > 7 {
        return Ok(complain("a replica set has at most 7 voting members", Outcome::Usage));
    }
    let found = match binary::find(arguments.mongod.as_deref()).await {
        Ok(found) => found,
        Err(error) => return Ok(complain(error, Outcome::Error)),
    };
    if let Err(error) = playground::claim(&dir) {
        return Ok(complain(error, Outcome::Usage));
    }
    let topology = if arguments.members == 0 { Topology::Standalone } else { Topology::ReplicaSet };
    let settings = Managed {
        topology,
        members: arguments.members.max(1),
        mongod: arguments.mongod.clone(),
        cache_bytes: arguments.cache,
        election_timeout: arguments.election_timeout,
        ..Managed::default()
    };
    let start = Start {
        settings: &settings,
        binary: &found,
        routing: None,
        dir: dir.clone(),
        lifetime: Lifetime::Detached,
    };
    let playground = launch(&start).await?;
    println!("{}", playground.uri);
    eprintln!(
        "mongod {} in {}; stop it with: mongosoak cluster stop {}",
        found.version,
        dir.display(),
        playground.name
    );
    Ok(Outcome::Pass)
}

async fn launch(start: &Start<'_>) -> Result<Playground, ClusterError> {
    let signal_error = |e: std::io::Error| ClusterError::Playground(format!("listen to signals: {e}"));
    let (listener, stop) = (Listener::install().map_err(signal_error)?, Stop::default());
    let mut signals = JoinSet::new();
    signals.spawn(listener.run(stop.clone()));
    // Nobody records here; the queue is only drained.
    let (events, mut queue) = Events::channel(Clock::start());
    let mut drain = JoinSet::new();
    drain.spawn(async move { while queue.recv().await.is_some() {} });
    let started = ManagedCluster::start(start, &events, &stop.orderly).await;
    let saved = started.and_then(|cluster| playground::save(&start.dir, &cluster, start.binary));
    if saved.is_err() {
        // What was started is stopped by now, and everything in the folder came with it.
        let _logs_are_gone = std::fs::remove_dir_all(&start.dir);
    }
    saved
}

async fn stop(arguments: &NamedArguments) -> Result<Outcome, ClusterError> {
    let dir = folder(&arguments.name, arguments.dir.as_deref())?;
    let stopped = playground::stop(&dir, Clock::start()).await?;
    println!("cluster \"{}\" stopped, its data removed", stopped.name);
    Ok(Outcome::Pass)
}

fn status(arguments: &NamedArguments) -> Result<Outcome, ClusterError> {
    let playground = playground::read(&folder(&arguments.name, arguments.dir.as_deref())?)?;
    println!("{}", playground.uri);
    let mut all = true;
    for node in &playground.nodes {
        let pid = node.live_pid();
        all &= pid.is_some();
        let state = pid.map_or_else(|| "DOES NOT RUN".into(), |pid| format!("pid {pid} runs"));
        println!("  {} 127.0.0.1:{} {state}", node.name, node.port);
    }
    Ok(if all { Outcome::Pass } else { Outcome::Fail })
}

fn list() -> Result<Outcome, ClusterError> {
    for playground in playground::list(&playground::base_dir()?) {
        let running = playground.nodes.iter().filter(|n| n.live_pid().is_some()).count();
        let total = playground.nodes.len();
        println!(
            "{:<16} mongod {:<8} {running}/{total} run  {}",
            playground.name, playground.mongod, playground.uri
        );
    }
    Ok(Outcome::Pass)
}
