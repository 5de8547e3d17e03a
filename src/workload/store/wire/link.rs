//! The connections of one worker: which server, connected on demand, at most one for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use wire::hot::{Line, Message};

use super::topology::{Server, Topology};
use crate::outcome::{self, Outcome};
use crate::scenario::ReadPreference;

/// After a failure the same server is left alone for this long, twice as long after each further one ...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ... up to this. News of the deployment end a pause, so this bounds how late the return of a server is
/// seen that nobody ever called lost.
const LONGEST_PAUSE: Duration = Duration::from_millis(160);

/// What an operation asks of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// To take a write.
    Write,
    /// To fit the read preference.
    Read,
}

/// Connections of one workload, counted over all its workers.
#[derive(Debug, Default)]
pub struct Traffic {
    opened: AtomicU64,
    lost: AtomicU64,
}

impl Traffic {
    /// Connections that were made, and those of them that broke or were given up.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.opened.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}

/// How far the current operation came, for when it is given up.
#[derive(Clone, Debug)]
enum Stage {
    Selecting(Wants),
    Connecting(Arc<str>),
    Exchanging(usize, Wants),
    Done,
}

/// What is known of an operation that was dropped at its deadline.
#[derive(Debug)]
pub(super) enum GivenUp {
    /// The server may carry out what was asked last.
    Sent(Wants),
    /// It surely will not, and that is why.
    NotSent(Outcome),
}

/// A server that failed us, of which there are no news yet.
#[derive(Debug)]
struct Trouble {
    addr: Arc<str>,
    pause: Duration,
    is_over: bool,
}

/// Connections of one worker.
#[derive(Debug)]
pub(super) struct Link {
    topology: watch::Receiver<Arc<Topology>>,
    preference: ReadPreference,
    writable: Vec<Server>,
    readable: Vec<Server>,
    read_mode: Option<&'static str>,
    /// Rises with each read, so that servers take turns.
    turn: usize,
    lines: Vec<(Arc<str>, Line)>,
    stage: Stage,
    trouble: Option<Trouble>,
    traffic: Arc<Traffic>,
}

impl Link {
    /// No connection yet. Workers begin with different servers, by their `index`.
    pub(super) fn new(
        topology: watch::Receiver<Arc<Topology>>,
        preference: ReadPreference,
        index: usize,
        traffic: Arc<Traffic>,
    ) -> Self {
        let mut link = Self {
            topology,
            preference,
            writable: Vec::new(),
            readable: Vec::new(),
            read_mode: None,
            turn: index,
            lines: Vec::new(),
            stage: Stage::Done,
            trouble: None,
            traffic,
        };
        link.reload();
        link
    }

    /// Waits for a server of this kind; then [`Link::exchange`] is to follow.
    pub(super) async fn select(&mut self, wants: Wants) -> Arc<str> {
        self.stage = Stage::Selecting(wants);
        loop {
            if self.topology.has_changed().unwrap_or(false) {
                self.reload();
            }
            let Some(addr) = self.next_server(wants) else {
                self.news().await;
                continue;
            };
            match self.trouble.as_mut().filter(|trouble| !trouble.is_over && trouble.addr == addr) {
                None => return addr,
                Some(trouble) => {
                    trouble.is_over = true;
                    let pause = trouble.pause;
                    tokio::select! {
                        () = self.news() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    /// Sends a request to a server and waits for the reply.
    ///
    /// # Errors
    /// The outcome, when there is no reply.
    pub(super) async fn exchange(
        &mut self,
        addr: &Arc<str>,
        message: &mut Message,
        wants: Wants,
    ) -> Result<&[u8], Outcome> {
        let at = match self.line_to(addr).await {
            Ok(at) => at,
            Err(text) => {
                self.stage = Stage::Done;
                self.suspect(addr);
                return Err(outcome::of_no_connection(&text));
            }
        };
        self.stage = Stage::Exchanging(at, wants);
        let exchanged = self.lines[at].1.exchange(message).await;
        self.stage = Stage::Done;
        if let Err(error) = exchanged {
            self.lose(at);
            self.suspect(addr);
            return Err(outcome::of_line(&error, wants == Wants::Write));
        }
        Ok(self.lines[at].1.reply())
    }

    /// What reads say of their read preference, by what is known of the servers.
    pub(super) fn read_mode(&self) -> Option<&'static str> {
        self.read_mode
    }

    /// Takes note of what an answer says of its server.
    pub(super) fn learn(&mut self, addr: &Arc<str>, is_about_the_role: bool) {
        if is_about_the_role {
            self.suspect(addr);
        } else if self.trouble.as_ref().is_some_and(|trouble| trouble.addr == *addr) {
            self.trouble = None;
        }
    }

    /// Closes what the operation in flight used: no late reply can reach another one.
    pub(super) fn give_up(&mut self, deadline: Duration) -> GivenUp {
        let seconds = deadline.as_secs_f64();
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Selecting(wants) => {
                let wanted = match (wants, self.preference) {
                    (Wants::Write, _) | (Wants::Read, ReadPreference::Primary) => "primary",
                    (Wants::Read, _) => "server that fits the read preference",
                };
                GivenUp::NotSent(outcome::of_no_server(seconds, wanted))
            }
            Stage::Connecting(addr) => {
                let text = format!("connecting to {addr}");
                GivenUp::NotSent(outcome::of_not_sent_in_time(seconds, &text))
            }
            Stage::Exchanging(at, wants) => {
                let (was_sent, addr) = (self.lines[at].1.has_sent(), Arc::clone(&self.lines[at].0));
                self.lose(at);
                if was_sent {
                    return GivenUp::Sent(wants);
                }
                let text = format!("{addr} takes no more bytes");
                GivenUp::NotSent(outcome::of_not_sent_in_time(seconds, &text))
            }
            // Between two exchanges nothing is waited for.
            Stage::Done => GivenUp::Sent(Wants::Write),
        }
    }

    fn next_server(&mut self, wants: Wants) -> Option<Arc<str>> {
        let servers = if wants == Wants::Write { &self.writable } else { &self.readable };
        let turn = self.turn;
        if servers.len() > 1 {
            self.turn = turn.wrapping_add(1);
        }
        servers.get(turn % servers.len().max(1)).map(|server| Arc::clone(&server.addr))
    }

    /// Waits until something changes in the deployment. Without the monitor nothing ever does.
    async fn news(&mut self) {
        match self.topology.changed().await {
            Ok(()) => self.reload(),
            Err(_) => std::future::pending().await,
        }
    }

    fn reload(&mut self) {
        let topology = Arc::clone(&self.topology.borrow_and_update());
        self.writable = topology.writable();
        self.readable = topology.readable(self.preference);
        self.read_mode = topology.read_mode(self.preference);
        self.trouble = None;
        let known = |addr: &Arc<str>| self.writable.iter().chain(&self.readable).any(|s| s.addr == *addr);
        self.lines.retain(|(addr, _)| known(addr));
    }

    /// The connection to a server, ready for an exchange.
    async fn line_to(&mut self, addr: &Arc<str>) -> Result<usize, String> {
        if let Some(at) = self.lines.iter().position(|(of, _)| of == addr) {
            if self.lines[at].1.is_ready() {
                return Ok(at);
            }
            self.lose(at);
        }
        self.stage = Stage::Connecting(Arc::clone(addr));
        let failed = |error: &dyn std::fmt::Display| format!("connect to {addr}: {error}");
        let mut line = Line::connect(addr).await.map_err(|e| failed(&e))?;
        line.greet("mongosoak").await.map_err(|e| failed(&e))?;
        self.traffic.opened.fetch_add(1, Ordering::Relaxed);
        self.lines.push((Arc::clone(addr), line));
        Ok(self.lines.len() - 1)
    }

    /// Closes a connection.
    fn lose(&mut self, at: usize) {
        self.traffic.lost.fetch_add(1, Ordering::Relaxed);
        self.lines.swap_remove(at);
    }

    fn suspect(&mut self, addr: &Arc<str>) {
        let before = self.trouble.as_ref().filter(|trouble| trouble.addr == *addr);
        let pause = before.map_or(FIRST_PAUSE, |trouble| (2 * trouble.pause).min(LONGEST_PAUSE));
        self.trouble = Some(Trouble { addr: Arc::clone(addr), pause, is_over: false });
    }
}
