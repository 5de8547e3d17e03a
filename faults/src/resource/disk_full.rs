//! `disk_full`: nothing is left on the disk of a server's data. mongod ends itself (SIGABRT, or exit code 14) when a
//! write fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;
use serde_json::json;
use wire::CommandError;

use super::device::same_file_system;
use crate::catalog::{Kind, Need};
use crate::process::{back, exit_facts};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Proof, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// Begins the name of every filler: what has another name is never removed.
const FILLER: &str = ".mongosoak-filler-";
/// What a file system may keep for itself, or a server give back meanwhile.
const SLACK_BYTES: u64 = 8 << 20;
/// The smallest piece that is asked for: the block of most file systems.
const LEAST_PIECE_BYTES: u64 = 4 << 10;
/// The server's number for "not allowed to this user".
const UNAUTHORIZED: i32 = 13;
/// So long after the space is back a server has ended or synced.
const TELLS_WITHIN: Duration = Duration::from_secs(30);

/// A file that takes everything.
pub const DISK_FULL: Kind = Kind {
    name: "disk_full",
    group: "resource",
    does: "fills the disk of a server's data; the server ends itself when a write fails, and starts again after",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "leave",
            takes: Takes::Size,
            default: Preset::Bytes(0),
            about: "how much is left free",
        },
        FOR_30_S,
    ],
    needs: &[Need::Processes],
    build: |parameters| {
        Ok(Box::new(DiskFull {
            target: parameters.target("target")?,
            leave_bytes: parameters.count("leave")?,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct DiskFull {
    target: NodeTarget,
    leave_bytes: u64,
    hold: Duration,
}

#[async_trait]
impl Fault for DiskFull {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// The filler would stay.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let server = Proof::at(site).await?;
        let place =
            site.on.place(site.node).ok_or_else(|| site.unavailable("its data is not on this machine"))?;
        // Filled, each of these would break more than the server.
        let own = place.own_output.map(|own| (own, "the recording of this test"));
        let others = [(PathBuf::from("/"), "the system"), (std::env::temp_dir(), "temporary files")];
        for (folder, what) in own.into_iter().chain(others) {
            if same_file_system(&place.data, &folder).unwrap_or(true) {
                return Err(site.unavailable(format!(
                    "its data shares a disk with {what}; give every node a disk of its own ([cluster] disk = \
                     \"2GiB\", as root)"
                )));
            }
        }
        let free =
            free(&place.data).map_err(|e| site.unavailable(format!("{}: {e}", place.data.display())))?;
        if free.bytes <= self.leave_bytes {
            return Err(site.nothing_to_do(format!("has only {} bytes free already", free.bytes)));
        }
        let filler = place.data.join(format!("{FILLER}{}", site.fault));
        let mut memo = server.memo();
        memo.insert("filler".into(), json!(filler.display().to_string()));
        memo.insert("free_bytes_before".into(), json!(free.bytes));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.expect_end(site.node, true).await?;
        let filler = filler(site, memo)?;
        let filled = fill(&filler, self.leave_bytes).map_err(|e| site.failed("fill the disk of", e))?;
        Ok(facts([
            ("filler", memo["filler"].clone()),
            ("filler_bytes", json!(filled)),
            ("free_bytes_before", memo["free_bytes_before"].clone()),
        ]))
    }

    /// Nothing is free any more. What the server makes of it is seen while it holds.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let filler = filler(site, memo)?;
        let data = filler.parent().unwrap_or(&filler);
        site.until(deadline, "there is still space", || async {
            let free = free(data).ok()?;
            (free.bytes <= self.leave_bytes + SLACK_BYTES)
                .then(|| facts([("free_bytes", json!(free.bytes)), ("free_files", json!(free.files))]))
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let (ended, ()) =
            tokio::join!(site.on.wait_exit(site.node, self.hold), tokio::time::sleep(self.hold));
        Ok(match ended {
            Ok(exit) => {
                let mut seen = exit_facts(exit);
                seen.insert("server_ended".into(), json!(true));
                seen
            }
            // Nobody wrote.
            Err(_) => facts([("server_ended", json!(false))]),
        })
    }

    /// First the space, then the server: on a full disk it would end again and again.
    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let filler = filler(site, memo)?;
        match std::fs::remove_file(&filler) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(site.failed("remove the filler of", format!("{}: {error}", filler.display())));
            }
            _ => {}
        }
        let survived = survives(site).await?;
        let pid = match survived {
            Some(pid) => {
                site.on.expect_end(site.node, false).await?;
                pid
            }
            None => site.on.start(site.node).await?,
        };
        let free = filler.parent().and_then(|data| free(data).ok());
        Ok(facts([
            ("server_ended", json!(survived.is_none())),
            ("pid_after", json!(pid)),
            ("free_bytes", json!(free.as_ref().map(|free| free.bytes))),
        ]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let filler = filler(site, memo)?;
        if filler.exists() {
            return Err(site.no_effect(deadline, format!("{} is still there", filler.display())));
        }
        back(site, deadline).await
    }
}

/// Its process, when that has got over the full disk: one that met it takes a moment to end, so that only one that
/// syncs its data is well. `None`: it has ended.
async fn survives(site: &Site<'_>) -> Result<Option<i32>, FaultError> {
    let tells = site
        .until(TELLS_WITHIN, "it neither ends nor syncs its data", || async {
            match site.on.pid(site.node).await {
                None => Some(None),
                Some(pid) => match site.ask(doc! { "fsync": 1 }).await {
                    Ok(_) => Some(Some(pid)),
                    // Then this cannot be known, and it answers at least.
                    Err(CommandError::Server { code: UNAUTHORIZED, .. }) => Some(Some(pid)),
                    Err(_) => None,
                },
            }
        })
        .await;
    tells.map_err(|error| site.failed("see what became of", error))
}

struct Free {
    bytes: u64,
    files: u64,
}

fn free(folder: &Path) -> nix::Result<Free> {
    let disk = statvfs(folder)?;
    let bytes = disk.blocks_available() as u64 * disk.fragment_size() as u64;
    Ok(Free { bytes, files: disk.files_available() as u64 })
}

fn filler(site: &Site<'_>, memo: &Memo) -> Result<PathBuf, FaultError> {
    let path = PathBuf::from(memo["filler"].as_str().unwrap_or_default());
    let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FILLER));
    if ours { Ok(path) } else { Err(site.failed("find the filler of", path.display())) }
}

/// Takes all but `leave` bytes; returns how much it took. The file system rounds, and the server writes meanwhile:
/// so in pieces, each half of the last one when that did not fit.
fn fill(filler: &Path, leave: u64) -> io::Result<u64> {
    let file = OpenOptions::new().create(true).append(true).open(filler)?;
    let folder = filler.parent().unwrap_or(filler);
    let mut piece = u64::MAX;
    loop {
        let room = free(folder)?.bytes.saturating_sub(leave);
        piece = piece.min(room);
        if piece < LEAST_PIECE_BYTES {
            return Ok(file.metadata()?.len());
        }
        match extend(&file, piece) {
            Ok(()) => {}
            Err(Errno::ENOSPC) => piece /= 2,
            Err(error) => return Err(error.into()),
        }
    }
}

fn extend(file: &File, bytes: u64) -> nix::Result<()> {
    let length = file.metadata().map_err(|_| Errno::EIO)?.len();
    let signed = |n: u64| i64::try_from(n).map_err(|_| Errno::EFBIG);
    fallocate(file, FallocateFlags::empty(), signed(length)?, signed(bytes)?)
}
