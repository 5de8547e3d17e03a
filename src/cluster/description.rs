//! `deployment.json`: what another process needs to know of a deployment to undo faults on it. Without secrets.

use std::path::{Path, PathBuf};

use faults::Proof;
use serde::{Deserialize, Serialize};

use super::ClusterError;
use super::attached::CommandLine;
use super::managed::ManagedCluster;
use crate::file;
use crate::scenario::{Hooks, Secret, without_credentials};

/// Name of the file.
pub const FILE: &str = "deployment.json";
const SCHEMA: &str = "mongosoak-deployment/1";

/// A deployment on which a tester works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    schema: String,
    /// The tester, so that it can be told whether that still runs.
    pub tester_pid: i32,
    /// How to reach it, without user and password; `None`: it was ours, and ends with its tester.
    pub uri: Option<String>,
    /// The connection string had a user or a password, which must be given again.
    pub needs_credentials: bool,
    /// The user's own commands.
    #[serde(default)]
    pub hooks: Hooks,
    /// Its members.
    pub nodes: Vec<DescribedNode>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribedNode {
    /// Its name in the tester.
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// Its data on this machine.
    pub data: Option<PathBuf>,
    /// Its log on this machine.
    pub log: Option<PathBuf>,
    /// How its process is started, if that is within reach.
    pub command: Option<CommandLine>,
}

impl Description {
    /// Somebody else's deployment.
    pub(super) fn attached(uri: &Secret, hooks: &Hooks, nodes: Vec<DescribedNode>) -> Self {
        let public = without_credentials(uri.reveal());
        let needs_credentials = public != uri.reveal();
        Self { uri: Some(public), needs_credentials, hooks: hooks.clone(), ..Self::of(nodes) }
    }

    fn of(nodes: Vec<DescribedNode>) -> Self {
        Self {
            schema: SCHEMA.into(),
            tester_pid: i32::try_from(std::process::id()).unwrap_or_default(),
            uri: None,
            needs_credentials: false,
            hooks: Hooks::default(),
            nodes,
        }
    }

    /// Reads the file in a folder.
    ///
    /// # Errors
    /// When there is none, or it is something else.
    pub fn read(dir: &Path) -> Result<Self, ClusterError> {
        let path = dir.join(FILE);
        let failed = |why: String| ClusterError::Kept { path: path.clone(), why };
        let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }

    /// Writes the file into a folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ClusterError> {
        let path = dir.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string());
        text.and_then(|text| file::replace(&path, &(text + "\n")).map_err(|error| error.to_string()))
            .map_err(|why| ClusterError::Kept { path, why })
    }
}

impl ManagedCluster {
    /// What another process needs to know to clean up after it.
    #[must_use]
    pub fn describe(&self) -> Description {
        let node = |node: &std::sync::Arc<super::node::Node>| DescribedNode {
            name: node.name().into(),
            address: node.address(),
            data: Some(node.dir().join("db")),
            log: Some(node.log_path()),
            command: None,
        };
        Description::of(self.nodes().iter().map(node).collect())
    }
}

impl DescribedNode {
    /// The process that still uses its data; `None`: nobody does.
    #[must_use]
    pub fn survivor(&self) -> Option<i32> {
        let data = self.data.as_ref()?;
        let pid = std::fs::read_to_string(data.join("mongod.lock")).ok()?.trim().parse().ok()?;
        // The lock file of a dead server names a number that may be anybody's by now.
        let runs = Proof::of(pid, None)?.holds();
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let path = data.to_string_lossy();
        (runs && String::from_utf8_lossy(&command).contains(&*path)).then_some(pid)
    }
}
