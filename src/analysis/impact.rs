//! What one fault did to one workload: all measures put together, and which workload it hit hardest.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::baseline::{self, GUARD_S, Room};
use super::window::{Window, second_of, whole_seconds};
use super::{dip, outage, pace, recovery};
use crate::recording::WorkloadRecording;
use crate::report::data::{Baseline, Impact, Recovery};
use crate::scenario::Measures;

/// Measures one fault against one workload.
#[must_use]
pub fn measure(work: &WorkloadRecording, window: &Window, room: &Room, measures: &Measures) -> Impact {
    let baseline = baseline::measure(work, room, measures);
    let known = baseline.as_ref();
    let felt = recovery::felt(work, window);
    let outage = outage::measure(work, window, known.ok().and_then(|b| b.p99_us));
    let same_rate = known.map_or_else(|_| window.clone(), |b| comparable(work, window, b));
    let recovery = Recovery {
        first_failure_s: felt.first_failure_s,
        first_success_s: felt.first_success_s,
        ..recovery::measure(work, &same_rate, known.map_err(String::as_str), measures)
    };
    let dip = known.ok().map(|b| dip::measure(work, &same_rate, b, &recovery, measures));
    Impact { baseline: baseline.ok(), outage: Some(outage), recovery: Some(recovery), dip }
}

/// The part of the window in which the intended rate was that of the baseline.
fn comparable(work: &WorkloadRecording, window: &Window, baseline: &Baseline) -> Window {
    let before = second_of(window.injected_s - GUARD_S);
    let before = before.saturating_sub(whole_seconds(baseline.window_s))..before;
    let seconds = window.seconds();
    match pace::same_until(work, before, seconds.start, seconds.end) {
        Some(at_s) => window.until_rate_change(at_s),
        None => window.clone(),
    }
}

/// The workload that suffered most: by its longest hard outage, then by its longest gap, then by its
/// recovery (not reached is worse than late), then by its equivalent outage. The first of equals.
#[must_use]
pub fn worst(impacts: &BTreeMap<String, Impact>) -> Option<(&String, &Impact)> {
    impacts.iter().reduce(|best, next| if suffering(next.1, best.1).is_gt() { next } else { best })
}

fn suffering(a: &Impact, b: &Impact) -> Ordering {
    let by = |of: fn(&Impact) -> f64| of(a).total_cmp(&of(b));
    by(|i| i.outage.as_ref().map_or(0.0, |o| o.hard_s))
        .then_with(|| by(|i| i.outage.as_ref().and_then(|o| o.longest_gap_s).unwrap_or(0.0)))
        .then_with(|| by(|i| i.recovery.as_ref().map_or(0.0, late)))
        .then_with(|| by(|i| i.dip.as_ref().map_or(0.0, |d| d.equivalent_outage_s)))
}

/// How late recovery was. Censored counts as later than any that was reached.
fn late(recovery: &Recovery) -> f64 {
    if recovery.censored { f64::INFINITY } else { recovery.sustained_s.unwrap_or(0.0) }
}

#[cfg(test)]
mod tests;
