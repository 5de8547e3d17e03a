//! The arrivals of one workload: which are handed out, and when the next one is. Pure; [`super::Pacer`] puts
//! a lock around it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Arrival, Curve, LONGEST_WAIT, MAX_BACKLOG, OVERDUE_AT_ONCE, PATIENCE, Ticket, Turn};
use crate::clock::Moment;
use crate::scenario::AfterOutage;

/// Paced: at most this many times the rate in all.
const CATCH_UP: f64 = 1.1;
/// An arrival that is later than this is being caught up: workers are late by less in normal operation.
const ON_TIME: Duration = Duration::from_millis(10);
/// The slot of a rate of 0: until the next change.
const NEVER: Moment = Duration::MAX;

#[derive(Debug)]
pub(super) struct State {
    /// Never empty, by their starts. The last one has no end.
    pub(super) pieces: VecDeque<Arc<Piece>>,
    /// Number of the next arrival to hand out.
    next: u64,
    /// Arrivals below were handed out for good, or will be: no change may withdraw them ...
    settled: u64,
    /// ... and the last of them was intended then.
    settled_at: Moment,
    after_outage: AfterOutage,
    /// Changes of the rate so far.
    changes: u64,
    /// Paced: no arrival that is caught up starts before.
    slot: Moment,
    /// Arrivals that are caught up and wait for their slots, with their intended starts. No more than there
    /// are workers.
    waiting: BTreeMap<u64, Moment>,
    /// At the end: arrivals were overdue, so all that are left are.
    stuck: bool,
}

/// One rate, from its start to the next change.
#[derive(Debug)]
pub(super) struct Piece {
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
    pub(super) const fn new(start: Moment, curve: Curve, first: u64, lead: f64) -> Self {
        Self { start, curve, first, lead, cut: AtomicU64::new(u64::MAX) }
    }

    pub(super) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Intended start of arrival `number`, which must not be below the first; `None`: it never comes.
    #[expect(clippy::cast_precision_loss)]
    pub(super) fn intended(&self, number: u64) -> Option<Moment> {
        let seconds = self.curve.time_of(self.lead + number.saturating_sub(self.first) as f64)?;
        self.start.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }

    /// When the integral will have grown by `count` since `at`; `None`: never.
    fn after(&self, at: Moment, count: f64) -> Option<Moment> {
        let passed = self.curve.count(at.saturating_sub(self.start).as_secs_f64());
        let seconds = self.curve.time_of(passed + count)?;
        self.start.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
    }

    pub(super) fn rate(&self, at: Moment) -> f64 {
        self.curve.rate(at.saturating_sub(self.start).as_secs_f64())
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
    pub(super) fn new(epoch: Moment, curve: Curve, after_outage: AfterOutage) -> Self {
        Self {
            pieces: VecDeque::from([Arc::new(Piece::new(epoch, curve, 0, 0.0))]),
            next: 0,
            settled: 0,
            settled_at: Moment::ZERO,
            after_outage,
            changes: 0,
            slot: Moment::ZERO,
            waiting: BTreeMap::new(),
            stuck: false,
        }
    }

    fn head(&self) -> Option<(&Arc<Piece>, Moment)> {
        let piece = self.pieces.iter().find(|piece| self.next < piece.cut())?;
        Some((piece, piece.intended(self.next)?))
    }

    pub(super) fn settle(&mut self, number: u64, intended: Moment) {
        self.waiting.remove(&number);
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
    pub(super) fn take(&mut self, now: Moment) -> (u64, Arrival) {
        self.prune(now);
        let number = self.next;
        let Some((piece, intended)) = self.head() else { return (number, Arrival::Never) };
        let (piece, change) = (Arc::clone(piece), self.changes);
        let mut ticket = Ticket { intended, at: intended, change, number, piece };
        self.next += 1;
        if intended > now {
            return (number, Arrival::Wait(ticket));
        }
        if self.is_missed(intended, now) {
            self.settle(number, intended);
            return (number, Arrival::Missed(intended));
        }
        if self.after_outage == AfterOutage::Paced && now > intended + ON_TIME {
            ticket.at = self.next_slot(now);
            if ticket.at > now {
                self.waiting.insert(number, intended);
                return (number, Arrival::Wait(ticket));
            }
        }
        self.settle(number, intended);
        (number, Arrival::Send(intended))
    }

    pub(super) fn start(&mut self, ticket: &mut Ticket, now: Moment) -> Turn {
        if ticket.number >= ticket.piece.cut() {
            return Turn::Withdrawn;
        }
        if ticket.change != self.changes && ticket.at > ticket.intended {
            // The slots follow the rate.
            ticket.at = self.next_slot(now);
        }
        ticket.change = self.changes;
        if now < ticket.at {
            return Turn::Early;
        }
        self.settle(ticket.number, ticket.intended);
        Turn::Send
    }

    /// Whether an arrival waited too long for a worker.
    fn is_missed(&self, intended: Moment, now: Moment) -> bool {
        match self.after_outage {
            AfterOutage::Drop => now > intended + PATIENCE,
            _ if now <= intended + PATIENCE => false,
            _ => now > intended + LONGEST_WAIT || self.due(now).saturating_sub(self.next) > MAX_BACKLOG,
        }
    }

    /// Number of the first arrival that is not intended before `now`.
    fn due(&self, now: Moment) -> u64 {
        self.piece_at(now).map_or(0, |piece| piece.split(now, 0).0)
    }

    /// The next time at which an arrival may be caught up; the one after it keeps its distance.
    fn next_slot(&mut self, now: Moment) -> Moment {
        let slot = self.slot.max(now);
        self.slot = self.piece_at(slot).and_then(|piece| piece.after(slot, 1.0 / CATCH_UP)).unwrap_or(NEVER);
        slot
    }

    /// The piece that holds at this time.
    pub(super) fn piece_at(&self, at: Moment) -> Option<&Arc<Piece>> {
        self.pieces.iter().rev().find(|piece| piece.start <= at).or_else(|| self.pieces.front())
    }

    pub(super) fn oldest(&self, now: Moment) -> Moment {
        let next = self.head().map_or(now, |(_, intended)| intended);
        self.waiting.values().copied().fold(next.min(now), Moment::min)
    }

    pub(super) fn take_overdue(&mut self, end: Moment) -> Vec<Moment> {
        let mut overdue = Vec::new();
        while let Some((_, intended)) = self.head() {
            self.stuck |= end > intended + PATIENCE;
            if intended >= end || !self.stuck || overdue.len() == OVERDUE_AT_ONCE {
                break;
            }
            self.settle(self.next, intended);
            self.next += 1;
            overdue.push(intended);
        }
        overdue
    }

    /// From `at` on arrivals follow the curve.
    pub(super) fn change(&mut self, at: Moment, curve: Curve) {
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
        self.changes += 1;
        self.waiting.split_off(&first);
        self.slot = self.slot.min(at);
    }
}
