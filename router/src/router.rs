//! What all connections of a router share.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use tokio::time::{sleep, timeout};
use wire::{CommandError, Connection};

use crate::cursors::Cursors;
use crate::error::RouterError;
use crate::options::Options;
use crate::places::Places;
use crate::routes::ROUTES;

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_PAUSE: Duration = Duration::from_millis(200);

/// The commands without which there is nothing to stand in with.
const NEEDED: [&str; 6] =
    ["clusterInsert", "clusterFind", "clusterUpdate", "clusterDelete", "clusterAggregate", "clusterGetMore"];

#[derive(Debug)]
pub(crate) struct Router {
    pub options: Options,
    pub behind: Behind,
    pub places: Places,
    pub cursors: Cursors,
    pub counters: Counters,
    next_connection: AtomicI32,
}

/// What rtr says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    pub version: String,
    pub min_wire_version: i32,
    pub max_wire_version: i32,
}

/// Numbers for the status; none of them decides anything.
#[derive(Debug)]
pub(crate) struct Counters {
    /// One for each of [`ROUTES`].
    pub commands: Vec<AtomicU64>,
    pub unknown: AtomicU64,
    pub connections_open: AtomicU64,
    pub connections_total: AtomicU64,
    pub connections_refused: AtomicU64,
    /// Connections that ended because the client did not speak the protocol.
    pub malformed: AtomicU64,
    pub stale_resends: AtomicU64,
}

impl Router {
    /// Asks rtr what it can do.
    pub async fn probe(options: Options) -> Result<Self, RouterError> {
        let behind = match timeout(options.start_timeout, Behind::ask_until_answered(&options.upstream)).await
        {
            Ok(answer) => answer?,
            // The last look tells why.
            Err(_) => Behind::ask(&options.upstream).await.map_err(|error| RouterError::Unreachable {
                upstream: options.upstream.clone(),
                after: options.start_timeout,
                error,
            })??,
        };
        let counters = Counters {
            commands: ROUTES.iter().map(|_| AtomicU64::new(0)).collect(),
            unknown: AtomicU64::new(0),
            connections_open: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            stale_resends: AtomicU64::new(0),
        };
        let (places, cursors) = (Places::new(&options), Cursors::new(options.cursors_max));
        Ok(Self { behind, places, cursors, counters, options, next_connection: AtomicI32::new(1) })
    }

    pub fn connection_id(&self) -> i32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// What it is, for whoever wants to say it honestly.
    pub fn description(&self) -> String {
        format!("stand-in router (cluster* commands of mongod {})", self.behind.version)
    }
}

impl Behind {
    async fn ask_until_answered(upstream: &str) -> Result<Self, RouterError> {
        loop {
            match Self::ask(upstream).await {
                Ok(answer) => return answer,
                Err(_) => sleep(PROBE_PAUSE).await,
            }
        }
    }

    /// The outer error is one of the connection, the inner one is final.
    async fn ask(upstream: &str) -> Result<Result<Self, RouterError>, CommandError> {
        let mut connection = Connection::connect(upstream, PROBE_TIMEOUT).await?;
        let mut ask = async |command: Document| connection.command("admin", &command, PROBE_TIMEOUT).await;
        let hello = ask(doc! { "hello": 1 }).await?;
        let build = ask(doc! { "buildInfo": 1 }).await?;
        let commands = ask(doc! { "listCommands": 1 }).await?;
        let version = build.get_str("version").unwrap_or("of an unknown version").to_owned();
        let commands = commands.get_document("commands").cloned().unwrap_or_default();
        let missing: Vec<_> = NEEDED.into_iter().filter(|name| !commands.contains_key(name)).collect();
        if !missing.is_empty() {
            let reason = format!(
                "mongod {version} has no command {}; it takes a mongod 6.0 or newer with --shardsvr",
                missing.join(", ")
            );
            return Ok(Err(RouterError::CannotRoute { upstream: upstream.to_owned(), reason }));
        }
        Ok(Ok(Self {
            version,
            min_wire_version: hello.get_i32("minWireVersion").unwrap_or(0),
            max_wire_version: hello.get_i32("maxWireVersion").unwrap_or(0),
        }))
    }
}
