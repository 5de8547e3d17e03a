//! What is known of each connection while it lives, for lists and for resets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::flow::Way;
use super::now;
use super::rule::{Ends, Party};

/// A connection through the network, as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnInfo {
    /// Who dialled; [`Party::Unknown`] also while that is being found out.
    pub from: Party,
    /// The member that was dialled.
    pub to: String,
    /// The port on 127.0.0.1 that was dialled from.
    pub from_port: u16,
    /// Since it was accepted.
    pub age: Duration,
    /// Bytes of requests that the rules let pass.
    pub bytes_up: u64,
    /// Bytes of replies that the rules let pass.
    pub bytes_down: u64,
    /// Requests that read or write what users keep: no handshakes, no heartbeats. Compressed ones all count.
    pub data_commands: u64,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub number: u64,
    /// Index of the member.
    pub to: usize,
    pub from_port: u16,
    opened: Instant,
    from: OnceLock<Dialler>,
    up: AtomicU64,
    down: AtomicU64,
    data_commands: AtomicU64,
    edition: AtomicU64,
    killed: AtomicBool,
}

/// Who dialled, and how that connection begins.
#[derive(Debug)]
pub(crate) struct Dialler {
    pub party: Party,
    /// The first message is a bare `_isSelf`.
    pub self_probe: bool,
}

impl Conn {
    pub fn new(number: u64, to: usize, from_port: u16) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            number,
            to,
            from_port,
            opened: now(),
            from: OnceLock::new(),
            up: zero(),
            down: zero(),
            data_commands: zero(),
            // Nothing passes before it asked the rules for the first time.
            edition: AtomicU64::new(u64::MAX),
            killed: AtomicBool::new(false),
        }
    }

    /// Notes who dialled; only once.
    pub fn identified(&self, dialler: Dialler) -> &Dialler {
        self.from.get_or_init(|| dialler)
    }

    pub fn ends<'a>(&'a self, to: &'a str) -> Ends<'a> {
        match self.from.get() {
            Some(dialler) => Ends { from: &dialler.party, to, self_probe: dialler.self_probe },
            None => Ends { from: &Party::Unknown, to, self_probe: false },
        }
    }

    pub fn passed(&self, way: Way, bytes: u64) {
        let counter = if way == Way::Up { &self.up } else { &self.down };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn count_data_command(&self) {
        self.data_commands.fetch_add(1, Ordering::Relaxed);
    }

    /// It obeys this edition of the rules.
    pub fn obeys(&self, edition: u64) {
        self.edition.store(edition, Ordering::Release);
    }

    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// It resets itself when it looks at the rules next. Whether this is new.
    pub fn kill(&self) -> bool {
        !self.killed.swap(true, Ordering::AcqRel)
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub fn info(&self, to: &str) -> ConnInfo {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnInfo {
            from: self.ends(to).from.clone(),
            to: to.into(),
            from_port: self.from_port,
            age: now() - self.opened,
            bytes_up: load(&self.up),
            bytes_down: load(&self.down),
            data_commands: load(&self.data_commands),
        }
    }
}

/// All connections. Nobody holds it while waiting for anything.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<HashMap<u64, Arc<Conn>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Conn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection until the answer is dropped.
    pub fn enter(self: &Arc<Self>, conn: &Arc<Conn>) -> Entry {
        self.lock().insert(conn.number, Arc::clone(conn));
        Entry { table: Arc::clone(self), number: conn.number }
    }

    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// In the order in which they were accepted.
    pub fn all(&self) -> Vec<Arc<Conn>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_unstable_by_key(|conn| conn.number);
        all
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    table: Arc<Table>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        table.remove(&self.number);
        // A storm of connections is not kept as room for the next one.
        if table.capacity() > 1024 && table.len() < table.capacity() / 8 {
            table.shrink_to_fit();
        }
    }
}
