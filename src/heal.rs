//! Undoing what a dead tester left broken, and nothing else.
//!
//! Each tester that injects faults has a folder with two files: `undo.jsonl`, locked while it lives, and
//! `deployment.json`. From these another process can undo what is open.

mod register;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use faults::life::{self, Healed, Left, Undo};
use faults::undo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{AttachedCluster, ClusterError, Description, Remains, own_disk};
use crate::scenario::Secret;

use register::leftovers;
pub use register::{forget, register};

/// Name of the undo journal.
pub const JOURNAL: &str = "undo.jsonl";
/// A server that was killed may have minutes of load to replay.
pub const PATIENT: Duration = Duration::from_secs(30 * 60);
/// Before something new begins, nobody wants to wait for servers of long ago.
const IMPATIENT: Duration = Duration::from_secs(60);
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Why nothing could be undone.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum HealError {
    #[error(
        "{dir}: there is no undo journal in it, so nothing was injected from here; name the folder of a run"
    )]
    NoJournal { dir: PathBuf },
    #[error("{dir}: its tester still runs (pid {pid}) and undoes its faults itself; stop it with Ctrl-C")]
    StillRuns { dir: PathBuf, pid: i32 },
    #[error(
        "{dir}: the deployment {uri} wants a user and a password, which are not kept; give them with --uri"
    )]
    Credentials { dir: PathBuf, uri: String },
    #[error("{dir}: read the undo journal: {why}")]
    Journal { dir: PathBuf, why: io::Error },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("{node}: process {pid} of a dead tester's server does not end")]
    Survivor { node: String, pid: i32 },
}

/// Undoes what the tester of this folder left, newest first. Empty: nothing was left. `uri`: the connection string
/// with its credentials, if there are any. `within`: how long each thing may take until it is seen to be undone.
///
/// # Errors
/// When it cannot begin. What could not be undone is among the results.
pub async fn heal(dir: &Path, uri: Option<&Secret>, within: Duration) -> Result<Vec<Healed>, HealError> {
    if !dir.join(JOURNAL).exists() {
        return Err(HealError::NoJournal { dir: dir.into() });
    }
    let description = Description::read(dir);
    let undo = Undo::open(&dir.join(JOURNAL)).map_err(|why| match (why.kind(), &description) {
        (io::ErrorKind::WouldBlock, Ok(known)) => {
            HealError::StillRuns { dir: dir.into(), pid: known.tester_pid }
        }
        _ => HealError::Journal { dir: dir.into(), why },
    })?;
    let journal = |why| HealError::Journal { dir: dir.into(), why };
    if undo.open_entries().map_err(journal)?.is_empty() {
        return Ok(Vec::new());
    }
    let description = description?;
    let Some(public) = &description.uri else {
        return ours(dir, &description, &undo, within).await;
    };
    let uri = match uri {
        Some(uri) => uri.clone(),
        None if description.needs_credentials => {
            return Err(HealError::Credentials { dir: dir.into(), uri: public.clone() });
        }
        None => Secret::new(public.clone()),
    };
    let cluster = AttachedCluster::again(&uri, &description.nodes, &description.hooks).await?;
    let healed = life::heal(&cluster, &undo, Left::ByTheDead, within).await.map_err(journal);
    cluster.leave().await;
    healed
}

/// Whether nothing is open in the journal of a folder.
#[must_use]
pub fn is_whole(dir: &Path) -> bool {
    undo::open_entries(&dir.join(JOURNAL)).is_ok_and(|open| open.is_empty())
}

/// What is left of a cluster of ours: files, and disks of nodes.
async fn ours(
    dir: &Path,
    description: &Description,
    undo: &Undo,
    within: Duration,
) -> Result<Vec<Healed>, HealError> {
    let nodes = dir.join("nodes");
    // A server that waits for a frozen disk cannot even be killed.
    own_disk::thaw_below(&nodes);
    end_survivors(description).await?;
    let healed = life::heal(&Remains::of(description), undo, Left::ByTheDead, within).await;
    own_disk::detach_below(&nodes).await?;
    healed.map_err(|why| HealError::Journal { dir: dir.into(), why })
}

/// The servers of a cluster of ours die with their tester, by the kernel's hand. Where that failed, here.
async fn end_survivors(description: &Description) -> Result<(), HealError> {
    for node in &description.nodes {
        let gone = async {
            while let Some(pid) = node.survivor() {
                // Gone in this very moment: what was wanted.
                let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(GONE_WITHIN, gone).await.is_err() {
            let pid = node.survivor().unwrap_or_default();
            return Err(HealError::Survivor { node: node.name.clone(), pid });
        }
    }
    Ok(())
}

/// At the end of a tester that lives: what ended with its own servers is closed. Returns whether all is undone.
pub async fn settle(dir: &Path, servers: Servers) -> bool {
    if servers == Servers::Ended && !is_whole(dir) {
        // What is left open is left to `heal`, which says why it cannot.
        let _tried = heal(dir, None, IMPATIENT).await;
    }
    let whole = is_whole(dir);
    if whole {
        forget(dir);
    }
    whole
}

/// Whether servers go on after their tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// They were ours, and ended.
    Ended,
    /// They are somebody else's.
    GoOn,
}

/// One line for each thing that was undone, for people.
#[must_use]
pub fn lines(healed: &[Healed]) -> Vec<String> {
    let line = |healed: &Healed| {
        let Healed { entry, result } = healed;
        let what = format!("{} {} of {}", entry.fault, entry.r#do.kind(), entry.node);
        match result {
            Ok(evidence) => {
                let facts: Vec<_> = evidence.iter().map(|(name, value)| format!("{name} {value}")).collect();
                format!("undone: {what}: {}", facts.join(", "))
            }
            Err(error) => format!("NOT UNDONE: {what}: {error}"),
        }
    };
    healed.iter().map(line).collect()
}

/// Before something new begins: undoes what dead testers of this user left. Lines for people.
pub async fn leftovers_undone() -> Vec<String> {
    let mut said = Vec::new();
    for (registration, dir) in leftovers() {
        match heal(&dir, None, IMPATIENT).await {
            Ok(healed) => {
                let worth_saying = |healed: &&Healed| !healed.is_gone_with_the_tester();
                if healed.iter().any(|healed| worth_saying(&healed)) {
                    said.push(format!(
                        "an earlier tester was killed and left faults behind ({}):",
                        dir.display()
                    ));
                    said.extend(lines(&healed).into_iter().map(|line| format!("  {line}")));
                }
                if healed.iter().all(|healed| healed.result.is_ok()) {
                    registration.done();
                }
            }
            Err(HealError::StillRuns { .. }) => {}
            Err(HealError::NoJournal { .. }) => registration.done(),
            Err(error) => said.push(format!(
                "an earlier tester was killed and left faults behind: {error}; then: mongosoak heal {}",
                dir.display()
            )),
        }
    }
    said
}
