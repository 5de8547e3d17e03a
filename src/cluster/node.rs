//! One node of a managed cluster: the same name, port and folder over all its restarts.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Document, doc};
use faults::network::Upstream;
use faults::{Exit, LaunchOptions, Member, Role};
use wire::{CommandError, Connection};

use super::ClusterError;
use super::arguments;
use super::binary::Binary;
use super::log_tail::{last_lines, read_from};
use super::port::Ports;
use super::process::{Command, Lifetime, Process, Reaper};
use crate::clock::Clock;
use crate::scenario::Part;

/// mongod's exit code when it cannot listen.
pub const EXIT_ADDRESS_IN_USE: i32 = 48;
const POLL: Duration = Duration::from_millis(20);
/// Bytes of the path of a Unix domain socket, its end included (unix(7)).
const SOCKET_PATH_MAX: usize = 107;
/// A healthy node answers `hello` within milliseconds; a paused one never does.
const ASK_DEADLINE: Duration = Duration::from_millis(1_000);

/// What does not change over the life of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `node1`, `node2` ...
    pub name: String,
    /// Its folder: log, output and `db`.
    pub dir: PathBuf,
    /// Which program.
    pub binary: Binary,
    /// What it does.
    pub part: Part,
    /// Name of its replica set; `None`: standalone, or a mongos.
    pub replica_set: Option<String>,
    /// WiredTiger cache in bytes.
    pub cache_bytes: u64,
    /// Largest oplog in bytes; mongod takes it when the data is made.
    pub oplog_bytes: u64,
    /// `--setParameter` name and value.
    pub parameters: BTreeMap<String, String>,
    /// Added to its environment.
    pub environment: BTreeMap<String, String>,
    /// Whether it dies with the tester.
    pub lifetime: Lifetime,
}

/// One node.
#[derive(Debug)]
pub struct Node {
    settings: Settings,
    ports: Mutex<Ports>,
    process: Mutex<Option<Arc<Process>>>,
    /// Length of its log and of its output when the process was started: what is before tells of others.
    written_before: Mutex<[u64; 2]>,
    /// Set before we cause an end, so that any other end is a finding.
    end_expected: Mutex<bool>,
    /// How it is started beyond its settings, from the next start on.
    launch: Mutex<LaunchOptions>,
    /// Of a mongos: its arguments beside the port, known once the others have theirs.
    routes: Mutex<Vec<String>>,
    /// Kept open: a new connection for every question would fill the server's log.
    connection: tokio::sync::Mutex<Option<Connection>>,
    clock: Clock,
}

impl Node {
    /// A node that is not started yet, with its folder made.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(settings: Settings, ports: Ports, clock: Clock) -> Result<Self, ClusterError> {
        let db = settings.dir.join("db");
        std::fs::create_dir_all(&db).map_err(|e| ClusterError::folder(&db, &e))?;
        Ok(Self {
            settings,
            ports: Mutex::new(ports),
            process: Mutex::new(None),
            written_before: Mutex::default(),
            end_expected: Mutex::new(false),
            launch: Mutex::default(),
            routes: Mutex::default(),
            connection: tokio::sync::Mutex::new(None),
            clock,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Its folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.settings.dir
    }

    /// Its ports on 127.0.0.1.
    #[must_use]
    pub fn ports(&self) -> Ports {
        *lock(&self.ports)
    }

    /// How others reach it: `127.0.0.1:port`, that of its proxy where there is one.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports().public)
    }

    /// How we reach it, past its proxy: no fault of the network keeps us from looking.
    #[must_use]
    pub fn own_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports().own)
    }

    /// How its proxy reaches it: by a Unix domain socket in its folder, which costs the server and the proxy less
    /// than TCP does, unless the path is longer than the system lets it be.
    #[must_use]
    pub fn upstream(&self) -> Upstream {
        let port = self.ports().own;
        let path = self.settings.dir.join(format!("mongodb-{port}.sock"));
        let fits = path.as_os_str().len() <= SOCKET_PATH_MAX;
        if fits && self.part() != Part::Mongos { Upstream::Socket(path) } else { Upstream::Port(port) }
    }

    /// Its log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.settings.dir.join("mongod.log")
    }

    /// Its process, while that runs.
    #[must_use]
    pub fn process(&self) -> Option<Arc<Process>> {
        lock(&self.process).clone().filter(|p| p.is_running())
    }

    /// Its last process, also when that has ended.
    #[must_use]
    pub fn process_even_if_ended(&self) -> Option<Arc<Process>> {
        lock(&self.process).clone()
    }

    /// Whether the end of its process is our doing. Forgets the answer.
    #[must_use]
    pub fn take_end_expected(&self) -> bool {
        std::mem::take(&mut *lock(&self.end_expected))
    }

    /// From now on the end of its process is our doing.
    pub fn expect_end(&self) {
        *lock(&self.end_expected) = true;
    }

    /// Starts the process. The caller runs the reaper and then waits with [`Node::ready`].
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(&self) -> Result<Reaper, ClusterError> {
        *lock(&self.end_expected) = false;
        *lock(&self.written_before) = self.written().map(|path| path.metadata().map_or(0, |m| m.len()));
        let s = &self.settings;
        let mut environment = s.environment.clone();
        environment.extend(lock(&self.launch).environment.clone());
        let command = Command {
            binary: &s.binary,
            arguments: &self.arguments(),
            environment: &environment,
            dir: &s.dir,
            lifetime: s.lifetime,
        };
        let spawned = Process::spawn(&command);
        let (process, reaper) = spawned.map_err(|e| ClusterError::Spawn {
            node: s.name.clone(),
            binary: s.binary.path.clone(),
            why: e.to_string(),
        })?;
        *lock(&self.process) = Some(Arc::new(process));
        Ok(reaper)
    }

    /// What a mongos is to route to, from its next start on.
    pub fn set_routes(&self, arguments: Vec<String>) {
        *lock(&self.routes) = arguments;
    }

    /// What it does.
    #[must_use]
    pub fn part(&self) -> Part {
        self.settings.part
    }

    /// Name of its replica set; `None`: it belongs to none.
    #[must_use]
    pub fn replica_set(&self) -> Option<&str> {
        self.settings.replica_set.as_deref()
    }

    /// Moves to other ports, while it does not run and only before its replica set is initiated.
    pub fn set_ports(&self, ports: Ports) {
        *lock(&self.ports) = ports;
    }

    fn arguments(&self) -> Vec<String> {
        if self.part() == Part::Mongos {
            return lock(&self.routes).clone();
        }
        let socket = self.ports().is_proxied() && matches!(self.upstream(), Upstream::Socket(_));
        let launch = lock(&self.launch).clone();
        arguments::mongod(&self.settings, &self.log_path(), self.ports().own, socket, &launch)
    }

    /// Changes how it is started from the next start on; `None`: as its settings say.
    pub fn set_launch_options(&self, options: Option<LaunchOptions>) {
        *lock(&self.launch) = options.unwrap_or_default();
    }

    /// Empties its data folder, while it does not run.
    ///
    /// # Errors
    /// When it runs, or the folder cannot be emptied.
    pub fn wipe(&self) -> Result<(), String> {
        if self.process().is_some() {
            return Err("it runs".into());
        }
        let db = self.settings.dir.join("db");
        let failed = |e: io::Error| format!("{}: {e}", db.display());
        for entry in std::fs::read_dir(&db).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(failed)?;
        }
        Ok(())
    }

    /// Waits until the node answers **and** is our process.
    ///
    /// # Errors
    /// `Exited` when the process ended first, `NotReady` at the deadline.
    pub async fn ready(&self, deadline: Duration) -> Result<(), ClusterError> {
        let Some(process) = self.process() else {
            return Err(self.exited(Exit { code: None, signal: None }));
        };
        let until = self.clock.now() + deadline;
        let answers = async {
            while self.pid_by_server().await != Some(process.pid()) {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::select! {
            () = answers => Ok(()),
            exit = process.exited() => Err(self.exited(exit)),
            () = self.clock.sleep_until(until) => Err(ClusterError::NotReady {
                node: self.name().into(),
                seconds: deadline.as_secs_f64(),
                log: self.log_path(),
                tail: self.log_tail(),
            }),
        }
    }

    async fn pid_by_server(&self) -> Option<i32> {
        if self.part() == Part::Mongos {
            // The stand-in has its own question; to a mongos it is an unknown command.
            let own = self.ask(&doc! { "mongosoakRouter": 1 }, ASK_DEADLINE).await;
            if let Some(pid) = own.ok().and_then(|answer| answer.get_i32("pid").ok()) {
                return Some(pid);
            }
        }
        let status = doc! { "serverStatus": 1, "metrics": 0, "wiredTiger": 0, "locks": 0, "tcmalloc": 0 };
        let status = self.ask(&status, ASK_DEADLINE).await.ok()?;
        let pid = status.get("pid")?;
        let wide = pid.as_i64().or_else(|| pid.as_i32().map(i64::from))?;
        i32::try_from(wide).ok()
    }

    /// What the node says it is now.
    pub async fn member(&self) -> Member {
        let hello = match self.process() {
            Some(_) => self.ask(&doc! { "hello": 1 }, ASK_DEADLINE).await.ok(),
            None => None,
        };
        let role = hello.as_ref().map_or(Role::Down, role_of);
        let term = match role {
            Role::Down | Role::Standalone | Role::Router => None,
            _ => self.term().await,
        };
        // A set that is the whole deployment needs no name.
        let set = if self.part() == Part::Data { None } else { self.settings.replica_set.clone() };
        Member { name: self.name().into(), role, term, set }
    }

    async fn term(&self) -> Option<i64> {
        self.ask(&doc! { "replSetGetStatus": 1 }, ASK_DEADLINE).await.ok()?.get_i64("term").ok()
    }

    /// Whether its process dies with the tester.
    #[must_use]
    pub const fn lifetime(&self) -> Lifetime {
        self.settings.lifetime
    }

    /// Runs an admin command on this very node.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn ask(&self, command: &Document, deadline: Duration) -> Result<Document, CommandError> {
        self.command("admin", command, deadline).await
    }

    /// Runs a command on this very node.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn command(
        &self,
        database: &str,
        command: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        let mut slot = self.connection.lock().await;
        let fresh = slot.as_ref().is_none_or(Connection::is_broken);
        if fresh {
            *slot = Some(Connection::connect(&self.own_address(), deadline).await?);
        }
        let Some(connection) = slot.as_mut() else {
            return Err(CommandError::Timeout(deadline));
        };
        let answer = connection.command(database, command, deadline).await;
        match answer {
            // The process behind a kept connection may have been restarted: ask the new one.
            Err(CommandError::Io(_)) if !fresh => {
                let mut again = Connection::connect(&self.own_address(), deadline).await?;
                let answer = again.command(database, command, deadline).await;
                *slot = Some(again);
                answer
            }
            answer => answer,
        }
    }

    fn exited(&self, exit: Exit) -> ClusterError {
        ClusterError::Exited {
            node: self.name().into(),
            address_in_use: exit.code == Some(EXIT_ADDRESS_IN_USE),
            how: exit.to_string(),
            log: self.log_path(),
            tail: self.log_tail(),
        }
    }

    /// The files that its process writes: the log, and what it prints.
    fn written(&self) -> [PathBuf; 2] {
        [self.log_path(), self.settings.dir.join("stdio.log")]
    }

    /// The last errors in the log since the process was started; without any the last lines, and without
    /// those what it printed.
    fn log_tail(&self) -> String {
        let [log, printed] = self.written();
        let [log_from, printed_from] = *lock(&self.written_before);
        let mut text = read_from(&log, log_from);
        if text.is_empty() {
            text = read_from(&printed, printed_from);
        }
        last_lines(&text)
    }
}

pub(super) fn role_of(hello: &Document) -> Role {
    let yes = |name: &str| hello.get_bool(name).unwrap_or(false);
    if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        return Role::Router;
    }
    if !hello.contains_key("setName") {
        // A member before its initiation says "isreplicaset".
        return if yes("isWritablePrimary") { Role::Standalone } else { Role::Other };
    }
    match (yes("isWritablePrimary"), yes("secondary")) {
        (true, _) => Role::Primary,
        (false, true) => Role::Secondary,
        (false, false) => Role::Other,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
