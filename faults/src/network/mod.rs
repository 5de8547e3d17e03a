//! Network faults without root: a proxy of ours in front of each member.
//!
//! The members advertise the ports of the proxies, so that clients and members alike go through them. A
//! [`Network`] passes everything on until it is given [`Rule`]s; those of several owners are in force at once.
//!
//! # What a connection goes through
//!
//! `proxy` accepts it. `identify` hears its first message, for at most a second, and finds out who dialled. The
//! `rule`s say what becomes of it: it is ended, or has to wait, or the member is connected to, and then `link`
//! passes bytes both ways, each way a `flow`. A change of the rules reaches every connection at once, because
//! none ever waits for anything without looking at the rules as well.
//!
//! # Bounds
//!
//! * connections: [`Limits::connections_max`]; more are accepted and reset, and counted,
//! * memory: 256 KiB in each direction of a connection while something waits in it, and next to nothing otherwise,
//! * a connection of which one direction has ended: reset when nothing moved for [`Limits::half_closed`].

mod book;
mod conn;
mod flow;
mod frames;
mod identify;
mod kind;
mod link;
mod proxy;
mod queue;
mod rule;
mod sock_diag;
#[cfg(test)]
mod tests;
mod upstream;

pub use conn::ConnInfo;
pub use kind::*;
pub use rule::{Effect, OnLift, Own, Party, Rule, RuleCount, Selector, Side};
pub use upstream::Upstream;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use book::Active;
use proxy::Shared;

/// One member and its two ports on 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPorts {
    /// Its name.
    pub name: String,
    /// The port that it advertises and others dial; `None`: a free one between 20000 and 31999.
    pub listen: Option<u16>,
    /// Where its process listens.
    pub upstream: Upstream,
}

/// What a network allows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections at a time, over all members; each takes two descriptors. Default: 10,000, or fewer
    /// if the process may not have that many descriptors open.
    pub connections_max: usize,
    /// How long a connection may be silent when one of its directions has ended. Default: 15 s.
    pub half_closed: Duration,
    /// Threads that pass bytes on; one passes some 30,000 small requests and their answers a second.
    /// Default: one for every four processors, at least 1 and at most 4.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        use nix::sys::resource::{Resource, getrlimit};
        // A quarter of the descriptors is left to the rest of the process.
        let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft * 3 / 4 / 2);
        let connections_max = usize::try_from(allowed).unwrap_or(usize::MAX).min(10_000);
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() / 4).clamp(1, 4);
        Self { connections_max, half_closed: Duration::from_secs(15), threads }
    }
}

/// A listener as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerInfo {
    /// The member.
    pub name: String,
    /// What others dial.
    pub port: u16,
    /// Where it leads.
    pub upstream: Upstream,
    /// `false` while a rule closes it.
    pub open: bool,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Of these reset at once, because there were [`Limits::connections_max`].
    pub turned_away: u64,
}

/// The proxies of a deployment. They run on threads of their own until [`Network::stop`], or until this is dropped.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    /// Taken by whoever stops it.
    running: tokio::sync::Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    thread: std::thread::JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

impl Network {
    /// Opens all listeners. Nothing has to listen on the other side yet.
    ///
    /// # Errors
    /// When a port is taken, no thread can be made, or this kernel does not tell whose a connection is.
    pub async fn start(members: &[MemberPorts], limits: Limits) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(members, limits));
        let (opened, is_open) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        let known = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("network".into()).spawn(move || {
            proxy::run(known, opened);
            drop(ends);
        })?;
        let network = Self { shared, running: tokio::sync::Mutex::new(Some(Running { thread, ended })) };
        is_open.await.unwrap_or_else(|_| Err(io::Error::other("the thread of the network panicked")))?;
        Ok(network)
    }

    /// The port that others dial to reach a member; `None` for a name that it does not know.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<u16> {
        self.index(name).map(|member| self.shared.port(member))
    }

    /// The member's process listens elsewhere from now on. Connections that are open stay. A name that it does
    /// not know is ignored.
    pub fn set_upstream(&self, name: &str, upstream: Upstream) {
        if let Some(member) = self.index(name) {
            self.shared.set_upstream(member, upstream);
        }
    }

    /// The member's process; `None`: it has none. To be called right after the process was made, before it
    /// dials anybody: a connection is looked up only once. A name that it does not know is ignored.
    pub fn set_pid(&self, name: &str, pid: Option<i32>) {
        if let Some(member) = self.index(name) {
            self.shared.pids.set(member, pid);
        }
    }

    /// Proves that it can tell members apart.
    ///
    /// # Errors
    /// What is missing. Rules that name members in [`Selector::from`] are then of no use.
    pub fn self_test(&self) -> io::Result<()> {
        identify::self_test(&self.shared.pids.get())
    }

    /// Puts rules in force, in place of all that this owner had. The counters of the new ones start at 0. Does
    /// not wait: see [`Network::obeyed`].
    pub fn set(&self, owner: &str, rules: Vec<Rule>) {
        self.shared.edit(|book| {
            book.rules.retain(|active| active.owner != owner);
            let edition = book.edition << 16;
            let active = |(n, rule)| Arc::new(Active::new(edition + n, owner, rule));
            book.rules.extend((0..).zip(rules).map(active));
        });
    }

    /// Takes back all rules of this owner, and says what they did. Does not wait: see [`Network::obeyed`].
    pub fn clear(&self, owner: &str) -> Vec<RuleCount> {
        let mine: Vec<_> = self.shared.edit(|book| {
            let all = std::mem::take(&mut book.rules);
            let (mine, others) = all.into_iter().partition(|active| active.owner == owner);
            book.rules = others;
            mine
        });
        mine.iter().map(|active| active.count()).collect()
    }

    /// What the rules of this owner did so far, in the order in which they were set.
    #[must_use]
    pub fn counts(&self, owner: &str) -> Vec<RuleCount> {
        let book = Arc::clone(&self.shared.rules.borrow());
        book.rules.iter().filter(|active| active.owner == owner).map(|active| active.count()).collect()
    }

    /// Resets all connections that are open and match, now and once. How many they were. One that has not said
    /// yet who it is counts as [`Party::Unknown`].
    pub fn reset(&self, selector: &Selector) -> usize {
        let matches = |to: usize, conn: &conn::Conn| selector.matches(&conn.ends(self.shared.name(to)));
        let all = self.shared.table.all();
        let killed = all.iter().filter(|conn| matches(conn.to, conn) && conn.kill()).count();
        self.shared.edit(|_| ());
        killed
    }

    /// Waits until every connection and listener acts by the rules as they are now: a few milliseconds.
    ///
    /// # Errors
    /// After `deadline`: how many do not.
    pub async fn obeyed(&self, deadline: Duration) -> io::Result<()> {
        let edition = self.shared.rules.borrow().edition;
        let all_obey = async {
            while self.behind(edition) > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(deadline, all_obey).await.map_err(|_| {
            let what =
                format!("{} connections or listeners did not take over the rules", self.behind(edition));
            io::Error::new(io::ErrorKind::TimedOut, what)
        })
    }

    fn behind(&self, edition: u64) -> usize {
        let connections = self.shared.table.all().iter().filter(|conn| conn.edition() < edition).count();
        let behind = |gate: &&proxy::Gate| gate.edition.load(Ordering::Acquire) < edition;
        connections + self.shared.gates.iter().filter(behind).count()
    }

    /// All connections, in the order in which they were accepted. Never waits for traffic.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnInfo> {
        self.shared.table.all().iter().map(|conn| conn.info(self.shared.name(conn.to))).collect()
    }

    /// All listeners, in the order of the members.
    #[must_use]
    pub fn listeners(&self) -> Vec<ListenerInfo> {
        let info = |(member, gate): (usize, &proxy::Gate)| ListenerInfo {
            name: gate.name.clone(),
            port: self.shared.port(member),
            upstream: self.shared.upstream(member),
            open: gate.open.load(Ordering::Acquire),
            accepted: gate.accepted.load(Ordering::Relaxed),
            turned_away: gate.turned_away.load(Ordering::Relaxed),
        };
        self.shared.gates.iter().enumerate().map(info).collect()
    }

    /// What went wrong inside, the first 20: empty in a run that can be trusted.
    #[must_use]
    pub fn trouble(&self) -> Vec<String> {
        self.shared.trouble()
    }

    /// Resets all connections, closes all listeners and ends the threads: in well under a second. What went
    /// wrong inside since the start.
    pub async fn stop(&self) -> Vec<String> {
        self.shared.edit(|book| book.closing = true);
        let Some(Running { thread, ended }) = self.running.lock().await.take() else { return self.trouble() };
        // An error says the same: the sender is gone, so the thread is at its end.
        drop(ended.await);
        if thread.join().is_err() {
            return [self.trouble(), vec!["the thread of the network panicked".into()]].concat();
        }
        self.trouble()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.shared.gates.iter().position(|gate| gate.name == name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The thread ends by itself; a destructor must not wait for it.
        self.shared.edit(|book| book.closing = true);
    }
}

/// The clock of the timers.
#[expect(
    clippy::disallowed_methods,
    reason = "deadlines of this module, never compared with the clock of a run"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
