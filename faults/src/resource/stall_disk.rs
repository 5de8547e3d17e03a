//! `stall_disk`: a disk that does not answer any more. Reads of what is in memory go on; every write waits.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use nix::libc;
use serde_json::json;

use super::device::is_mount_point;
use crate::catalog::{Kind, Need};
use crate::process::back;
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Proof, Site, TARGET_PRIMARY, facts,
};

/// `_IOWR('X', 119, int)` and the next one.
const FIFREEZE: u32 = 0xC004_5877;
const FITHAW: u32 = 0xC004_5878;

/// A frozen file system.
pub const STALL_DISK: Kind = Kind {
    name: "stall_disk",
    group: "resource",
    does: "freezes the file system of a server's data: every write to it waits until it is lifted",
    parameters: &[TARGET_PRIMARY, FOR_30_S],
    needs: &[Need::Processes, Need::Root],
    build: |parameters| {
        Ok(Box::new(StallDisk { target: parameters.target("target")?, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct StallDisk {
    target: NodeTarget,
    hold: Duration,
}

#[async_trait]
impl Fault for StallDisk {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// A process that waits for a frozen file system cannot even be killed.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if let Some(why) = Need::Root.missing() {
            return Err(site.unavailable(why));
        }
        let server = Proof::at(site).await?;
        let data = server.data.clone().unwrap_or_default();
        if !is_mount_point(&data).unwrap_or(false) {
            return Err(site.unavailable(
                "its data shares a file system with others; give every node a disk of its own ([cluster] disk = \
                 \"2GiB\", as root)",
            ));
        }
        Ok(server.memo())
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        // Freezing writes out what is in memory first: less of it after a checkpoint.
        let flushed = site.ask(doc! { "fsync": 1 }).await.is_ok();
        freeze(&data(memo)).map_err(|e| site.failed("freeze the disk of", e))?;
        Ok(facts([("pid", memo["pid"].clone()), ("checkpoint", json!(flushed))]))
    }

    /// A thread of the server waits for its disk, the same one at two looks: it writes its diagnostic data every
    /// second, whatever its clients do.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let pid = memo["pid"].as_i64().unwrap_or_default();
        let before = std::sync::Mutex::new(Vec::new());
        site.until(deadline, "none of its threads waits for the disk", || async {
            let now = waiting_threads(pid);
            let mut before = before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let still = now.iter().filter(|thread| before.contains(*thread)).count();
            *before = now;
            (still > 0).then(|| facts([("waiting_threads", json!(still))]))
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        tokio::time::sleep(self.hold).await;
        let role = site.view().await.member(site.node).map(|member| member.role);
        let waiting = waiting_threads(memo["pid"].as_i64().unwrap_or_default()).len();
        Ok(facts([("waiting_threads", json!(waiting)), ("role_now", json!(role))]))
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let was_frozen = thaw(&data(memo)).map_err(|e| site.failed("thaw the disk of", e))?;
        Ok(facts([("was_frozen", json!(was_frozen))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        if site.on.pid(site.node).await.is_none() {
            return Ok(facts([("target_gone", json!(true))]));
        }
        back(site, deadline).await
    }
}

fn data(memo: &Memo) -> PathBuf {
    PathBuf::from(memo["data"].as_str().unwrap_or_default())
}

/// Threads in uninterruptible sleep.
fn waiting_threads(pid: i64) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waits = |thread: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
    };
    threads.filter(waits).map(|thread| thread.file_name().to_string_lossy().into_owned()).collect()
}

fn freeze(folder: &Path) -> io::Result<()> {
    control(folder, FIFREEZE)
}

/// Ends the freezing of the file system that begins at this folder; whether it was frozen. A folder that is not
/// there has none.
///
/// # Errors
/// What the system said.
pub fn thaw(folder: &Path) -> io::Result<bool> {
    match control(folder, FITHAW) {
        Ok(()) => Ok(true),
        // It was not frozen, or no file system of its own is there any more.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn control(folder: &Path, request: u32) -> io::Result<()> {
    let folder = File::open(folder)?;
    // SAFETY: both requests take no data; the descriptor is open.
    match unsafe { libc::ioctl(folder.as_raw_fd(), request as _, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
