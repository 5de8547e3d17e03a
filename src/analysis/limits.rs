//! The limits of the scenario against what was measured.
//!
//! A limit on faults is judged over every effective fault and every workload, not only over the
//! workload that a fault's own numbers come from. A limit that could not be measured is neither held
//! nor broken: `ok` is `None`.

use std::time::Duration;

use crate::recording::{FaultOutcome, Gap, Pace, Piece, WorkloadRecording};
use crate::report::data::{FaultReport, Impact, Ledger, LimitResult, WorkloadReport};
use crate::scenario::Limits;

/// Shortest gap between successes that a recording holds, in seconds.
const SHORTEST_GAP_S: f64 = 0.1;
/// Silence of this length in a rate that changes may be a pause that somebody wanted, in seconds.
const PAUSE_S: f64 = 10.0;
/// A gap that is open at the end for this long means that service was down, in seconds.
const DOWN_S: f64 = 1.0;

/// What one fault did to one workload, as far as a limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// This much.
    Value(f64),
    /// This much, and it was not over when the observation was.
    AtLeast(f64),
    /// There is a number, but it does not carry a verdict.
    Unsure(f64),
    /// Could not be measured.
    Missing,
}

impl Measured {
    fn ok(self, limit: f64) -> Option<bool> {
        match self {
            Self::Value(v) => Some(v <= limit),
            Self::AtLeast(v) if v >= limit => Some(false),
            Self::AtLeast(_) | Self::Unsure(_) | Self::Missing => None,
        }
    }

    const fn number(self) -> Option<f64> {
        match self {
            Self::Value(v) | Self::AtLeast(v) | Self::Unsure(v) => Some(v),
            Self::Missing => None,
        }
    }
}

/// A measure of faults that a limit may be set on; all in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMeasure {
    /// Sustained recovery, from the effect.
    SustainedRecovery,
    /// Longest hard outage.
    HardOutage,
    /// Longest time between two successes.
    LongestGap,
}

impl FaultMeasure {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 3] = [Self::SustainedRecovery, Self::HardOutage, Self::LongestGap];

    /// Key in the scenario.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SustainedRecovery => "sustained_recovery",
            Self::HardOutage => "hard_outage",
            Self::LongestGap => "longest_gap",
        }
    }

    /// What it is called in a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::SustainedRecovery => "sustained recovery",
            Self::HardOutage => "hard outage",
            Self::LongestGap => "longest gap between two successes",
        }
    }

    const fn limit(self, limits: &Limits) -> Option<Duration> {
        match self {
            Self::SustainedRecovery => limits.sustained_recovery,
            Self::HardOutage => limits.hard_outage,
            Self::LongestGap => limits.longest_gap,
        }
    }

    /// Its value in one impact. The limit matters only where it is finer than the recording.
    #[must_use]
    pub fn of(self, impact: &Impact, limit: f64) -> Measured {
        match self {
            Self::SustainedRecovery => sustained(impact),
            Self::HardOutage => match &impact.outage {
                Some(o) if down_at_the_end(impact) => Measured::AtLeast(o.hard_s),
                Some(o) => Measured::Value(o.hard_s),
                None => Measured::Missing,
            },
            Self::LongestGap => match impact.outage.as_ref().map(|o| o.longest_gap_s) {
                Some(Some(gap)) if down_at_the_end(impact) => Measured::AtLeast(gap),
                Some(Some(gap)) => Measured::Value(gap),
                Some(None) if limit >= SHORTEST_GAP_S => Measured::Value(0.0),
                _ => Measured::Missing,
            },
        }
    }
}

fn sustained(impact: &Impact) -> Measured {
    let steady = impact.baseline.as_ref().is_some_and(|b| b.steady);
    match &impact.recovery {
        Some(r) if r.censored => match (steady, r.not_before_s) {
            (true, Some(at)) => Measured::AtLeast(at),
            (false, Some(at)) => Measured::Unsure(at),
            (_, None) => Measured::Missing,
        },
        Some(r) => match (steady, r.sustained_s) {
            (true, Some(at)) => Measured::Value(at),
            (false, Some(at)) => Measured::Unsure(at),
            (_, None) => Measured::Missing,
        },
        None => Measured::Missing,
    }
}

/// Whether the longest gap was still open when the observation ended, so that every length of an
/// outage is only a lower bound. Under a second it is the ordinary time since the last success.
fn down_at_the_end(impact: &Impact) -> bool {
    let gap = impact.outage.as_ref().and_then(|o| o.longest_gap_s).unwrap_or(0.0);
    gap >= DOWN_S && impact.recovery.as_ref().is_some_and(|r| r.first_success_s.is_none())
}

/// Where a measure was worst.
#[derive(Clone, Copy, Debug)]
pub struct Worst<'a> {
    /// The fault.
    pub fault: &'a FaultReport,
    /// The workload.
    pub workload: &'a str,
    /// What it did to it.
    pub impact: &'a Impact,
    /// In terms of the measure.
    pub measured: Measured,
}

/// The effective fault and workload that decide about a limit: one that breaks it, else one that could
/// not be measured, else the one that came closest; of equals the one with the largest number. `None`:
/// no fault took effect.
#[must_use]
pub fn worst<'a>(faults: &'a [FaultReport], measure: FaultMeasure, limit: f64) -> Option<Worst<'a>> {
    let effective = faults.iter().filter(|f| f.outcome == FaultOutcome::Effective);
    let all = effective.flat_map(|fault| {
        fault.workloads.iter().map(move |(workload, impact)| {
            let measured = measure.of(impact, limit);
            Worst { fault, workload, impact, measured }
        })
    });
    let rank = |w: &Worst<'_>| match w.measured.ok(limit) {
        Some(false) => 2,
        None => 1,
        Some(true) => 0,
    };
    let key = |w: &Worst<'_>| (rank(w), w.measured.number().unwrap_or(-1.0));
    all.reduce(|best, next| if key(&next) > key(&best) { next } else { best })
}

/// Evaluates every limit that the scenario sets. `ledger`: `None` when the data was not verified.
#[must_use]
pub fn evaluate(
    limits: &Limits,
    faults: &[FaultReport],
    workloads: &[WorkloadReport],
    ledger: Option<&Ledger>,
) -> Vec<LimitResult> {
    let of_faults = FaultMeasure::ALL.iter().filter_map(|measure| {
        let limit = measure.limit(limits)?.as_secs_f64();
        Some(match measure {
            FaultMeasure::LongestGap if faults.is_empty() => of_run_gap(limit, workloads),
            measure => of_fault(*measure, limit, faults),
        })
    });
    let of_ledger = [
        ("lost_majority_writes", limits.lost_majority_writes, ledger.map(|l| l.lost)),
        ("lost_permitted_writes", limits.lost_permitted_writes, ledger.map(|l| l.lost_permitted)),
    ];
    let of_ledger =
        of_ledger.into_iter().filter_map(|(name, limit, lost)| Some(of_writes(name, limit?, lost, ledger)));
    let p99 = limits.p99.iter().map(|(name, limit)| of_p99(name, limit.as_secs_f64(), workloads));
    let errors = limits.error_share.iter().map(|(name, limit)| of_errors(name, *limit, workloads));
    let effective = limits.min_effective_faults.map(|limit| of_effective(limit, faults));
    of_faults.chain(of_ledger).chain(p99).chain(errors).chain(effective).collect()
}

fn of_fault(measure: FaultMeasure, limit: f64, faults: &[FaultReport]) -> LimitResult {
    let worst = worst(faults, measure, limit);
    LimitResult {
        name: measure.name().into(),
        limit,
        value: worst.and_then(|w| w.measured.number()),
        unit: "s".into(),
        ok: worst.and_then(|w| w.measured.ok(limit)),
        at: worst.map(|w| w.fault.id.clone()),
    }
}

/// Without planned faults (a chaos step of somebody else's) the whole run is looked at.
fn of_run_gap(limit: f64, workloads: &[WorkloadReport]) -> LimitResult {
    let worst = workloads
        .iter()
        .max_by(|a, b| a.longest_gap_s.unwrap_or(0.0).total_cmp(&b.longest_gap_s.unwrap_or(0.0)));
    let served = workloads.iter().all(|w| w.ok > 0);
    let value = worst.filter(|_| served).map(|w| w.longest_gap_s.unwrap_or(0.0));
    LimitResult {
        name: FaultMeasure::LongestGap.name().into(),
        limit,
        value,
        unit: "s".into(),
        // Shorter gaps are not recorded.
        ok: value.filter(|gap| *gap > 0.0 || limit >= SHORTEST_GAP_S).map(|gap| gap <= limit),
        at: worst.map(|w| w.name.clone()),
    }
}

/// Longest time between two successes of the run, in seconds; `None`: none was recorded. Where the rate was
/// changed, a gap that begins with a pause counts from the first arrival in it: nobody asked before.
#[must_use]
pub fn longest_gap(work: &WorkloadRecording) -> Option<f64> {
    let counted = |gap: &Gap| gap.to_s - asked_from(work, gap);
    work.gaps.iter().map(counted).filter(|s| *s > 0.0).max_by(f64::total_cmp)
}

/// Takes the verdict back from a broken limit on the longest gap of the run where an outage ran into a pause of
/// the rate: nobody knows whether service was away during the pause too.
pub fn doubt_pauses(limits: &mut [LimitResult], workloads: &[WorkloadRecording]) {
    let name = FaultMeasure::LongestGap.name();
    for result in limits.iter_mut().filter(|l| l.name == name && l.ok == Some(false)) {
        let surely = |work: &WorkloadRecording| work.gaps.iter().any(|g| asked_for(work, g) > result.limit);
        if !workloads.iter().any(surely) {
            result.ok = None;
        }
    }
}

/// Pieces of time in a gap in which arrivals were intended.
fn asked<'a>(work: &'a WorkloadRecording, gap: &'a Gap) -> impl Iterator<Item = &'a Piece> {
    work.availability
        .iter()
        .filter(|p| p.scheduled > 0 && p.from_s + p.width_s > gap.from_s && p.from_s < gap.to_s)
}

/// When a gap begins to count.
fn asked_from(work: &WorkloadRecording, gap: &Gap) -> f64 {
    if work.pace == Pace::Constant {
        return gap.from_s;
    }
    // The success before the gap lies in a piece that reaches into it. When all of the piece was answered within
    // 1 s and the gap is longer, nobody of it waited.
    let waits = |p: &&Piece| {
        p.from_s >= gap.from_s || p.ok_within[0] < p.scheduled || gap.to_s <= p.from_s + p.width_s + 1.0
    };
    let answered_to_s = asked(work, gap).find(|p| p.from_s < gap.from_s).map(|p| p.from_s + p.width_s);
    let first = asked(work, gap).find(waits).map_or(gap.to_s, |p| p.from_s.max(gap.from_s));
    // Without silence between the two there was no pause.
    if answered_to_s.is_some_and(|to_s| first - to_s < SHORTEST_GAP_S) { gap.from_s } else { first }
}

/// The longest part of a gap that no pause interrupts, in seconds: so long service was surely away.
fn asked_for(work: &WorkloadRecording, gap: &Gap) -> f64 {
    let from_s = asked_from(work, gap);
    if work.pace == Pace::Constant {
        return gap.to_s - from_s;
    }
    let (mut began_s, mut known_s, mut longest_s) = (from_s, from_s, 0.0_f64);
    for piece in asked(work, gap) {
        if piece.from_s - known_s >= PAUSE_S {
            longest_s = longest_s.max(known_s - began_s);
            began_s = piece.from_s;
        }
        known_s = known_s.max((piece.from_s + piece.width_s).min(gap.to_s));
    }
    let end_s = if gap.to_s - known_s >= PAUSE_S { known_s } else { gap.to_s };
    longest_s.max(end_s - began_s)
}

fn of_writes(name: &str, limit: u64, lost: Option<u64>, ledger: Option<&Ledger>) -> LimitResult {
    let complete = ledger.is_some_and(|l| l.unchecked == 0 && l.incomplete_because.is_none());
    LimitResult {
        name: name.into(),
        limit: limit as f64,
        value: lost.map(|n| n as f64),
        unit: "operations".into(),
        // Too many are too many; few enough says something only when all were looked up.
        ok: lost.map(|n| n <= limit).filter(|held| !held || complete),
        at: None,
    }
}

fn of_p99(name: &str, limit: f64, workloads: &[WorkloadReport]) -> LimitResult {
    let work = workloads.iter().find(|w| w.name == name);
    let value = work.and_then(|w| w.response_us.p99).map(|us| us as f64 / 1e6);
    of_workload(format!("p99.{name}"), name, "s", limit, value)
}

fn of_errors(name: &str, limit: f64, workloads: &[WorkloadReport]) -> LimitResult {
    let work = workloads.iter().find(|w| w.name == name);
    let counts = work.map(|w| (w.failed + w.unknown, w.ok + w.failed + w.unknown));
    let value = counts.filter(|(_, all)| *all > 0).map(|(bad, all)| bad as f64 / all as f64);
    of_workload(format!("error_share.{name}"), name, "share", limit, value)
}

fn of_workload(name: String, work: &str, unit: &str, limit: f64, value: Option<f64>) -> LimitResult {
    LimitResult {
        name,
        limit,
        value,
        unit: unit.into(),
        ok: value.map(|v| v <= limit),
        at: Some(work.into()),
    }
}

/// Too few effective faults prove too little, which is no failure of the database: `None`, not false.
fn of_effective(limit: u64, faults: &[FaultReport]) -> LimitResult {
    let count = faults.iter().filter(|f| f.outcome == FaultOutcome::Effective).count() as u64;
    LimitResult {
        name: "min_effective_faults".into(),
        limit: limit as f64,
        value: Some(count as f64),
        unit: "faults".into(),
        ok: (count >= limit).then_some(true),
        at: None,
    }
}

#[cfg(test)]
mod tests;
