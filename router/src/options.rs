//! What a router is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Options of [`serve`](crate::serve). `listen`, `upstream` and `config` have no useful default.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// `host:port` of rtr, the former shard server whose routing code is used.
    pub upstream: String,
    /// The Unix domain socket of rtr, if it has one: commands of clients then go that way, which costs less.
    pub upstream_socket: Option<PathBuf>,
    /// `host:port` of each member of the config replica set.
    pub config: Vec<String>,
    /// Clients at the same time; who comes later is disconnected at once. Each may send messages of up to 48 MB.
    pub connections_max: usize,
    /// Open cursors at the same time; beyond, the one that was idle for longest is ended.
    pub cursors_max: usize,
    /// A cursor that nobody asks for so long is ended, here and on the shards. An open cursor keeps its shards from
    /// deleting ranges that moved away.
    pub cursor_timeout: Duration,
    /// So long rtr may take to answer at the start.
    pub start_timeout: Duration,
    /// So long a primary of a config server or a shard is looked for.
    pub primary_timeout: Duration,
    /// So long an administrative command may take: a migration waits for much.
    pub admin_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 27017).into(),
            upstream: String::new(),
            upstream_socket: None,
            config: Vec::new(),
            connections_max: 10_000,
            cursors_max: 10_000,
            cursor_timeout: Duration::from_secs(60),
            start_timeout: Duration::from_secs(30),
            primary_timeout: Duration::from_secs(20),
            admin_timeout: Duration::from_secs(3_600),
        }
    }
}
