//! Measures and verdict: pure functions of a recording, one measure a file. No files, no clock, and
//! nothing of how a recording comes about.
//!
//! What each number means stands in `docs/measures.md`; it must be true.

pub mod baseline;
pub mod coverage;
pub mod dip;
pub mod impact;
pub mod limits;
pub mod migrations;
pub mod outage;
pub mod own_load;
pub mod pace;
pub mod recovery;
pub mod saturation;
pub mod scaling;
pub mod searching;
pub mod stats;
pub mod verdict;
pub mod window;

use std::collections::BTreeMap;

use crate::recording::{FaultOutcome, FaultRecord, Recording, WorkloadRecording};
use crate::report::data::{FaultReport, Impact, OutageKind};
use crate::scenario::Measures;
use baseline::Room;
use window::Window;

/// Measures every planned fault against every workload, in the order of the recording.
#[must_use]
pub fn judge_faults(recording: &Recording, measures: &Measures) -> Vec<FaultReport> {
    let mut impacts: Vec<BTreeMap<String, Impact>> = vec![BTreeMap::new(); recording.faults.len()];
    for work in &recording.workloads {
        for (found, impact) in impacts.iter_mut().zip(judge_workload(recording, work, measures)) {
            found.extend(impact.map(|impact| (work.name.clone(), impact)));
        }
    }
    recording.faults.iter().zip(impacts).map(|(fault, impacts)| fault_report(fault, impacts)).collect()
}

/// All faults against one workload; `None` where a fault was not effective. Measured in the order in which they
/// struck, which is not that of the plan where one had to wait or was triggered.
fn judge_workload(
    recording: &Recording,
    work: &WorkloadRecording,
    measures: &Measures,
) -> Vec<Option<Impact>> {
    let mut quiet = Quiet::default();
    let mut planned_before_s = 0.0;
    let mut found = vec![None; recording.faults.len()];
    let windows = recording.faults.iter().map(|fault| Window::of(fault, recording));
    let mut struck: Vec<_> = windows.enumerate().filter_map(|(i, window)| Some((i, window?))).collect();
    struck.sort_by(|(_, a), (_, b)| a.injected_s.total_cmp(&b.injected_s));
    for (i, window) in struck {
        let fault = &recording.faults[i];
        // What was triggered had no time before it came.
        let planned_s = fault.planned_s.unwrap_or(window.injected_s);
        let room = quiet.room(window.injected_s, planned_s - planned_before_s);
        let effective = fault.outcome == FaultOutcome::Effective;
        let impact = effective.then(|| impact::measure(work, &window, &room, measures));
        quiet.disturb(fault, &window, impact.as_ref());
        planned_before_s = planned_s;
        found[i] = impact;
    }
    found
}

/// From when on one workload was left alone.
#[derive(Default)]
struct Quiet {
    from_s: f64,
    after: Option<String>,
    unrecovered: Option<String>,
}

impl Quiet {
    fn room(&self, injected_s: f64, planned_distance_s: f64) -> Room {
        Room {
            from_s: self.from_s,
            after: self.after.clone(),
            unrecovered: self.unrecovered.clone(),
            injected_s,
            planned_distance_s,
        }
    }

    /// Takes note of a fault. It disturbs until it was lifted and service had recovered. Where it had
    /// not, the time after the lifting is used, but marked: a tail may hide in it.
    fn disturb(&mut self, fault: &FaultRecord, window: &Window, impact: Option<&Impact>) {
        let recovery = impact.and_then(|i| i.recovery.as_ref());
        let sustained = recovery.and_then(|r| r.sustained_s).map(|s| window.effective_s + s);
        let over = match (fault.outcome, sustained) {
            // Service was back although the fault stayed: that is the normal operation from now on.
            (_, Some(at)) => at.max(fault.lifted_s.unwrap_or(at)),
            // Nothing was seen of it, so nothing is waited for.
            (FaultOutcome::NotEffective, None) => fault.lifted_s.unwrap_or(window.injected_s),
            (_, None) => fault.lifted_s.unwrap_or(f64::INFINITY).max(last_hard_outage(impact)),
        };
        // Of two faults that overlap, the later end counts.
        if over >= self.from_s {
            self.from_s = over;
            self.after = Some(fault.id.clone());
        }
        match recovery {
            Some(r) if r.censored => self.unrecovered = Some(fault.id.clone()),
            Some(r) if r.sustained_s.is_some() => self.unrecovered = None,
            // It could not be judged, so what was known before still holds.
            _ => {}
        }
    }
}

/// End of the last hard outage; 0: none.
fn last_hard_outage(impact: Option<&Impact>) -> f64 {
    let windows = impact.and_then(|i| i.outage.as_ref()).map_or(&[][..], |o| &o.windows);
    windows.iter().filter(|w| w.kind == OutageKind::Hard).map(|w| w.to_s).fold(0.0, f64::max)
}

fn fault_report(fault: &FaultRecord, workloads: BTreeMap<String, Impact>) -> FaultReport {
    let worst = impact::worst(&workloads);
    let workload = worst.map(|(name, _)| name.clone());
    let Impact { baseline, outage, recovery, dip } = worst.map(|(_, i)| i.clone()).unwrap_or_default();
    FaultReport {
        id: fault.id.clone(),
        kind: fault.spec.kind().into(),
        target: fault.spec.target().to_string(),
        node: (!fault.nodes.is_empty()).then(|| fault.nodes.join(", ")),
        planned_s: fault.planned_s,
        injected_s: fault.injected_s,
        effective_s: fault.effective_s,
        lifted_s: fault.lifted_s,
        outcome: fault.outcome,
        reason: fault.reason.clone(),
        evidence: fault.evidence.clone(),
        workload,
        baseline,
        outage,
        recovery,
        dip,
        workloads,
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
