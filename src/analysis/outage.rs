//! Time without service around a fault, by the *intended* time of the operations, and the longest
//! time between two successes.
//!
//! A piece of time is judged by its good share: the operations intended in it that were acknowledged
//! within L, of all that were scheduled in it. L is 1 s or ten times the normal p99, whichever is
//! more, rounded up to an edge that the recording has.

use std::cmp::min;
use std::ops::Range;

use super::window::Window;
use crate::recording::{Gap, Piece, WITHIN_S, WorkloadRecording};
use crate::report::data::{Outage, OutageKind, OutageWindow};

/// Good share under which a piece is a hard outage.
const HARD_SHARE: f64 = 0.01;
/// Good share under which a piece is degraded.
const GOOD_SHARE: f64 = 0.99;
/// Windows with less than this between them are one: a short good spell is no service.
pub const MERGE_S: f64 = 2.0;
/// Open loops slower than this leave pieces empty between two arrivals.
const SPARSE_OPS_S: f64 = 10.0;
/// Times closer together than this are the same: pieces are cut at multiples of 100 ms, which binary
/// numbers only come near.
const SAME_S: f64 = 1e-6;

/// How good service was, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Good,
    Degraded,
    Hard,
}

/// Time in one state.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from_s: f64,
    to_s: f64,
    state: State,
}

/// Measures the outage of one workload by one fault. `p99_us` is P of the baseline; without one L is
/// 1 s. Formulas: `docs/measures.md`, "Outage".
#[must_use]
pub fn measure(work: &WorkloadRecording, window: &Window, p99_us: Option<u64>) -> Outage {
    let stretches = stretches(work, window, edge(p99_us));
    let hard = windows(&stretches, State::Hard);
    let degraded = windows(&stretches, State::Degraded);
    let longest = |of: &[(f64, f64)]| of.iter().map(|(from, to)| to - from).fold(0.0, f64::max);
    let mut all: Vec<OutageWindow> = Vec::with_capacity(hard.len() + degraded.len());
    for (kind, found) in [(OutageKind::Hard, &hard), (OutageKind::Degraded, &degraded)] {
        all.extend(found.iter().map(|&(from_s, to_s)| OutageWindow { kind, from_s, to_s }));
    }
    all.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    Outage {
        hard_s: longest(&hard),
        hard_total_s: hard.iter().map(|(from, to)| to - from).sum(),
        degraded_s: longest(&degraded),
        longest_gap_s: longest_gap(work, window).map(|gap| gap.to_s - gap.from_s),
        masked: masked(work, window),
        windows: all,
    }
}

/// Index into [`WITHIN_S`] of L.
fn edge(p99_us: Option<u64>) -> usize {
    let l = p99_us.map_or(1.0, |us| (us as f64 / 1e5).max(1.0));
    WITHIN_S.iter().position(|edge| *edge >= l).unwrap_or(WITHIN_S.len() - 1)
}

/// The whole window as stretches, without a hole.
fn stretches(work: &WorkloadRecording, window: &Window, edge: usize) -> Vec<Stretch> {
    let pieces = &work.availability;
    let inside = inside(work, window);
    // One piece before the window and one after it say what to make of holes at its ends.
    let mut before = inside.start.checked_sub(1).map(|i| known(&pieces[i], edge));
    let after = pieces.get(inside.end).map(|p| known(p, edge));
    let mut found = Vec::new();
    for piece in &pieces[inside] {
        let next = known(piece, edge);
        found.extend(hole(work, before, Some(next), edge, window));
        found.push(next);
        before = Some(next);
    }
    found.extend(hole(work, before, after, edge, window));
    found.iter().filter_map(|s| clip(*s, window)).collect()
}

fn end_of(piece: &Piece) -> f64 {
    piece.from_s + piece.width_s
}

/// The state of a piece in which something was scheduled.
fn known(piece: &Piece, edge: usize) -> Stretch {
    let share = piece.ok_within[edge] as f64 / piece.scheduled.max(1) as f64;
    let state = match share {
        s if s < HARD_SHARE => State::Hard,
        s if s < GOOD_SHARE => State::Degraded,
        _ => State::Good,
    };
    // A piece without any operation proves nothing.
    let state = if piece.scheduled == 0 { State::Good } else { state };
    Stretch { from_s: piece.from_s, to_s: end_of(piece), state }
}

/// The stretch between two pieces, in which nothing was scheduled; `None`: there is no such time.
///
/// * Closed loop: every worker was inside an operation. If that lasted longer than L, none of these
///   operations was good: a hard outage, even if the piece before held enough good ones to be merely
///   degraded. Otherwise the piece before still tells what the workers are in.
/// * Slow open loop: arrivals are further apart than pieces, so the last one tells.
/// * Other open loops: no evidence, hence good, unless it lies between two bad pieces.
fn hole(
    work: &WorkloadRecording,
    before: Option<Stretch>,
    after: Option<Stretch>,
    edge: usize,
    window: &Window,
) -> Option<Stretch> {
    let from_s = before.map_or(window.injected_s, |s| s.to_s);
    let to_s = after.map_or(window.end_s, |s| s.from_s);
    let state_before = before.map_or(State::Good, |s| s.state);
    let state_after = after.map_or(State::Good, |s| s.state);
    let state = match work.rate_ops_s {
        None if to_s - from_s > WITHIN_S[edge] => State::Hard,
        None => state_before,
        Some(rate) if rate < SPARSE_OPS_S => state_before,
        Some(_) => min(state_before, state_after),
    };
    (to_s - from_s > SAME_S).then_some(Stretch { from_s, to_s, state })
}

/// The part of a stretch that lies in the window.
fn clip(stretch: Stretch, window: &Window) -> Option<Stretch> {
    let from_s = stretch.from_s.max(window.injected_s);
    let to_s = stretch.to_s.min(window.end_s);
    (to_s - from_s > SAME_S).then_some(Stretch { from_s, to_s, ..stretch })
}

/// Maximal times at least as bad as `state`, merged over less than 2 s. A merged window counts whole,
/// with the good spell inside it.
fn windows(stretches: &[Stretch], state: State) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    for bad in stretches.iter().filter(|s| s.state >= state) {
        match found.last_mut() {
            Some(last) if bad.from_s - last.1 < MERGE_S - SAME_S => last.1 = bad.to_s,
            _ => found.push((bad.from_s, bad.to_s)),
        }
    }
    found
}

/// The longest time between two successful finishes in the window; `None`: all were under 100 ms. It
/// keeps its true start even when that lies before the injection (the last success before a kill
/// does), but is cut at the next injection: what follows is the next fault's.
#[must_use]
pub fn longest_gap(work: &WorkloadRecording, window: &Window) -> Option<Gap> {
    let first = work.gaps.partition_point(|g| g.to_s <= window.injected_s);
    let inside = work.gaps[first..].iter().take_while(|g| g.from_s < window.end_s);
    let cut = inside.map(|g| Gap { from_s: g.from_s, to_s: g.to_s.min(window.end_s) });
    let length = |g: &Gap| g.to_s - g.from_s;
    // Of equals the first: `max_by` would take the last.
    cut.reduce(|best, gap| if length(&gap) > length(&best) { gap } else { best })
}

/// Whether no operation failed, stayed unknown or was missed in the window.
#[must_use]
pub fn masked(work: &WorkloadRecording, window: &Window) -> bool {
    let rows = window.seconds();
    let end = rows.end.min(work.seconds.len());
    let rows = work.seconds.get(rows.start..end).unwrap_or_default();
    let clean = rows.iter().all(|s| s.failed + s.unknown + s.missed == 0);
    clean && work.availability[inside(work, window)].iter().all(|p| p.not_ok == 0)
}

/// Start of the first piece with an operation that failed, stayed unknown or was missed, not before
/// the injection; the first such second where no piece shows it. `None`: masked.
#[must_use]
pub fn first_failure(work: &WorkloadRecording, window: &Window) -> Option<f64> {
    if masked(work, window) {
        return None;
    }
    let bad = |p: &&Piece| p.scheduled > p.ok_within[WITHIN_S.len() - 1];
    let piece = work.availability[inside(work, window)].iter().find(bad).map(|p| p.from_s);
    let second = || {
        let rows = window.seconds().filter(|i| *i < work.seconds.len());
        let mut bad = rows.filter(|i| {
            let s = work.seconds[*i];
            s.failed + s.unknown + s.missed > 0
        });
        bad.next().map(|i| i as f64)
    };
    piece.or_else(second).map(|at| at.max(window.injected_s))
}

/// Indices of the pieces that lie in the window, whole or in part.
fn inside(work: &WorkloadRecording, window: &Window) -> Range<usize> {
    let pieces = &work.availability;
    let first = pieces.partition_point(|p| end_of(p) <= window.injected_s + SAME_S);
    let end = pieces.partition_point(|p| p.from_s < window.end_s - SAME_S);
    first..end.max(first)
}

#[cfg(test)]
mod tests;
