//! What the workers of one workload did, second by second: merged as it happens, taken once a second.
//!
//! Counts and latencies are kept by the second of *finishing*, availability by the 100 ms of the
//! *intended start*. Memory is bounded: cells are handed to the recorder every second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::Moment;
use crate::outcome::{Cause, Outcome};
use crate::recording::WITHIN_S;

/// Histograms hold 1 us to 1 h at 3 digits; larger values are booked as 1 h, the true maximum is kept
/// beside.
pub const HIGHEST_US: u64 = 3_600_000_000;
const LOWEST_US: u64 = 1;
const DIGITS: u8 = 3;
/// Classes of errors per workload; our own words are fewer, the codes of the server are not.
const MAX_ERROR_CLASSES: usize = 100;
/// Successes are kept apart at this grain, so gaps of 100 ms and more are known exactly.
const SLOT: Duration = Duration::from_millis(10);
const SLOTS: usize = 100;

/// An empty latency histogram.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and valid")]
    Histogram::new_with_bounds(LOWEST_US, HIGHEST_US, DIGITS).expect("constant bounds")
}

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
    /// Missed ones and those that ran into the deadline, with the time they had waited.
    pub unanswered: Histogram<u64>,
    /// Largest value of `response` or `unanswered`, unclamped, in microseconds.
    pub max_us: u64,
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
            late: Duration::ZERO,
            late_starts: 0,
            successes: Box::new([None; SLOTS]),
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

#[derive(Debug, Default)]
struct Inner {
    cells: VecDeque<Cell>,
    pieces: BTreeMap<u64, PieceCell>,
    errors: BTreeMap<ErrorKey, ErrorCell>,
    taken: u64,
    first: Option<u64>,
    last: Option<u64>,
}

/// The statistics of one workload. The lock is held for the time of a few additions.
#[derive(Debug)]
pub struct Stats {
    epoch: Moment,
    inner: Mutex<Inner>,
}

impl Stats {
    /// Nothing happened yet; seconds count from `epoch`.
    #[must_use]
    pub fn new(epoch: Moment) -> Self {
        Self { epoch, inner: Mutex::default() }
    }

    /// Books one operation.
    pub fn record(&self, op: &Finished<'_>) {
        let since = op.finished.saturating_sub(self.epoch);
        let piece = piece_of(op.intended.saturating_sub(self.epoch));
        let mut inner = self.lock();
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
        self.lock().first = Some(first);
    }

    /// The measured phase ends with this second: what is still in flight is booked in it.
    pub fn close(&self, last: u64) {
        self.lock().last = Some(last);
    }

    /// Takes the next second, which must be over; empty cells are made for seconds without operations.
    pub fn take(&self) -> Taken {
        let mut inner = self.lock();
        let second = inner.taken;
        inner.taken += 1;
        let has = inner.cells.front().is_some_and(|cell| cell.second == second);
        let cell = if has { inner.cells.pop_front() } else { None };
        let pieces = std::mem::take(&mut inner.pieces);
        Taken { cell: cell.unwrap_or_else(|| Cell::new(second)), pieces }
    }

    /// Errors of the measured phase so far, by class and code.
    pub fn errors(&self) -> BTreeMap<ErrorKey, ErrorCell> {
        self.lock().errors.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let mut key = (cause.class, cause.code);
    if !errors.contains_key(&key) && errors.len() >= MAX_ERROR_CLASSES {
        key = ("more", None);
    }
    let fresh = || ErrorCell { count: 0, first: at, last: at, sample: cause.text.clone() };
    let cell = errors.entry(key).or_insert_with(fresh);
    cell.count += 1;
    cell.last = cell.last.max(at);
}

fn book_cell(cell: &mut Cell, op: &Finished<'_>, since: Duration) {
    let response_us = micros(op.finished.saturating_sub(op.intended));
    match op.outcome {
        Some(Outcome::Ok) => {
            cell.ok += 1;
            cell.response.saturating_record(response_us);
            let sent = op.sent.unwrap_or(op.intended);
            cell.service.saturating_record(micros(op.finished.saturating_sub(sent)));
            cell.max_us = cell.max_us.max(response_us);
            book_success(cell, since, op.finished);
        }
        Some(Outcome::Failed(cause) | Outcome::Unknown(cause)) => {
            let unknown = matches!(op.outcome, Some(Outcome::Unknown(_)));
            *(if unknown { &mut cell.unknown } else { &mut cell.failed }) += 1;
            if cause.timed_out {
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

fn book_unanswered(cell: &mut Cell, waited_us: u64) {
    cell.unanswered.saturating_record(waited_us);
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
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn op(intended_ms: u32, took_ms: u32, outcome: Option<&Outcome>) -> Finished<'_> {
        let intended = intended_ms * MS;
        let sent = outcome.map(|_| intended);
        Finished { intended, sent, finished: intended + took_ms * MS, worker_was_free: true, outcome }
    }

    #[test]
    fn a_second_without_operations_is_an_empty_cell_and_nothing_is_carried_over() {
        let stats = Stats::new(Duration::ZERO);
        stats.record(&op(100, 5, Some(&Outcome::Ok)));
        assert_eq!(stats.take().cell.ok, 1);
        let quiet = stats.take();
        assert_eq!((quiet.cell.second, quiet.cell.ok, quiet.cell.response.len()), (1, 0, 0));
        assert!(quiet.pieces.is_empty());
    }

    #[test]
    fn two_workers_with_errors_are_added_up() {
        let stats = Stats::new(Duration::ZERO);
        stats.open(0);
        let reset = Outcome::Unknown(Cause::new("network", "reset"));
        let refused = Outcome::Failed(Cause::new("not_primary", "no"));
        for outcome in [&reset, &refused, &reset] {
            stats.record(&op(10, 1, Some(outcome)));
        }
        let taken = stats.take();
        assert_eq!((taken.cell.unknown, taken.cell.failed), (2, 1));
        assert_eq!(taken.pieces[&0], PieceCell { scheduled: 3, ok_within: [0; 6], not_ok: 3 });
        let errors = stats.errors();
        assert_eq!(errors[&("network", None)].count, 2);
        assert_eq!(errors[&("not_primary", None)].count, 1);
    }

    #[test]
    fn errors_of_the_warm_up_are_not_kept() {
        let (stats, refused) = (Stats::new(Duration::ZERO), Outcome::Failed(Cause::new("not_primary", "no")));
        stats.record(&op(500, 1, Some(&refused)));
        stats.open(1);
        stats.record(&op(999, 1, Some(&refused)));
        assert_eq!(stats.errors()[&("not_primary", None)].count, 1);
    }

    #[test]
    fn an_operation_of_two_hours_and_one_of_nothing_are_kept() {
        let stats = Stats::new(Duration::ZERO);
        stats.record(&op(0, 0, Some(&Outcome::Ok)));
        let first = stats.take().cell;
        assert_eq!(first.response.min(), 1);
        stats.close(1);
        stats.record(&op(0, 2 * 3_600_000, Some(&Outcome::Ok)));
        let last = stats.take().cell;
        assert_eq!(last.max_us, 7_200_000_000, "the true maximum");
        assert!(last.response.max() <= HIGHEST_US * 1001 / 1000);
    }

    #[test]
    fn a_late_answer_counts_where_it_was_intended_and_where_it_finished() {
        let stats = Stats::new(Duration::ZERO);
        stats.record(&op(950, 1_500, Some(&Outcome::Ok)));
        let first = stats.take();
        assert_eq!(first.cell.ok, 0);
        assert_eq!(first.pieces[&9].ok_within, [0, 1, 1, 1, 1, 1]);
        stats.take();
        assert_eq!(stats.take().cell.ok, 1);
    }

    #[test]
    fn a_missed_arrival_keeps_its_wait() {
        let stats = Stats::new(Duration::ZERO);
        stats.record(&op(0, 900, None));
        let taken = stats.take();
        assert_eq!((taken.cell.missed, taken.cell.unanswered.len()), (1, 1));
        assert_eq!(taken.pieces[&0].scheduled, 1);
        assert!(taken.cell.successes().next().is_none());
    }

    #[test]
    fn error_classes_are_bounded() {
        let stats = Stats::new(Duration::ZERO);
        stats.open(0);
        for code in 0..500 {
            let cause = Cause { code: Some(code), ..Cause::new("command", "x") };
            stats.record(&op(0, 1, Some(&Outcome::Failed(cause))));
        }
        let errors = stats.errors();
        assert_eq!(errors.len(), MAX_ERROR_CLASSES + 1);
        assert_eq!(errors.values().map(|e| e.count).sum::<u64>(), 500);
    }

    #[test]
    fn a_straggler_is_booked_in_the_oldest_open_second() {
        let stats = Stats::new(Duration::ZERO);
        stats.take();
        stats.record(&op(100, 5, Some(&Outcome::Ok)));
        let next = stats.take().cell;
        assert_eq!((next.second, next.ok), (1, 1));
    }
}
