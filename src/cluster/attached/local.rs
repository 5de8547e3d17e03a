//! The process of a server that somebody else started on this machine: found by the port that it listens on, proven
//! by what the server says of itself, ended and started again with its own command line.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use faults::{FaultError, Proof};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// State of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";
const POLL: Duration = Duration::from_millis(50);
/// From its start until it listens: until then a server that makes itself a daemon has no pid that we know.
const LISTENS_WITHIN: Duration = Duration::from_secs(120);

/// How it was started, and so how it is started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Program and arguments.
    pub arguments: Vec<String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// Its data.
    pub data: PathBuf,
}

/// A server's process on this machine.
#[derive(Debug)]
pub struct Local {
    node: String,
    port: u16,
    command: CommandLine,
    /// The process as it was seen last.
    process: Mutex<Option<Proof>>,
}

impl Local {
    /// The process that listens on this port, if it is the one that the server says it is.
    ///
    /// # Errors
    /// Why it is out of reach, for people.
    pub fn find(node: &str, port: u16, said: i32, data: PathBuf) -> Result<Self, String> {
        let pid = listener(port).ok_or("its process cannot be seen (another user's? then run as root)")?;
        if pid != said {
            return Err(format!(
                "process {pid} listens on port {port}, but the server says that it is {said}: it lives in a container \
                 or behind a forwarded port"
            ));
        }
        let command = read_command(pid, data).map_err(|error| format!("process {pid}: {error}"))?;
        if command.arguments.iter().any(|argument| argument.to_lowercase().contains("password")) {
            return Err(
                "its command line holds a password, which is not kept; so it could not be restarted".into()
            );
        }
        let local = Self::known(node, port, command);
        local.see(pid);
        Ok(local)
    }

    /// One of which an earlier tester knew the command line.
    pub fn known(node: &str, port: u16, command: CommandLine) -> Self {
        Self { node: node.into(), port, command, process: Mutex::default() }
    }

    /// How it is started.
    pub const fn command(&self) -> &CommandLine {
        &self.command
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<Proof>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn see(&self, pid: i32) -> bool {
        let proof = Proof::of(pid, Some(&self.command.data)).filter(Proof::holds);
        let seen = proof.is_some();
        *self.process() = proof;
        seen
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<i32> {
        let known = self.process().clone().filter(Proof::holds);
        if let Some(proof) = known {
            return Some(proof.pid);
        }
        let pid = listener(self.port)?;
        self.see(pid).then_some(pid)
    }

    /// Sends it a signal, if it is provably that server.
    ///
    /// # Errors
    /// When it does not run, or the signal is refused.
    pub fn signal(&self, number: i32) -> Result<(), FaultError> {
        let failed = |why: String| FaultError::Failed { doing: "signal", node: self.node.clone(), why };
        let pid = self.pid().ok_or_else(|| failed("it does not run".into()))?;
        let signal = Signal::try_from(number).map_err(|error| failed(error.to_string()))?;
        kill(Pid::from_raw(pid), signal).map_err(|error| failed(format!("process {pid}: {error}")))
    }

    /// Waits until its process is gone.
    pub async fn gone(&self) {
        let process = self.process().clone();
        while process.as_ref().is_some_and(Proof::holds) {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Starts it with its own command line, and waits until it listens. It outlives this program.
    ///
    /// # Errors
    /// When it cannot be started, ends at once or does not listen in time.
    pub async fn start(&self) -> Result<i32, FaultError> {
        let failed = |why: String| FaultError::Failed { doing: "start", node: self.node.clone(), why };
        let (program, arguments) =
            self.command.arguments.split_first().ok_or_else(|| failed("no command line".into()))?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).current_dir(&self.command.folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(format!("{program}: {error}")))?;
        let listens = async {
            loop {
                if let Some(pid) = listener(self.port).filter(|pid| self.see(*pid)) {
                    return Ok(pid);
                }
                if let Ok(Some(status)) = child.try_wait()
                    && !status.success()
                {
                    return Err(failed(format!("{program} ended at once: {status}; look into its log")));
                }
                tokio::time::sleep(POLL).await;
            }
        };
        let late = |_| failed(format!("it does not listen on port {} within {LISTENS_WITHIN:?}", self.port));
        tokio::time::timeout(LISTENS_WITHIN, listens).await.map_err(late)?
    }
}

/// Whether an address is one of this machine's.
pub fn is_here(address: IpAddr) -> bool {
    // Binding is what only an own address allows; no list of interfaces could be out of date.
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

fn read_command(pid: i32, data: PathBuf) -> io::Result<CommandLine> {
    let text = String::from_utf8(std::fs::read(format!("/proc/{pid}/cmdline"))?).map_err(io::Error::other)?;
    let mut arguments: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
    // As the kernel knows it, whatever the folder and the search path are at the restart.
    let program = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    if let Some(first) = arguments.first_mut() {
        *first = program.display().to_string();
    }
    Ok(CommandLine { arguments, folder: std::fs::read_link(format!("/proc/{pid}/cwd"))?, data })
}

/// The process that listens on a port of this machine; `None`: nobody, or nobody that we may look at.
fn listener(port: u16) -> Option<i32> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let sockets: BTreeSet<String> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| listening(line, port))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| has_any(*pid, &sockets))
}

/// The inode of a socket that listens on the port, by its line in the table.
fn listening(line: &str, port: u16) -> Option<String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let local = fields.get(1)?.rsplit_once(':')?.1;
    let here = u16::from_str_radix(local, 16).ok()? == port && *fields.get(3)? == LISTENS;
    here.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
}

fn has_any(pid: i32, sockets: &BTreeSet<String>) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        std::fs::read_link(descriptor.path()).is_ok_and(|to| sockets.contains(&*to.to_string_lossy()))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn whoever_listens_is_found_by_the_port_and_nobody_else() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(listener(port), i32::try_from(std::process::id()).ok());
        drop(socket);
        assert_eq!(listener(port), None);
    }

    #[test]
    fn a_listener_that_is_not_the_server_is_left_alone() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let why = Local::find("node1", port, 1, "/nowhere".into()).unwrap_err();
        assert!(why.contains("container"), "{why}");
    }

    #[test]
    fn addresses_of_others_are_elsewhere() {
        assert!(is_here("127.0.0.1".parse().unwrap()));
        assert!(!is_here("192.0.2.1".parse().unwrap()));
    }
}
