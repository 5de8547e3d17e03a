//! Where the intended rate of a workload was the same: only there can two times be compared.
//!
//! It is taken from what was recorded, arrivals by their intended start, and not from the scenario: so it
//! holds for schedules and for changes by hand alike. Workloads whose rate nobody changed are not looked at.

use std::ops::Range;

use super::window::second_of;
use crate::recording::{Pace, WorkloadRecording};

/// Seconds that are added up: arrivals of a slow workload are counted in whole ones.
const SPAN: usize = 10;
/// Largest difference that counts as the same rate.
const SAME_SHARE: f64 = 0.05;
/// Arrivals that the edges of two spans may cut off or add.
const EDGE: f64 = 2.0;
/// The seconds before an injection that say what the rate was.
const BEFORE: usize = 5;

/// The first second from which on the intended rate was the same until `end` (a whole second); 0 when nobody
/// changed it.
#[must_use]
pub fn same_since(work: &WorkloadRecording, end: usize) -> usize {
    if work.pace == Pace::Constant {
        return 0;
    }
    let scheduled = scheduled(work, end);
    let last: u64 = scheduled[end.saturating_sub(BEFORE)..].iter().sum();
    let rate = last as f64 / BEFORE.min(end).max(1) as f64;
    (0..end).rev().find(|i| !is_same(&scheduled, *i, BEFORE, rate)).map_or(0, |differs| differs + 1)
}

/// When the intended rate was no longer that of the baseline, in seconds from the start, between `from` and
/// `end` (whole seconds); `None`: it stayed, or nobody changed it.
#[must_use]
pub fn same_until(work: &WorkloadRecording, before: Range<usize>, from: usize, end: usize) -> Option<f64> {
    if work.pace == Pace::Constant {
        return None;
    }
    let scheduled = scheduled(work, end.max(before.end));
    let rate = scheduled[before.clone()].iter().sum::<u64>() as f64 / before.len().max(1) as f64;
    let differs = (from..end).find(|i| !is_same(&scheduled, *i, SPAN, rate))?;
    // The change lies within the span; nothing after its start is certain.
    Some((differs + 1).saturating_sub(SPAN).max(from) as f64)
}

/// Arrivals intended in each second before `end`.
#[must_use]
pub fn scheduled(work: &WorkloadRecording, end: usize) -> Vec<u64> {
    let mut seconds = vec![0; end];
    for piece in &work.availability {
        if let Some(second) = seconds.get_mut(second_of(piece.from_s)) {
            *second += piece.scheduled;
        }
    }
    seconds
}

/// Whether the span that ends with this second holds as many arrivals as the rate says.
fn is_same(scheduled: &[u64], last: usize, span: usize, rate: f64) -> bool {
    let from = (last + 1).saturating_sub(span);
    let count = scheduled[from..=last].iter().sum::<u64>() as f64;
    let expected = rate * (last + 1 - from) as f64;
    (count - expected).abs() <= SAME_SHARE * expected + EDGE
}

#[cfg(test)]
mod tests;
