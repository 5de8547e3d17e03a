//! Deployments: started by us, or somebody else's.

mod arguments;
pub mod attached;
pub mod binary;
pub mod description;
mod kept;
mod log_tail;
mod made;
mod managed;
mod node;
pub mod own_disk;
pub mod playground;
mod port;
mod process;
mod proxies;
mod reach;
mod remains;
mod replica_set;
mod routing;
mod sharded;

use std::io;
use std::path::{Path, PathBuf};

pub use attached::{Attach, AttachedCluster};
pub use binary::Binary;
pub use description::Description;
pub use made::Start;
pub use managed::ManagedCluster;
pub use process::Lifetime;
pub use proxies::Passage;
pub use remains::Remains;
pub use routing::Routing;

/// A cluster could not be started or asked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum ClusterError {
    #[error("make folder {path}: {why}")]
    Folder { path: PathBuf, why: String },
    #[error("no free port between 20000 and 31999 on 127.0.0.1")]
    NoPort,
    #[error("start {node}: run {binary}: {why}")]
    Spawn { node: String, binary: PathBuf, why: String },
    #[error("start {node}: mongod ended ({how}) before it answered; its log {log} ends with:\n{tail}")]
    Exited { node: String, address_in_use: bool, how: String, log: PathBuf, tail: String },
    #[error("start {node}: mongod did not answer within {seconds} s; its log {log} ends with:\n{tail}")]
    NotReady { node: String, seconds: f64, log: PathBuf, tail: String },
    #[error("set up the replica set: {what} on {node}: {why}")]
    ReplicaSet { what: &'static str, node: String, why: String },
    #[error("set up the sharded cluster: {what}, asking {node}: {why}")]
    Sharding { what: &'static str, node: String, why: String },
    #[error("find a router for the sharded cluster: {0}")]
    Routing(String),
    #[error("no node took writes within {seconds} s; the members say: {members}")]
    NoPrimary { seconds: f64, members: String },
    #[error("{path}: {why}")]
    Kept { path: PathBuf, why: String },
    #[error("a disk for a node, {path}: {why}")]
    OwnDisk { path: PathBuf, why: String },
    #[error("proxies in front of the servers: {0}")]
    Proxies(String),
    #[error("attach to the deployment: {0}")]
    Attach(String),
    #[error("a task of the start panicked: {0}")]
    Panicked(String),
    #[error("the start was stopped")]
    Stopped,
    #[error("{0}")]
    Playground(String),
}

impl ClusterError {
    fn folder(path: &Path, why: &io::Error) -> Self {
        Self::Folder { path: path.into(), why: why.to_string() }
    }

    /// mongod could not listen on its port, so another port is worth a try.
    const fn is_address_in_use(&self) -> bool {
        matches!(self, Self::Exited { address_in_use: true, .. })
    }
}
