//! When operations are meant to start. Pure: the caller says what time it is.
//!
//! Open loop: the arrivals of a workload are intended where the integral of its rate reaches the next
//! whole number, whatever the server does. Workers take arrivals in turn and wait for them. An arrival
//! that waited longer than [`PATIENCE`] for a worker is *missed*: it is never sent, but its wait counts in
//! the response times, so a freeze never vanishes.
//!
//! The rate can be changed at any time. Arrivals intended before the change keep their times, those after
//! it are withdrawn from the workers that wait for them and are handed out anew. Each is handed out once.

mod curve;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;
pub use curve::Curve;

/// How long an arrival waits for a free worker. One second of arrivals is the queue of the open loop:
/// slower than this is not "good" by the definition of an outage.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// Rate changes whose arrivals were not all handed out: each is kept (100 bytes) until its backlog is gone.
const MAX_PIECES: usize = 10_000;

/// Hands out arrivals to the workers of one workload.
#[derive(Debug)]
pub struct Pacer {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

/// What to do with an arrival.
#[derive(Debug)]
pub enum Arrival {
    /// Send it now: its intended start passed by less than the patience.
    Send(Moment),
    /// Its start lies ahead: wait for it, then ask [`Pacer::start`].
    Wait(Ticket),
    /// It waited too long for a worker: never send it.
    Missed(Moment),
    /// None is coming at this rate.
    Never,
}

/// The right to send one arrival, unless the rate changes before its start.
#[derive(Debug)]
pub struct Ticket {
    /// Intended start.
    pub intended: Moment,
    number: u64,
    piece: Arc<Piece>,
}

/// What the holder of a ticket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Send.
    Send,
    /// Go on waiting.
    Early,
    /// The rate was changed before the intended start: take another arrival.
    Withdrawn,
}

/// Too many rate changes while the workers are stuck.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_PIECES} changes of the rate wait for workers that are stuck: try again when they go on")]
pub struct TooManyChanges;

#[derive(Debug)]
struct State {
    /// Never empty, by their starts. The last one has no end.
    pieces: VecDeque<Arc<Piece>>,
    /// Number of the next arrival to hand out.
    next: u64,
    /// Arrivals below were handed out for good, or will be: no change may withdraw them ...
    settled: u64,
    /// ... and the last of them was intended then.
    settled_at: Moment,
}

/// One rate, from its start to the next change.
#[derive(Debug)]
struct Piece {
    start: Moment,
    curve: Curve,
    /// Number of its first arrival.
    first: u64,
    /// Of the curve's integral, what must pass before the first arrival (0 to 1): the fraction that
    /// the piece before had begun counts.
    lead: f64,
    /// Arrivals from this number on are not its own any more. Written under the lock of the state.
    cut: AtomicU64,
}

impl Piece {
    const fn new(start: Moment, curve: Curve, first: u64, lead: f64) -> Self {
        Self { start, curve, first, lead, cut: AtomicU64::new(u64::MAX) }
    }

    fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Intended start of arrival `number`, which must not be below the first; `None`: it never comes.
    #[expect(clippy::cast_precision_loss)]
    fn intended(&self, number: u64) -> Option<Moment> {
        let seconds = self.curve.time_of(self.lead + number.saturating_sub(self.first) as f64)?;
        self.start.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }

    /// First arrival that is not intended before `at`, and how much of it is still to come then.
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    fn split(&self, at: Moment, settled: u64) -> (u64, f64) {
        let passed = self.curve.count(at.saturating_sub(self.start).as_secs_f64()) - self.lead;
        let whole = (passed.ceil().max(0.0) as u64).max(settled.saturating_sub(self.first));
        (self.first + whole, (whole as f64 - passed).max(0.0))
    }
}

impl State {
    fn head(&self) -> Option<(&Arc<Piece>, Moment)> {
        let piece = self.pieces.iter().find(|piece| self.next < piece.cut())?;
        Some((piece, piece.intended(self.next)?))
    }

    fn hand_out(&mut self, intended: Moment) {
        self.settle(self.next, intended);
        self.next += 1;
    }

    fn settle(&mut self, number: u64, intended: Moment) {
        self.settled = self.settled.max(number + 1);
        self.settled_at = self.settled_at.max(intended);
    }

    /// Forgets pieces that are over and have nothing left to hand out.
    fn prune(&mut self, now: Moment) {
        while self.pieces.get(1).is_some_and(|second| second.start <= now)
            && self.pieces.front().is_some_and(|first| first.cut() <= self.next)
        {
            self.pieces.pop_front();
        }
    }

    /// The next arrival and its number.
    fn take(&mut self, now: Moment) -> (u64, Arrival) {
        self.prune(now);
        let number = self.next;
        let Some((piece, intended)) = self.head() else { return (number, Arrival::Never) };
        if intended > now {
            let ticket = Ticket { intended, number, piece: Arc::clone(piece) };
            self.next += 1;
            return (number, Arrival::Wait(ticket));
        }
        self.hand_out(intended);
        let missed = now > intended + PATIENCE;
        (number, if missed { Arrival::Missed(intended) } else { Arrival::Send(intended) })
    }

    /// From `at` on arrivals follow the curve.
    fn change(&mut self, at: Moment, curve: Curve) {
        // A worker may have looked at its clock a moment after the one who changes the rate.
        let mut at = at.max(self.settled_at);
        let mut withdrawn = Vec::new();
        while self.pieces.len() > 1 && self.pieces.back().is_some_and(|last| last.start > at) {
            withdrawn.extend(self.pieces.pop_back());
        }
        let Some(current) = self.pieces.pop_back() else { return };
        at = at.max(current.start);
        let (first, lead) = current.split(at, self.settled);
        for piece in withdrawn.iter().chain([&current]) {
            piece.cut.store(first, Ordering::Relaxed);
        }
        // Changes may come faster than arrivals.
        self.pieces.retain(|piece| piece.cut() > self.next.max(piece.first));
        self.pieces.push_back(current);
        self.pieces.push_back(Arc::new(Piece::new(at, curve, first, lead)));
        self.next = self.next.min(first);
    }
}

impl Pacer {
    /// Arrivals along this curve, the first one at `epoch`.
    #[must_use]
    pub fn new(epoch: Moment, curve: Curve) -> Self {
        let pieces = VecDeque::from([Arc::new(Piece::new(epoch, curve, 0, 0.0))]);
        let state = State { pieces, next: 0, settled: 0, settled_at: Moment::ZERO };
        Self { state: Mutex::new(state), changes: watch::Sender::default() }
    }

    /// Tells of every change of the rate. To be marked as seen before [`Pacer::take`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// The next arrival, for a worker that is free at `now`. Each arrival is handed out once.
    pub fn take(&self, now: Moment) -> Arrival {
        self.lock().take(now).1
    }

    /// Whether the holder of this ticket may send at `now`.
    pub fn start(&self, ticket: &Ticket, now: Moment) -> Turn {
        let mut state = self.lock();
        if ticket.number >= ticket.piece.cut() {
            return Turn::Withdrawn;
        }
        if now < ticket.intended {
            return Turn::Early;
        }
        state.settle(ticket.number, ticket.intended);
        Turn::Send
    }

    /// Arrivals from `at` on (now, or later) follow the curve; those intended before it keep their times.
    /// The fraction of an arrival that has passed counts. Wakes all who wait.
    ///
    /// # Errors
    /// When there were too many changes while all workers are stuck.
    pub fn change(&self, at: Moment, curve: Curve) -> Result<(), TooManyChanges> {
        let mut state = self.lock();
        if state.pieces.len() >= MAX_PIECES {
            return Err(TooManyChanges);
        }
        state.change(at, curve);
        drop(state);
        self.changes.send_replace(());
        Ok(())
    }

    /// Arrivals that nobody took and that were intended before `end`, when they waited longer than the
    /// patience: at the end of a run in which all workers are stuck. Hands each out once.
    pub fn take_overdue(&self, end: Moment) -> Vec<Moment> {
        let mut state = self.lock();
        let mut overdue = Vec::new();
        while let Some((_, intended)) = state.head() {
            let stuck = !overdue.is_empty() || end > intended + PATIENCE;
            if intended >= end || !stuck {
                break;
            }
            state.hand_out(intended);
            overdue.push(intended);
        }
        overdue
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
