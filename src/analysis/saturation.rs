//! Whether the load generator, and not the database, was the limit. Such a run carries no verdict.
//!
//! A wrong alarm costs trust as well: on a busy machine single sends are late, and single seconds miss an
//! arrival. So 1 % of them may, and two seconds in any case.

use super::window::{second_of, whole_seconds};
use crate::recording::{Recording, Second, WorkloadRecording};
use crate::report::data::FaultReport;
use crate::search::{CPU_SHARE, LATE_SHARE};

/// Seconds with missed arrivals that any run may have.
const FREE_SECONDS: usize = 2;
/// With a p99 of the service time over this, in microseconds, the server did not answer normally, so
/// arrivals that found no worker are its doing.
const ANSWERS_US: u64 = 1_000_000;

/// What the tester used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// CPU seconds of the process in the measured phase, user and system.
    pub cpu_s: f64,
    /// Cores that it may use.
    pub cores: f64,
}

/// Why the generator was saturated; `None`: it was not. Formulas: `docs/measures.md`, "Saturation".
#[must_use]
pub fn check(recording: &Recording, faults: &[FaultReport], used: Used) -> Option<String> {
    let works = || recording.workloads.iter().filter(|w| w.rate_ops_s.is_some());
    cpu(recording, used)
        .or_else(|| works().find_map(|w| late(rows(recording, w), &w.name)))
        .or_else(|| works().find_map(|w| missed(recording, w, faults)))
}

fn rows<'a>(recording: &Recording, work: &'a WorkloadRecording) -> &'a [Second] {
    &work.seconds[..whole_seconds(recording.duration_s).min(work.seconds.len())]
}

/// Seconds of a run that may miss arrivals.
pub(super) fn allowed(seconds: usize) -> usize {
    (seconds / 100).max(FREE_SECONDS)
}

fn cpu(recording: &Recording, used: Used) -> Option<String> {
    let share = used.cpu_s / (recording.duration_s * used.cores);
    // Without cores or duration the share is no number, and no evidence either.
    (share.is_finite() && share > CPU_SHARE).then(|| {
        format!(
            "the tester used {:.0} % of its {} cores (at most {:.0} %): fewer workers, a lower rate or a larger machine",
            100.0 * share,
            used.cores,
            100.0 * CPU_SHARE
        )
    })
}

/// The p99 of (send - intended start, with a free worker) is over 10 ms when more than 1 % of the sends are.
fn late(rows: &[Second], workload: &str) -> Option<String> {
    let late: u64 = rows.iter().map(|s| s.late_starts).sum();
    let sent: u64 = rows.iter().map(|s| s.ok + s.failed + s.unknown).sum();
    let share = late as f64 / sent.max(1) as f64;
    (share > LATE_SHARE).then(|| {
        format!(
            "workload {workload}: {:.1} % of the operations were sent over 10 ms late although a worker was free",
            100.0 * share
        )
    })
}

/// Arrivals without a free worker in seconds without a fault in which the server answered.
fn missed(recording: &Recording, work: &WorkloadRecording, faults: &[FaultReport]) -> Option<String> {
    let rows = rows(recording, work);
    let disturbed = disturbed(&work.name, faults, rows.len());
    let quiet = rows.iter().zip(disturbed).filter(|(_, disturbed)| !disturbed).map(|(s, _)| s);
    let answers = |s: &&Second| s.ok > 0 && s.service_p99_us.is_some_and(|us| us <= ANSWERS_US);
    let found: Vec<&Second> = quiet.filter(|s| s.missed > 0).filter(answers).collect();
    let missed: u64 = found.iter().map(|s| s.missed).sum();
    (found.len() > allowed(rows.len())).then(|| {
        format!(
            "workload {}: {missed} arrivals in {} s without a fault found no free worker: more workers, or a lower rate",
            work.name,
            found.len()
        )
    })
}

/// Which seconds lie between an injection and the end of what it did: sustained recovery and lifting,
/// or the next injection, or the end.
fn disturbed(workload: &str, faults: &[FaultReport], seconds: usize) -> Vec<bool> {
    let mut disturbed = vec![false; seconds];
    let injections: Vec<f64> = faults.iter().filter_map(|f| f.injected_s).collect();
    for fault in faults {
        let Some(injected) = fault.injected_s else { continue };
        let next = injections.iter().copied().filter(|at| *at > injected).fold(f64::INFINITY, f64::min);
        let recovery = fault.workloads.get(workload).and_then(|i| i.recovery.as_ref());
        let recovered = recovery
            .and_then(|r| r.sustained_s)
            .map(|s| fault.effective_s.unwrap_or(injected) + s)
            .map_or(next, |at| at.max(fault.lifted_s.unwrap_or(at)));
        let end = recovered.min(seconds as f64).ceil() as usize;
        for second in disturbed.iter_mut().take(end).skip(second_of(injected)) {
            *second = true;
        }
    }
    disturbed
}

#[cfg(test)]
mod tests;
