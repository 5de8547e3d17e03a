//! Whose process a pid is. Numbers are used again: a pid alone proves nothing.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{FaultError, Memo, Site, facts};

/// A server's process, described so that no other can be mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Process id.
    pub pid: i32,
    /// When the kernel started it, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its data folder; `None`: not known.
    pub data: Option<PathBuf>,
}

impl Proof {
    /// The process that has this pid now; `None`: there is none on this machine, or only its zombie.
    #[must_use]
    pub fn of(pid: i32, data: Option<&Path>) -> Option<Self> {
        Some(Self { pid, start_ticks: start_ticks(pid)?, data: data.map(Path::to_path_buf) })
    }

    /// The process of the node in hand, which must run on this machine with its data at a known place.
    ///
    /// # Errors
    /// When it does not run, or runs elsewhere.
    pub async fn at(site: &Site<'_>) -> Result<Self, FaultError> {
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        let place = site.on.place(site.node);
        let place = place.ok_or_else(|| site.unavailable("where its data is on this machine is not known"))?;
        let proof = Self::of(pid, Some(&place.data)).filter(Self::holds);
        proof.ok_or_else(|| site.unavailable(format!("process {pid} is no mongod on {}", place.data.display())))
    }

    /// Whether the process still runs, and is this very one.
    #[must_use]
    pub fn holds(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
            && self.data.as_ref().is_none_or(|data| uses(self.pid, data))
    }

    /// For the memo of a fault.
    #[must_use]
    pub fn memo(&self) -> Memo {
        facts([
            ("pid", json!(self.pid)),
            ("start_ticks", json!(self.start_ticks)),
            ("data", json!(self.data.as_ref().map(|data| data.display().to_string()))),
        ])
    }

    /// What [`Proof::memo`] noted; `None`: nothing was.
    #[must_use]
    pub fn noted(memo: &Memo) -> Option<Self> {
        Some(Self {
            pid: i32::try_from(memo.get("pid")?.as_i64()?).ok()?,
            start_ticks: memo.get("start_ticks")?.as_u64()?,
            data: memo.get("data").and_then(|data| data.as_str()).map(PathBuf::from),
        })
    }
}

/// By its command line, or by the lock file that mongod writes (its folder may stand in a configuration file).
fn uses(pid: i32, data: &Path) -> bool {
    // A run directory may hold only a link to the data.
    let real = data.canonicalize();
    let is_data = |argument: &[u8]| {
        let path = PathBuf::from(String::from_utf8_lossy(argument).into_owned());
        path == data || real.as_ref().is_ok_and(|real| path.canonicalize().is_ok_and(|path| path == *real))
    };
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let locked_by = || std::fs::read_to_string(data.join("mongod.lock")).ok()?.trim().parse::<i32>().ok();
    command.split(|byte| *byte == 0).any(is_data) || locked_by() == Some(pid)
}

/// Field 22 of `/proc/<pid>/stat`; `None` when there is no such process, or only its zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in field 2 may hold anything: fields are counted after its closing bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18)).flatten()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// In the place of a mongod: it has the folder in its command line.
    fn user_of(data: &Path) -> Child {
        let child = Command::new("sh")
            .args(["-c", "read line; :", "sh"])
            .arg(data)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // Until it is what it was started as, its command line is still ours.
        let cmdline = format!("/proc/{}/cmdline", child.id());
        while !String::from_utf8_lossy(&std::fs::read(&cmdline).unwrap()).contains("read line") {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn only_the_very_process_on_the_very_folder_is_taken_for_it() {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut user = user_of(data.path());
        let pid = i32::try_from(user.id()).unwrap();
        let proof = Proof::of(pid, Some(data.path())).unwrap();
        assert!(proof.holds());
        assert_eq!(Proof::noted(&proof.memo()), Some(proof.clone()));
        // The same number of a process that started at another time, or works on another folder.
        assert!(!Proof { start_ticks: proof.start_ticks + 1, ..proof.clone() }.holds());
        let elsewhere = Proof { data: Some(other.path().into()), ..proof.clone() };
        assert!(!elsewhere.holds());
        // Its folder stands in a configuration file: the lock file tells.
        std::fs::write(other.path().join("mongod.lock"), format!("{pid}\n")).unwrap();
        assert!(elsewhere.holds());
        user.kill().unwrap();
        assert!(user.wait().is_ok() && !proof.holds() && Proof::of(pid, None).is_none());
    }
}
