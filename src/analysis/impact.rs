//! What one fault did to one workload: all measures put together, and which workload it hit hardest.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::baseline::{self, Room};
use super::window::Window;
use super::{dip, outage, recovery};
use crate::recording::WorkloadRecording;
use crate::report::data::{Impact, Recovery};
use crate::scenario::Measures;

/// Measures one fault against one workload.
#[must_use]
pub fn measure(work: &WorkloadRecording, window: &Window, room: &Room, measures: &Measures) -> Impact {
    let baseline = baseline::measure(work, room, measures);
    let known = baseline.as_ref();
    let outage = outage::measure(work, window, known.ok().and_then(|b| b.p99_us));
    let recovery = recovery::measure(work, window, known.map_err(String::as_str), measures);
    let dip = known.ok().map(|b| dip::measure(work, window, b, &recovery, measures));
    Impact { baseline: baseline.ok(), outage: Some(outage), recovery: Some(recovery), dip }
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
