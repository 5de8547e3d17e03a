//! One mongod process: its own process group, output to files, reaped by one task.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use faults::Exit;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::sync::watch;

use super::binary::Binary;

/// Whether a process may outlive this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Killed by the kernel when the tester dies, however it dies.
    WithTester,
    /// Goes on (`cluster start`).
    Detached,
}

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Which program.
    pub binary: &'a Binary,
    /// Its arguments.
    pub arguments: &'a [String],
    /// Added to the environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Its folder.
    pub dir: &'a Path,
    /// Whether it dies with the tester.
    pub lifetime: Lifetime,
}

/// A running process. Dropping the last handle kills it, unless it is detached.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    lifetime: Lifetime,
    /// 0 once the process was reaped; from then on the number may belong to somebody else.
    alive: Arc<AtomicI32>,
    exit: watch::Receiver<Option<Exit>>,
}

/// Waits for the end of a process; to be run as a task by whoever owns the cluster.
#[derive(Debug)]
pub struct Reaper {
    child: Child,
    alive: Arc<AtomicI32>,
    exit: watch::Sender<Option<Exit>>,
}

impl Process {
    /// Starts mongod; what it prints goes to `stdio.log` in its folder.
    ///
    /// # Errors
    /// When the file cannot be opened or the program cannot be started.
    pub fn spawn(what: &Command<'_>) -> io::Result<(Self, Reaper)> {
        let Command { binary, arguments, environment, dir, lifetime } = *what;
        let output = OpenOptions::new().append(true).create(true).open(dir.join("stdio.log"))?;
        let mut command = tokio::process::Command::new(&binary.path);
        command.args(arguments).envs(environment).current_dir(dir).process_group(0);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(lib) = &binary.library_path {
            command.env("LD_LIBRARY_PATH", lib);
        }
        if lifetime == Lifetime::WithTester {
            // SAFETY: between fork and exec only one async-signal-safe system call is made.
            unsafe {
                command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
            }
        }
        let child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        let alive = Arc::new(AtomicI32::new(pid));
        let (sender, exit) = watch::channel(None);
        let reaper = Reaper { child, alive: Arc::clone(&alive), exit: sender };
        Ok((Self { pid, lifetime, alive, exit }, reaper))
    }

    /// Its process id.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it has not been reaped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.alive.load(Ordering::SeqCst) != 0
    }

    /// Sends a signal; an error when it is gone.
    ///
    /// # Errors
    /// What the system said.
    pub fn signal(&self, number: i32) -> Result<(), String> {
        let signal = Signal::try_from(number).map_err(|e| e.to_string())?;
        match self.alive.load(Ordering::SeqCst) {
            0 => Err("it has ended".into()),
            pid => kill(Pid::from_raw(pid), signal).map_err(|e| e.to_string()),
        }
    }

    /// How it ended; waits for that. Safe to cancel.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit { code: None, signal: None }),
            Err(_) => Exit { code: None, signal: None },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.alive.load(Ordering::SeqCst);
        if pid != 0 && self.lifetime == Lifetime::WithTester {
            // The last resort (a panic, a failed start): nothing to be done about an error.
            let _gone = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

impl Reaper {
    /// Waits until the process has ended, and says how.
    pub async fn run(mut self) -> Exit {
        let status = self.child.wait().await;
        self.alive.store(0, Ordering::SeqCst);
        let exit = match status {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt;
                Exit { code: status.code(), signal: status.signal() }
            }
            Err(_) => Exit { code: None, signal: None },
        };
        self.exit.send_replace(Some(exit));
        exit
    }
}
