//! `cluster start`, `stop`, `status`, `list`: a local cluster that outlives the command.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use faults::Proof;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{Binary, ClusterError, ManagedCluster};
use crate::clock::Clock;
use crate::state;

const FILE: &str = "cluster.json";
/// A killed process is gone at once, unless it hangs in the kernel (a disk that does not answer).
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// A cluster as `cluster.json` in its folder describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playground {
    /// `mongosoak-cluster/1`.
    pub schema: String,
    /// Its name: the folder's.
    pub name: String,
    /// How a driver reaches it.
    pub uri: String,
    /// Version of its mongod.
    pub mongod: String,
    /// Its processes.
    pub nodes: Vec<Process>,
}

/// One process, described so that nobody else's can be mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// `node1`, `node2` ...
    pub name: String,
    /// Process id.
    pub pid: i32,
    /// When the kernel started it, in clock ticks since boot: tells a reused pid.
    pub start_ticks: u64,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its folder, which stands in its command line.
    pub dir: PathBuf,
}

/// Folder of all clusters of this user.
///
/// # Errors
/// When there is no home folder.
pub fn base_dir() -> Result<PathBuf, ClusterError> {
    let state =
        state::dir().ok_or_else(|| ClusterError::Playground("no HOME: name a folder with --dir".into()))?;
    Ok(state.join("clusters"))
}

/// Takes a folder for a cluster: makes it, or takes one that is empty. Of several that want the same one
/// at the same moment, one gets it.
///
/// # Errors
/// When there is something in it, which is not ours and would be removed with the cluster.
pub fn claim(dir: &Path) -> Result<(), ClusterError> {
    let failed = |why: &dyn std::fmt::Display| {
        ClusterError::Playground(format!("folder {}: {why}; name another one with --dir", dir.display()))
    };
    std::fs::create_dir_all(dir).map_err(|e| failed(&e))?;
    if std::fs::read_dir(dir).map_err(|e| failed(&e))?.next().is_some() {
        return Err(failed(&"it is not empty, or a cluster is being started in it"));
    }
    // Empty until the cluster is up: `save` fills it.
    std::fs::File::create_new(dir.join(FILE)).map(drop).map_err(|e| failed(&e))
}

/// Writes `cluster.json` of a cluster that was just started.
///
/// # Errors
/// When the file cannot be written.
pub fn save(dir: &Path, cluster: &ManagedCluster, binary: &Binary) -> Result<Playground, ClusterError> {
    let name = dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let process = |node: &std::sync::Arc<super::node::Node>| {
        let pid = node.process().map_or(0, |p| p.pid());
        Process {
            name: node.name().into(),
            pid,
            start_ticks: start_ticks(pid).unwrap_or_default(),
            port: node.ports().public,
            dir: node.dir().into(),
        }
    };
    let playground = Playground {
        schema: "mongosoak-cluster/1".into(),
        name,
        uri: cluster.uri(),
        mongod: binary.version.to_string(),
        nodes: cluster.nodes().iter().map(process).collect(),
    };
    let text =
        serde_json::to_string_pretty(&playground).map_err(|e| ClusterError::Playground(e.to_string()))?;
    let path = dir.join(FILE);
    std::fs::write(&path, text)
        .map_err(|e| ClusterError::Playground(format!("write {}: {e}", path.display())))?;
    Ok(playground)
}

/// Reads `cluster.json`.
///
/// # Errors
/// When there is none, or it is something else.
pub fn read(dir: &Path) -> Result<Playground, ClusterError> {
    let path = dir.join(FILE);
    let text = std::fs::read_to_string(&path)
        .map_err(|e| ClusterError::Playground(format!("no cluster in {}: {e}", dir.display())))?;
    if text.is_empty() {
        let why = "its start is under way, or was cut off (then end its mongods and remove the folder)";
        return Err(ClusterError::Playground(format!("cluster in {}: {why}", dir.display())));
    }
    serde_json::from_str(&text).map_err(|e| ClusterError::Playground(format!("{}: {e}", path.display())))
}

/// All clusters below a folder, by name.
#[must_use]
pub fn list(base: &Path) -> Vec<Playground> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.filter_map(|entry| read(&entry.path()).ok()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Process {
    /// Whether it still runs, and is the very process that was started.
    #[must_use]
    pub fn is_ours_and_runs(&self) -> bool {
        let cmdline = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let dir = self.dir.to_string_lossy();
        start_ticks(self.pid) == Some(self.start_ticks) && String::from_utf8_lossy(&cmdline).contains(&*dir)
    }

    /// The process that works on its data now: the one that was started, or the one that a fault started again.
    #[must_use]
    pub fn live_pid(&self) -> Option<i32> {
        if self.is_ours_and_runs() {
            return Some(self.pid);
        }
        let pid = std::fs::read_to_string(self.dir.join("db/mongod.lock")).ok()?.trim().parse().ok()?;
        let again = Self { pid, start_ticks: start_ticks(pid)?, ..self.clone() };
        again.is_ours_and_runs().then_some(pid)
    }

    fn kill(&self) {
        if let Some(pid) = self.live_pid() {
            // Gone in this very moment: what was wanted.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Ends the processes of a cluster and removes its folder. Touches nothing that is not provably its own.
/// They are killed: their data goes too, and a primary that is asked waits 15 s for a successor.
///
/// # Errors
/// When a process does not end, or the folder cannot be removed.
pub async fn stop(dir: &Path, clock: Clock) -> Result<Playground, ClusterError> {
    let playground = read(dir)?;
    playground.nodes.iter().for_each(Process::kill);
    let until = clock.now() + GONE_WITHIN;
    while let Some(left) = playground.nodes.iter().find(|process| process.live_pid().is_some()) {
        if clock.now() > until {
            let Process { name, pid, .. } = left;
            return Err(ClusterError::Playground(format!("{name} (pid {pid}) did not end by SIGKILL")));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    remove(dir, &playground)
        .map_err(|e| ClusterError::Playground(format!("remove {}: {e}", dir.display())))?;
    Ok(playground)
}

/// Removes what belongs to the cluster, and the folder unless somebody put something of his own there.
fn remove(dir: &Path, playground: &Playground) -> io::Result<()> {
    for node in &playground.nodes {
        // The description is a file that anybody may have edited: stay below the folder.
        let Some(name) = Path::new(&node.name).file_name() else {
            continue;
        };
        match std::fs::remove_dir_all(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::remove_file(dir.join(FILE))?;
    match std::fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// When the kernel started a process; `None` when there is none, or only its zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    Some(Proof::of(pid, None)?.start_ticks)
}
