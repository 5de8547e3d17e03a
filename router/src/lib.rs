//! The stand-in router: where no `mongos` is to be had, a drained shard server (here: the engine) routes by its
//! `cluster*` commands, and this proxy in front of it speaks to clients as a `mongos` does.
//!
//! `serve` accepts; `table` says what becomes of a command; `relay` passes reads and writes to the engine with their
//! names changed (`splice`); `computed`, `ddl` and `admin` do what the engine has no command for, by asking config
//! servers and shards (`servers`); `cursors` knows which session a cursor belongs to.
//!
//! It is no mongos: no sessions, no transactions, no retryable writes, no findAndModify, no authentication. What it
//! cannot do it answers with an error, and never forwards: an unknown command would be done by the engine itself, on
//! data of its own, and a retryable write would abort it.

mod admin;
mod answer;
mod command;
mod computed;
mod cursors;
mod ddl;
mod hello;
mod relay;
mod serve;
mod servers;
mod splice;
mod table;

use std::net::SocketAddr;
use std::time::Duration;

pub use serve::serve;

/// The command by which it tells what it is, on `admin`: `{mongosoakRouter: 1}`.
pub const WHO: &str = "mongosoakRouter";

/// Where it listens, and whom it asks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients dial. Default: a free port of 127.0.0.1.
    pub listen: SocketAddr,
    /// `host:port` of the engine.
    pub upstream: String,
    /// `host:port` of the config servers.
    pub config: Vec<String>,
    /// Most clients at a time; the next one is turned away. Default: 5,000.
    pub connections_max: usize,
    /// After so long without a `getMore` a cursor is closed. Default: 10 minutes, as servers do it.
    pub cursor_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            upstream: String::new(),
            config: Vec::new(),
            connections_max: 5_000,
            cursor_timeout: Duration::from_secs(600),
        }
    }
}

/// Why it does not serve.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Nobody can dial it.
    #[error("listen on {address}: {why}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        why: std::io::Error,
    },
    /// The engine does not answer (yet).
    #[error("ask the server that is to route, {address}: {why}")]
    Engine {
        /// Which.
        address: String,
        /// What it said, or that it did not.
        why: wire::CommandError,
    },
    /// The engine is no MongoDB 6.0 or newer.
    #[error(
        "the server at {address} (version {version}) cannot route: it has no command clusterInsert. The stand-in \
         router needs mongod 6.0 or newer; for older servers install a mongos and put it on PATH"
    )]
    CannotRoute {
        /// Which.
        address: String,
        /// Its version.
        version: String,
    },
}

impl RouterError {
    /// Whether it may be otherwise in a moment: the engine is being started.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Engine { .. })
    }
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "deadlines of this program, which records nothing")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
