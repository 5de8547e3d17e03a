//! Data directories that outlive their run: `nodes.json` beside them says whose they are, so that a later run
//! starts the same servers on them again.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ClusterError;
use super::made::Start;
use super::own_disk;
use super::process::Lifetime;
use crate::clock::Clock;
use crate::file;
use crate::scenario::Topology;

const FILE: &str = "nodes.json";
const SCHEMA: &str = "mongosoak-nodes/1";
/// A server that was killed with its tester is gone in a moment; one that shuts down writes a checkpoint.
const GONE_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// `nodes.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    schema: String,
    topology: String,
    /// A replica set knows its members by their ports, so they come back on the same ones.
    pub nodes: Vec<KeptNode>,
    /// The cluster came up once. Before that there is nothing in it.
    pub ready: bool,
}

/// One node of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// Its name, and that of its folder.
    pub name: String,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Kept {
    /// A description of these nodes.
    pub fn new(topology: Topology, nodes: Vec<KeptNode>, ready: bool) -> Self {
        Self { schema: SCHEMA.into(), topology: word(topology).into(), nodes, ready }
    }

    /// What `dir` says of itself; `None`: no cluster was made in it yet.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn read(dir: &Path) -> Result<Option<Self>, ClusterError> {
        let path = dir.join(FILE);
        let failed = |why: String| ClusterError::Kept { path: path.clone(), why };
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| failed(e.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Replaces the description in `dir`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ClusterError> {
        let path = dir.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string());
        text.and_then(|text| file::replace(&path, &(text + "\n")).map_err(|e| e.to_string()))
            .map_err(|why| ClusterError::Kept { path, why })
    }

    /// Whether the scenario asks for the very cluster whose data this is.
    ///
    /// # Errors
    /// With both.
    pub fn must_fit(&self, dir: &Path, topology: Topology, nodes: usize) -> Result<(), ClusterError> {
        let asked = (word(topology), nodes);
        let here = (self.topology.as_str(), self.nodes.len());
        if here == asked {
            return Ok(());
        }
        let why = format!(
            "the data is that of a {} of {} nodes, the scenario asks for a {} of {}; name another folder with \
             --data, or change [cluster]",
            here.0, here.1, asked.0, asked.1
        );
        Err(ClusterError::Kept { path: dir.into(), why })
    }

    /// Removes the folders of nodes whose cluster never came up: there is nothing in them.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn clear(&self, dir: &Path) -> Result<(), ClusterError> {
        for node in &self.nodes {
            // A file that anybody may have edited: stay below the folder.
            let Some(name) = Path::new(&node.name).file_name() else { continue };
            let path = dir.join(name);
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ClusterError::folder(&path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits until no process uses the data of these nodes any more.
    ///
    /// # Errors
    /// When one goes on and on: another tester works on it.
    pub async fn unused(&self, dir: &Path, clock: Clock) -> Result<(), ClusterError> {
        let until = clock.now() + GONE_WITHIN;
        for node in &self.nodes {
            let node_dir = dir.join(&node.name);
            while let Some(pid) = user_of(&node_dir) {
                if clock.now() > until {
                    let why =
                        format!("mongod with pid {pid} still uses it; is another run working on this data?");
                    return Err(ClusterError::Kept { path: node_dir, why });
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }
}

/// The nodes of an earlier run, when nobody uses them any more. What a start that was cut off has left goes.
pub async fn take_over(
    start: &Start<'_>,
    clock: Clock,
    stop: &CancellationToken,
) -> Result<Option<Kept>, ClusterError> {
    // A server that waits for a frozen disk does not end, however it is killed.
    own_disk::thaw_below(&start.dir);
    let kept = tokio::select! {
        kept = left_alone(&start.dir, start.settings.topology, start.seats().len(), clock) => kept?,
        () = stop.cancelled() => return Err(ClusterError::Stopped),
    };
    own_disk::detach_below(&start.dir).await?;
    match kept {
        None => announce(start).map(|()| None),
        Some(kept) if kept.ready => Ok(Some(kept)),
        Some(kept) => kept.clear(&start.dir).map(|()| None),
    }
}

/// What `dir` says of itself once nobody uses it any more. Another tester may have finished its start during the
/// wait, and then there is data: only what is read after it counts.
async fn left_alone(
    dir: &Path,
    topology: Topology,
    nodes: usize,
    clock: Clock,
) -> Result<Option<Kept>, ClusterError> {
    let read = || {
        let kept = Kept::read(dir)?;
        kept.iter().filter(|kept| kept.ready).try_for_each(|kept| kept.must_fit(dir, topology, nodes))?;
        Ok(kept)
    };
    let Some(before) = read()? else { return Ok(None) };
    before.unused(dir, clock).await?;
    read()
}

/// Says whose folder this is before there is anything in it. Clusters of `cluster start` have a description of
/// their own.
fn announce(start: &Start<'_>) -> Result<(), ClusterError> {
    if start.lifetime == Lifetime::Detached {
        return Ok(());
    }
    std::fs::create_dir_all(&start.dir).map_err(|e| ClusterError::folder(&start.dir, &e))?;
    let nodes = start.seats().into_iter().map(|seat| KeptNode { name: seat.name, port: 0 }).collect();
    Kept::new(start.settings.topology, nodes, false).write(&start.dir)
}

const fn word(topology: Topology) -> &'static str {
    match topology {
        Topology::Standalone => "standalone",
        Topology::ReplicaSet => "replica set",
        Topology::Sharded => "sharded cluster",
    }
}

/// The process whose data directory this is, by the lock file and its command line.
fn user_of(node_dir: &Path) -> Option<i32> {
    let pid: i32 = std::fs::read_to_string(node_dir.join("db/mongod.lock")).ok()?.trim().parse().ok()?;
    let command = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).ok()?;
    // A run directory may hold only a link to the data.
    let db = node_dir.join("db").canonicalize().ok()?;
    let is_db = |argument: &[u8]| {
        let path = PathBuf::from(String::from_utf8_lossy(argument).into_owned());
        path.canonicalize().is_ok_and(|path| path == db)
    };
    command.split(|byte| *byte == 0).any(is_db).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(members: u16, ready: bool) -> Kept {
        let node = |n: u16| KeptNode { name: format!("node{n}"), port: 20_000 + n };
        Kept::new(Topology::ReplicaSet, (1..=members).map(node).collect(), ready)
    }

    #[test]
    fn what_is_written_is_read_back_and_another_shape_is_refused_with_both() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Kept::read(dir.path()).unwrap(), None);
        kept(3, true).write(dir.path()).unwrap();
        let read = Kept::read(dir.path()).unwrap().unwrap();
        assert_eq!(read, kept(3, true));
        read.must_fit(dir.path(), Topology::ReplicaSet, 3).unwrap();
        let error = read.must_fit(dir.path(), Topology::ReplicaSet, 1).unwrap_err().to_string();
        assert!(error.contains("replica set of 3 nodes") && error.contains("replica set of 1"), "{error}");
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Kept::read(dir.path()).is_err());
    }

    #[tokio::test]
    async fn a_start_that_another_tester_finishes_during_the_wait_is_not_taken_for_one_that_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().join("node1/db");
        std::fs::create_dir_all(&db).unwrap();
        // In the place of a mongod: it has the folder in its command line.
        let mut user = std::process::Command::new("sh")
            .args(["-c", "read line; :", "sh"])
            .arg(&db)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Until it is what it was started as, its command line is still ours.
        let cmdline = format!("/proc/{}/cmdline", user.id());
        while !String::from_utf8_lossy(&std::fs::read(&cmdline).unwrap()).contains("read line") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::write(db.join("mongod.lock"), format!("{}\n", user.id())).unwrap();
        kept(3, false).write(dir.path()).unwrap();
        let other = async {
            // The first look is over: it has found the user.
            kept(3, true).write(dir.path()).unwrap();
            user.kill().unwrap();
            user.wait().unwrap();
        };
        let (found, ()) =
            tokio::join!(left_alone(dir.path(), Topology::ReplicaSet, 3, Clock::start()), other);
        assert_eq!(found.unwrap(), Some(kept(3, true)));
        // Nothing happened meanwhile: it stays what it was.
        kept(3, false).write(dir.path()).unwrap();
        let found = left_alone(dir.path(), Topology::ReplicaSet, 3, Clock::start()).await.unwrap();
        assert_eq!(found, Some(kept(3, false)));
    }

    #[test]
    fn only_the_folders_of_its_nodes_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["node1/db", "node2", "mine"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        kept(2, false).clear(dir.path()).unwrap();
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"]);
    }
}
