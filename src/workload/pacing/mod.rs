//! When operations are meant to start. Pure: the caller says what time it is.
//!
//! Open loop: the arrivals of a workload are intended where the integral of its rate reaches the next
//! whole number, whatever the server does. Workers take arrivals in turn and wait for them. An arrival
//! that waited longer than [`PATIENCE`] for a worker is *missed*: it is never sent, but its wait counts in
//! the response times, so a freeze never vanishes. Or it is sent all the same ([`AfterOutage`]): paced, each
//! then gets a slot, so that all together keep to 1.1 times the rate, or in a burst.
//!
//! The rate can be changed at any time. Arrivals intended before the change keep their times, those after
//! it are withdrawn from the workers that wait for them and are handed out anew. Each is handed out once.

mod curve;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;
use crate::scenario::AfterOutage;
pub use curve::Curve;
use state::{Piece, State};

/// How long an arrival waits for a free worker. One second of arrivals is the queue of the open loop:
/// slower than this is not "good" by the definition of an outage.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long an arrival waits at most where none is dropped. The histograms end here.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// Arrivals that wait at most where none is dropped, 100 s of 20,000/s: those left at the end are booked one
/// by one.
const MAX_BACKLOG: u64 = 2_000_000;
/// Overdue arrivals that are handed out at once at the end, to bound the memory.
const OVERDUE_AT_ONCE: usize = 10_000;
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
    /// When to send it: the intended start, or later when it is being caught up.
    pub at: Moment,
    /// Changes of the rate before it was taken.
    change: u64,
    number: u64,
    piece: Arc<Piece>,
}

/// What the holder of a ticket does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Send.
    Send,
    /// Go on waiting, until [`Ticket::at`].
    Early,
    /// The rate was changed before the intended start: take another arrival.
    Withdrawn,
}

/// Too many rate changes while the workers are stuck.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_PIECES} changes of the rate wait for workers that are stuck: try again when they go on")]
pub struct TooManyChanges;

impl Pacer {
    /// Arrivals along this curve, the first one at `epoch`.
    #[must_use]
    pub fn new(epoch: Moment, curve: Curve, after_outage: AfterOutage) -> Self {
        let state = State::new(epoch, curve, after_outage);
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
    pub fn start(&self, ticket: &mut Ticket, now: Moment) -> Turn {
        self.lock().start(ticket, now)
    }

    /// Gives up an arrival whose slot lies behind the end. The caller books it as missed.
    pub fn give_up(&self, ticket: &Ticket) {
        self.lock().settle(ticket.number, ticket.intended);
    }

    /// The earliest intended start that somebody waits for at `now`, if one has passed; else `now`.
    pub fn oldest(&self, now: Moment) -> Moment {
        self.lock().oldest(now)
    }

    /// Operations per second at `now`.
    pub fn rate(&self, now: Moment) -> f64 {
        self.lock().piece_at(now).map_or(0.0, |piece| piece.rate(now))
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
    /// patience: at the end of a run in which all workers are stuck, or have a backlog. Hands each out once;
    /// to be called until there are none.
    pub fn take_overdue(&self, end: Moment) -> Vec<Moment> {
        self.lock().take_overdue(end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
