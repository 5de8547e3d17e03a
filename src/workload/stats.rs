//! What the workers of one workload did, second by second: merged as it happens, taken once a second.
//!
//! Counts and latencies are kept by the second of *finishing*, availability by the 100 ms of the
//! *intended start*. Memory is bounded: cells are handed to the recorder every second. Each thread books
//! in a shard of its own, so they do not wait for each other; taking a second adds the shards up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::kinds::{self, Kinds};
use super::latency::{histogram, merge, record_us};
use crate::clock::Moment;
use crate::outcome::{Cause, Outcome};
use crate::recording::WITHIN_S;
use crate::scenario::OpKind;

/// Longer than this is a long wait. Quick failures are left out of the latencies: they would make them look
/// better.
const LONG_WAIT_US: u64 = 1_000_000;
/// Classes of errors per workload; our own words are fewer, the codes of the server are not.
const MAX_ERROR_CLASSES: usize = 100;
/// Successes are kept apart at this grain, so gaps of 100 ms and more are known exactly.
const SLOT: Duration = Duration::from_millis(10);
const SLOTS: usize = 100;

/// One finished (or missed) operation.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// When it was meant to start.
    pub intended: Moment,
    /// When it was sent; `None`: missed.
    pub sent: Option<Moment>,
    /// When it ended, or was given up.
    pub finished: Moment,
    /// A worker was waiting for its intended start: a late send is then the tester's own fault.
    pub worker_was_free: bool,
    /// What became of it; `None`: missed.
    pub outcome: Option<&'a Outcome>,
    /// Its kind, where the workload has several and it was sent.
    pub kind: Option<OpKind>,
}

/// One second of one workload.
#[derive(Debug)]
pub struct Cell {
    /// Seconds since the epoch of the drive.
    pub second: u64,
    /// Acknowledged.
    pub ok: u64,
    /// Surely not applied.
    pub failed: u64,
    /// May have been applied.
    pub unknown: u64,
    /// Never sent.
    pub missed: u64,
    /// Acknowledged operations, from the intended start.
    pub response: Histogram<u64>,
    /// Acknowledged operations, from the send.
    pub service: Histogram<u64>,
    /// Missed ones, those that ran into the deadline, and others that failed or stayed unknown after a long
    /// wait, with the time they had waited.
    pub unanswered: Histogram<u64>,
    /// Largest value of `response` or `unanswered`, unclamped, in microseconds.
    pub max_us: u64,
    /// By kind of operation, where there are several.
    pub kinds: Kinds,
    /// Most that a send was late although a worker was free.
    pub late: Duration,
    /// Sends that were over 10 ms late although a worker was free.
    pub late_starts: u64,
    /// First and last success in each slot.
    successes: Box<[Option<(Moment, Moment)>; SLOTS]>,
}

impl Cell {
    fn new(second: u64) -> Self {
        Self {
            second,
            ok: 0,
            failed: 0,
            unknown: 0,
            missed: 0,
            response: histogram(),
            service: histogram(),
            unanswered: histogram(),
            max_us: 0,
            kinds: Kinds::new(),
            late: Duration::ZERO,
            late_starts: 0,
            successes: Box::new([None; SLOTS]),
        }
    }

    fn add(&mut self, part: &Self) {
        self.ok += part.ok;
        self.failed += part.failed;
        self.unknown += part.unknown;
        self.missed += part.missed;
        merge(&mut self.response, &part.response);
        merge(&mut self.service, &part.service);
        merge(&mut self.unanswered, &part.unanswered);
        self.max_us = self.max_us.max(part.max_us);
        kinds::add(&mut self.kinds, &part.kinds);
        self.late = self.late.max(part.late);
        self.late_starts += part.late_starts;
        for (slot, more) in self.successes.iter_mut().zip(part.successes.iter()) {
            *slot = match (*slot, *more) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (one, other) => one.or(other),
            };
        }
    }

    /// First and last success of each slot that had one, in order.
    pub fn successes(&self) -> impl Iterator<Item = (Moment, Moment)> + '_ {
        self.successes.iter().flatten().copied()
    }
}

/// What became of the operations intended in one 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceCell {
    /// Intended, missed ones included.
    pub scheduled: u64,
    /// Acknowledged within each edge of [`WITHIN_S`].
    pub ok_within: [u64; 6],
    /// Failed or unknown.
    pub not_ok: u64,
}

/// Errors of one class and code.
#[derive(Clone, Debug)]
pub struct ErrorCell {
    /// How many.
    pub count: u64,
    /// First one.
    pub first: Moment,
    /// Last one.
    pub last: Moment,
    /// One text.
    pub sample: String,
}

/// Class and code.
pub type ErrorKey = (&'static str, Option<i32>);

/// What was taken for one second.
#[derive(Debug)]
pub struct Taken {
    /// The second itself.
    pub cell: Cell,
    /// Changes to pieces of any age, by number (100 ms each, from the epoch).
    pub pieces: BTreeMap<u64, PieceCell>,
}

impl Taken {
    /// Adds what another shard booked for the same second.
    fn add(&mut self, part: Self) {
        self.cell.add(&part.cell);
        for (number, piece) in part.pieces {
            let sum = self.pieces.entry(number).or_default();
            sum.scheduled += piece.scheduled;
            sum.not_ok += piece.not_ok;
            for (slot, more) in sum.ok_within.iter_mut().zip(piece.ok_within) {
                *slot += more;
            }
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    cells: VecDeque<Cell>,
    pieces: BTreeMap<u64, PieceCell>,
    errors: BTreeMap<ErrorKey, ErrorCell>,
    taken: u64,
    first: Option<u64>,
    last: Option<u64>,
}

/// The statistics of one workload. A lock is held for the time of a few additions.
#[derive(Debug)]
pub struct Stats {
    epoch: Moment,
    shards: Vec<Mutex<Inner>>,
}

impl Stats {
    /// Nothing happened yet; seconds count from `epoch`. One shard for each thread that books, at least one.
    #[must_use]
    pub fn new(epoch: Moment, shards: usize) -> Self {
        Self { epoch, shards: (0..shards.max(1)).map(|_| Mutex::default()).collect() }
    }

    /// Books one operation, best in the shard of the calling thread.
    pub fn record(&self, shard: usize, op: &Finished<'_>) {
        let since = op.finished.saturating_sub(self.epoch);
        let piece = piece_of(op.intended.saturating_sub(self.epoch));
        let mut inner = lock(&self.shards[shard % self.shards.len()]);
        book_piece(inner.pieces.entry(piece).or_default(), op);
        // A cell that was taken already is never reopened: a straggler goes to the oldest open one.
        let second = since.as_secs().max(inner.taken).min(inner.last.unwrap_or(u64::MAX));
        book_cell(cell_mut(&mut inner.cells, second), op, since);
        if let Some(Outcome::Failed(cause) | Outcome::Unknown(cause)) = op.outcome
            && inner.first.is_some_and(|first| second >= first)
        {
            book_error(&mut inner.errors, cause, op.finished);
        }
    }

    /// The measured phase begins with this second: errors count from it on.
    pub fn open(&self, first: u64) {
        self.shards.iter().for_each(|shard| lock(shard).first = Some(first));
    }

    /// The measured phase ends with this second: what is still in flight is booked in it.
    pub fn close(&self, last: u64) {
        self.shards.iter().for_each(|shard| lock(shard).last = Some(last));
    }

    /// Takes the next second, which must be over; empty cells are made for seconds without operations.
    pub fn take(&self) -> Taken {
        let mut shards = self.shards.iter().map(|shard| lock(shard).take());
        let first = shards.next().unwrap_or_else(|| Inner::default().take());
        shards.fold(first, |mut sum, part| {
            sum.add(part);
            sum
        })
    }

    /// Errors of the measured phase so far, by class and code.
    pub fn errors(&self) -> BTreeMap<ErrorKey, ErrorCell> {
        let mut sum = BTreeMap::new();
        for shard in &self.shards {
            for (key, cell) in &lock(shard).errors {
                add_error(&mut sum, *key, cell);
            }
        }
        sum
    }
}

impl Inner {
    fn take(&mut self) -> Taken {
        let second = self.taken;
        self.taken += 1;
        let has = self.cells.front().is_some_and(|cell| cell.second == second);
        let cell = if has { self.cells.pop_front() } else { None };
        let pieces = std::mem::take(&mut self.pieces);
        Taken { cell: cell.unwrap_or_else(|| Cell::new(second)), pieces }
    }
}

fn lock(shard: &Mutex<Inner>) -> std::sync::MutexGuard<'_, Inner> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of the 100 ms piece at this time since the epoch.
fn piece_of(since: Duration) -> u64 {
    u64::try_from(since.as_millis() / 100).unwrap_or(u64::MAX)
}

fn cell_mut(cells: &mut VecDeque<Cell>, second: u64) -> &mut Cell {
    let at = cells.partition_point(|cell| cell.second < second);
    if cells.get(at).is_none_or(|cell| cell.second != second) {
        cells.insert(at, Cell::new(second));
    }
    &mut cells[at]
}

fn book_piece(piece: &mut PieceCell, op: &Finished<'_>) {
    piece.scheduled += 1;
    match op.outcome {
        Some(Outcome::Ok) => {
            let response_s = op.finished.saturating_sub(op.intended).as_secs_f64();
            for (slot, edge) in piece.ok_within.iter_mut().zip(WITHIN_S) {
                *slot += u64::from(response_s <= edge);
            }
        }
        Some(_) => piece.not_ok += 1,
        None => {}
    }
}

fn book_error(errors: &mut BTreeMap<ErrorKey, ErrorCell>, cause: &Cause, at: Moment) {
    let key = (cause.class, cause.code);
    match errors.get_mut(&key) {
        Some(cell) => {
            cell.count += 1;
            cell.last = cell.last.max(at);
        }
        None => {
            add_error(errors, key, &ErrorCell { count: 1, first: at, last: at, sample: cause.text.clone() })
        }
    }
}

/// Adds to the errors of this key, or to those of all further keys when there are too many.
fn add_error(errors: &mut BTreeMap<ErrorKey, ErrorCell>, mut key: ErrorKey, more: &ErrorCell) {
    if !errors.contains_key(&key) && errors.len() >= MAX_ERROR_CLASSES {
        key = ("more", None);
    }
    let fresh = || ErrorCell { count: 0, ..more.clone() };
    let cell = errors.entry(key).or_insert_with(fresh);
    cell.count += more.count;
    cell.first = cell.first.min(more.first);
    cell.last = cell.last.max(more.last);
}

fn book_cell(cell: &mut Cell, op: &Finished<'_>, since: Duration) {
    let response_us = micros(op.finished.saturating_sub(op.intended));
    if let (Some(kind), Some(outcome)) = (op.kind, op.outcome) {
        kinds::book(&mut cell.kinds, kind, outcome, response_us);
    }
    match op.outcome {
        Some(Outcome::Ok) => {
            cell.ok += 1;
            record_us(&mut cell.response, response_us);
            let sent = op.sent.unwrap_or(op.intended);
            record_us(&mut cell.service, micros(op.finished.saturating_sub(sent)));
            cell.max_us = cell.max_us.max(response_us);
            book_success(cell, since, op.finished);
        }
        Some(Outcome::Failed(cause) | Outcome::Unknown(cause)) => {
            let unknown = matches!(op.outcome, Some(Outcome::Unknown(_)));
            *(if unknown { &mut cell.unknown } else { &mut cell.failed }) += 1;
            if is_unanswered(cause, response_us) {
                book_unanswered(cell, response_us);
            }
        }
        None => {
            cell.missed += 1;
            book_unanswered(cell, response_us);
        }
    }
    if let (Some(sent), true) = (op.sent, op.worker_was_free) {
        let late = sent.saturating_sub(op.intended);
        cell.late = cell.late.max(late);
        cell.late_starts += u64::from(late > Duration::from_millis(10));
    }
}

/// Broken off by a driver that lost patience is as good as timed out: a freeze must not vanish.
pub(super) fn is_unanswered(cause: &Cause, response_us: u64) -> bool {
    cause.timed_out || response_us > LONG_WAIT_US
}

fn book_unanswered(cell: &mut Cell, waited_us: u64) {
    record_us(&mut cell.unanswered, waited_us);
    cell.max_us = cell.max_us.max(waited_us);
}

fn book_success(cell: &mut Cell, since: Duration, at: Moment) {
    let within = since.saturating_sub(Duration::from_secs(cell.second));
    if within > Duration::from_secs(2) {
        return; // It finished after the end of the measured phase.
    }
    let slot = usize::try_from(within.as_millis() / SLOT.as_millis()).map_or(SLOTS - 1, |s| s.min(SLOTS - 1));
    let (first, last) = cell.successes[slot].unwrap_or((at, at));
    cell.successes[slot] = Some((first.min(at), last.max(at)));
}

/// Whole microseconds, at least 1.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests;
