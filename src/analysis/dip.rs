//! How deep throughput fell and what it cost, against the baseline. By the *finishing* time of the
//! operations.
//!
//! A dip reaches from the injection to sustained recovery and on until the 5 s mean is back at T, but
//! at most 60 s on: the last stretch of a climb is lost work too, yet a database that stays a
//! little slower for hours has another problem than a dip, and noise around T must not add up.

use super::recovery::enough;
use super::window::{Window, second_of};
use crate::recording::{Second, WorkloadRecording};
use crate::report::data::{Baseline, Dip, Recovery};
use crate::scenario::Measures;

/// Seconds on each side of a centred 5 s mean.
const HALF: usize = 2;
/// Share of T under which the mean counts as within the dip.
const DURATION_SHARE: f64 = 0.95;
/// Longest tail after sustained recovery, in seconds.
const TAIL: usize = 60;
/// Dips with fewer seconds than this between them are one.
const MERGE: usize = 2;

/// Measures the dip of one workload by one fault. Formulas: `docs/measures.md`, "Dip".
#[must_use]
pub fn measure(
    work: &WorkloadRecording,
    window: &Window,
    baseline: &Baseline,
    recovery: &Recovery,
    measures: &Measures,
) -> Dip {
    let t = baseline.throughput_ops_s;
    let rows = &work.seconds[..window.seconds().end.min(work.seconds.len())];
    let start = second_of(window.injected_s).min(rows.len());
    let recovered = recovery
        .sustained_s
        .map_or(rows.len(), |s| second_of(window.effective_s + s).clamp(start, rows.len()));
    let last = (recovered + TAIL).min(rows.len());
    let end = (recovered..last).find(|i| mean_at(rows, *i) >= t).unwrap_or(last);
    // Catching up starts where the dip ends.
    let caught_up = (end..last).find(|i| mean_at(rows, *i) <= t).unwrap_or(last);
    let means: Vec<f64> = (start..end).map(|i| mean_at(rows, i)).collect();
    let lowest = means.iter().copied().fold(t, f64::min);
    let area_ops: f64 = rows[start..end].iter().map(|s| (t - s.ok as f64).max(0.0)).sum();
    Dip {
        depth: 1.0 - lowest / t,
        duration_s: means.iter().filter(|s| **s < DURATION_SHARE * t).count() as f64,
        area_ops,
        equivalent_outage_s: area_ops / t,
        overshoot_ops: rows[start..caught_up].iter().map(|s| (s.ok as f64 - t).max(0.0)).sum(),
        count: count(&rows[start..recovered], enough(measures.sustained_throughput * t, 1)),
    }
}

/// S: mean of the five seconds around this one, of those that there are.
fn mean_at(rows: &[Second], at: usize) -> f64 {
    let around = &rows[at.saturating_sub(HALF)..(at + HALF + 1).min(rows.len())];
    around.iter().map(|s| s.ok).sum::<u64>() as f64 / around.len() as f64
}

/// Separate times below the threshold of recovery, by single seconds: a spell of good seconds between
/// two of them that was too short for the hold is no recovery, but it does part two dips.
fn count(rows: &[Second], threshold: u64) -> u32 {
    let mut dips = 0;
    let mut last_below: Option<usize> = None;
    for (i, _) in rows.iter().enumerate().filter(|(_, s)| s.ok < threshold) {
        if last_below.is_none_or(|last| i - last > MERGE) {
            dips += 1;
        }
        last_below = Some(i);
    }
    dips
}

#[cfg(test)]
mod tests;
