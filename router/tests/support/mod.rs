//! A small sharded cluster of real servers: one config server, two shards of one member, and rtr.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use router::Options;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::{CommandError, Connection};

pub const LONG: Duration = Duration::from_secs(120);

/// Servers and a router; all of them end when it is dropped.
pub struct Cluster {
    pub config: Server,
    pub shards: Vec<Server>,
    pub behind: Server,
    pub listen: SocketAddr,
    stop: CancellationToken,
    router: JoinSet<Result<(), router::RouterError>>,
    // Last: the servers end before their files do.
    folder: tempfile::TempDir,
}

pub struct Server {
    pub address: String,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let (_killed, _ended) = (self.child.kill(), self.child.wait());
    }
}

impl Server {
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The cheaper way to it, unless the environment asks for the other one.
    fn socket(&self, folder: &Path) -> Option<PathBuf> {
        let port = self.address.rsplit(':').next().unwrap();
        let by_socket = std::env::var_os("ROUTER_BY_TCP").is_none();
        by_socket.then(|| folder.join(format!("mongodb-{port}.sock")))
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Runs a command on the server itself.
    pub async fn command(&self, command: Document) -> Result<Document, CommandError> {
        let mut connection = Connection::connect(&self.address, LONG).await?;
        connection.command("admin", &command, LONG).await
    }

    async fn until_primary(&self) {
        let is_primary = async || {
            let hello = self.command(doc! { "hello": 1 }).await;
            hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
        };
        while !is_primary().await {
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Cluster {
    /// Starts everything; cursors time out after this.
    pub async fn start(cursor_timeout: Duration) -> Self {
        timeout(LONG, Self::start_now(cursor_timeout)).await.expect("the cluster starts in time")
    }

    async fn start_now(cursor_timeout: Duration) -> Self {
        // Only the first of several clusters in one process sets it.
        let _set = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_writer(std::io::stderr)
            .try_init();
        let folder = tempfile::Builder::new().prefix("router-real-").tempdir().unwrap();
        let start = |name: &str, role: &str| start(folder.path(), name, role);
        let config = start("cfg", "--configsvr");
        let shards = vec![start("s0", "--shardsvr"), start("s1", "--shardsvr")];
        let behind = start("rtr", "--shardsvr");
        for (name, server) in [("cfg", &config), ("s0", &shards[0]), ("s1", &shards[1]), ("rtr", &behind)] {
            initiate(name, server).await;
        }
        for (name, server) in [("rtr", &behind), ("s0", &shards[0]), ("s1", &shards[1])] {
            let add = doc! { "_configsvrAddShard": format!("{name}/{}", server.address), "name": name,
            "writeConcern": { "w": "majority" } };
            config.command(add).await.unwrap();
        }
        drain(&config, "rtr").await;
        let stop = CancellationToken::new();
        let options = Options {
            listen: (Ipv4Addr::LOCALHOST, free_port()).into(),
            upstream: behind.address.clone(),
            upstream_socket: behind.socket(folder.path()),
            config: vec![config.address.clone()],
            cursor_timeout,
            ..Options::default()
        };
        let listen = options.listen;
        let mut router = JoinSet::new();
        router.spawn(router::serve(options, stop.clone()));
        let cluster = Self { config, shards, behind, listen, stop, router, folder };
        while Connection::connect(&listen.to_string(), LONG).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
        cluster
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command through the router.
    pub async fn command(&self, database: &str, command: Document) -> Result<Document, CommandError> {
        let mut connection = Connection::connect(&self.listen.to_string(), LONG).await?;
        connection.command(database, &command, LONG).await
    }

    pub async fn admin(&self, command: Document) -> Document {
        let text = command.to_string();
        self.command("admin", command).await.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The code with which a command is refused.
    pub async fn refusal(&self, database: &str, command: Document) -> i32 {
        let text = command.to_string();
        match self.command(database, command).await {
            Err(CommandError::Server { code, .. }) => code,
            other => panic!("{text}: {other:?}"),
        }
    }

    pub async fn client(&self) -> mongodb::Client {
        mongodb::Client::with_uri_str(format!("mongodb://{}/", self.listen)).await.unwrap()
    }

    /// Chunks of a collection, in order: lower end and shard.
    pub async fn chunks(&self, namespace: &str) -> Vec<(Document, Document, String)> {
        let config = self.client().await.database("config");
        let collections = config.collection::<Document>("collections");
        let collection = collections.find_one(doc! { "_id": namespace }).await.unwrap().unwrap();
        let chunks = config.collection::<Document>("chunks");
        let uuid = collection.get("uuid").unwrap();
        let mut found = chunks.find(doc! { "uuid": uuid }).sort(doc! { "min": 1 }).await.unwrap();
        let mut chunks = Vec::new();
        while found.advance().await.unwrap() {
            let chunk = found.deserialize_current().unwrap();
            let part = |name| chunk.get_document(name).unwrap().clone();
            chunks.push((part("min"), part("max"), chunk.get_str("shard").unwrap().to_owned()));
        }
        chunks
    }

    /// Ends the router and waits for it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = timeout(LONG, self.router.join_next()).await.unwrap().unwrap();
        ended.unwrap().unwrap();
    }
}

fn start(folder: &Path, name: &str, role: &str) -> Server {
    let path = folder.join(name);
    std::fs::create_dir(&path).unwrap();
    let (mongod, port) = (mongod(), free_port());
    let child = Command::new(&mongod)
        // Servers that scripts/get-mongod fetched have their libraries beside them.
        .env("LD_LIBRARY_PATH", mongod.parent().unwrap().join("../lib"))
        .args(["--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "0.25", "--unixSocketPrefix"])
        .arg(folder)
        .args([role, "--replSet", name, "--port", &port.to_string()])
        .args(["--setParameter", "minNumChunksForSessionsCollection=1"])
        .args(["--setParameter", "orphanCleanupDelaySecs=1", "--dbpath"])
        .arg(&path)
        .arg("--logpath")
        .arg(folder.join(format!("{name}.log")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Server { address: format!("127.0.0.1:{port}"), child }
}

async fn initiate(name: &str, server: &Server) {
    let configuration =
        doc! { "_id": name, "configsvr": name == "cfg", "members": [{ "_id": 0, "host": &server.address }] };
    while server.command(doc! { "replSetInitiate": configuration.clone() }).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
    server.until_primary().await;
}

async fn drain(config: &Server, name: &str) {
    let remove = doc! { "_configsvrRemoveShard": name, "writeConcern": { "w": "majority" } };
    while config.command(remove.clone()).await.unwrap().get_str("state").unwrap() != "completed" {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Below the ports that the system gives to outgoing connections, and spread over processes.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 1_000).unwrap() * 10;
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 11_999;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn mongod() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/get-mongod");
    let output = Command::new(script).arg("--any").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}
