//! Normal operation before a fault: throughput T, latency P, and whether they can be trusted.
//!
//! The window is as long as `measures.baseline` allows, ends 5 s before the injection, and starts no
//! earlier than the fault before was over (lifted, and service recovered), nor than the last change of
//! the workload's rate.
//!
//! How short may it be? 20 s, but a short scenario cannot always give that: with less than 60 s from
//! one planned fault to the next (or from the start to the first), the fault, its recovery and the
//! guard of 5 s leave no 20 s, and it would be wrong to punish the database for the plan. Then 5 s are
//! enough. The same holds when `measures.baseline` itself is shorter. Under 5 s there is no baseline.

use std::ops::Range;

use super::window::{second_of, whole_seconds};
use super::{pace, stats};
use crate::recording::{Second, WorkloadRecording};
use crate::report::data::Baseline;
use crate::scenario::Measures;

/// Time before the injection that is left out: what prepares a fault must not count as normal.
pub const GUARD_S: f64 = 5.0;
/// Fewer usable seconds than this give no baseline at all.
const SHORTEST: usize = 5;
/// Fewer than this do not carry a verdict, unless the plan allowed no more.
const SHORTEST_STEADY: usize = 20;
/// Planned distance under which 20 s cannot be asked for, in seconds.
const CLOSE_TOGETHER_S: f64 = 60.0;
/// Largest drift over the window, as a share of T.
const DRIFT_SHARE: f64 = 0.05;
/// In windows shorter than this, in seconds, the drift must also stand out of the noise: a slope
/// through few scattered points is mostly noise.
const SHORT_WINDOW: usize = 60;
/// A drift stands out when it is this many of its standard errors. Of 7 s windows without any drift 2 %
/// are then called drifting, of longer ones fewer.
const DRIFT_ERRORS: f64 = 3.5;
/// Largest spread, as a share of T.
const SPREAD_SHARE: f64 = 0.2;
/// Largest share of failed and unknown operations.
pub const ERROR_SHARE: f64 = 0.001;
/// Below this rate a median of whole numbers is too coarse (2.5/s would be 2 or 3): T is the mean.
const COARSE_OPS_S: f64 = 10.0;

/// The room that a baseline has.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// From when on nothing disturbs any more; infinite: the fault before is still in force.
    pub from_s: f64,
    /// The fault whose end that is; `None`: the start of the measured phase.
    pub after: Option<String>,
    /// A fault from which service had not recovered when the next one came, if there is one.
    pub unrecovered: Option<String>,
    /// Injection of the fault that the baseline is for.
    pub injected_s: f64,
    /// Planned distance from the fault before, or from the start, in seconds.
    pub planned_distance_s: f64,
}

/// Measures the baseline of one workload before one fault. Formulas: `docs/measures.md`, "Baseline".
///
/// # Errors
/// Why there is none, in words that follow "no baseline: ".
pub fn measure(work: &WorkloadRecording, room: &Room, measures: &Measures) -> Result<Baseline, String> {
    let range = usable(work, room, measures)?;
    let rows = &work.seconds[range.clone()];
    let ok: Vec<f64> = rows.iter().map(|s| s.ok as f64).collect();
    let throughput = typical(&ok);
    if throughput <= 0.0 {
        return Err("nothing was acknowledged before the fault".into());
    }
    let error_share = error_share(rows);
    let because = unsteady(&ok, throughput, error_share)
        .or_else(|| too_short(rows.len(), room, measures))
        .or_else(|| unrecovered(room));
    Ok(Baseline {
        throughput_ops_s: throughput,
        p99_us: typical_p99(work, range),
        window_s: rows.len() as f64,
        error_share,
        steady: because.is_none(),
        unsteady_because: because,
    })
}

/// Whole seconds that may be used.
fn usable(work: &WorkloadRecording, room: &Room, measures: &Measures) -> Result<Range<usize>, String> {
    let whose = room.after.as_deref().unwrap_or_default();
    if room.from_s.is_infinite() {
        return Err(format!("{whose} was still in force"));
    }
    let end = second_of(room.injected_s - GUARD_S).min(work.seconds.len());
    let longest = whole_seconds(measures.baseline.as_secs_f64()).max(SHORTEST);
    let same_rate = pace::same_since(work, end);
    let start = (room.from_s.ceil() as usize).max(end.saturating_sub(longest)).max(same_rate);
    if end < start + SHORTEST {
        let between = match &room.after {
            Some(id) => format!("between the end of {id} and the fault"),
            None => "before the fault".into(),
        };
        let (from_s, between) = match same_rate as f64 {
            changed if changed > room.from_s => {
                (changed, "between a change of the rate and the fault".into())
            }
            _ => (room.from_s, between),
        };
        let seconds = (room.injected_s - from_s).max(0.0);
        return Err(format!("only {seconds:.0} s {between}, {} are needed", SHORTEST as f64 + GUARD_S));
    }
    Ok(start..end)
}

/// T: median of the operations per second.
fn typical(ok: &[f64]) -> f64 {
    match stats::median(ok) {
        Some(median) if median >= COARSE_OPS_S => median,
        _ => stats::mean(ok).unwrap_or(0.0),
    }
}

/// P: median of the 10 s p99s that lie in the window; of the 5 s ones when it is too short for that.
fn typical_p99(work: &WorkloadRecording, range: Range<usize>) -> Option<u64> {
    let over = |seconds: usize, of: fn(&Second) -> Option<u64>| {
        let first = (range.start + seconds - 1).min(range.end);
        let values: Vec<f64> =
            work.seconds[first..range.end].iter().filter_map(of).map(|us| us as f64).collect();
        stats::median(&values).map(|us| us.round() as u64)
    };
    over(10, |s| s.p99_10s_us).or_else(|| over(5, |s| s.p99_5s_us))
}

fn error_share(rows: &[Second]) -> f64 {
    let bad: u64 = rows.iter().map(|s| s.failed + s.unknown).sum();
    let ok: u64 = rows.iter().map(|s| s.ok).sum();
    if bad == 0 { 0.0 } else { bad as f64 / (bad + ok) as f64 }
}

/// Why throughput or errors were not steady.
fn unsteady(ok: &[f64], t: f64, error_share: f64) -> Option<String> {
    let sigma = stats::mad_sigma(ok, t).unwrap_or(0.0);
    let (drift, error) = stats::drift(ok).unwrap_or_default();
    let noise = if ok.len() < SHORT_WINDOW { DRIFT_ERRORS * error } else { 0.0 };
    if error_share > ERROR_SHARE {
        return Some(format!("{:.2} % of the operations failed", 100.0 * error_share));
    }
    // Counting noise: n operations a second scatter by sqrt(n) although nothing is wrong.
    if sigma > (SPREAD_SHARE * t).max(t.sqrt()) {
        return Some(format!("throughput scattered by {:.0} %", 100.0 * sigma / t));
    }
    if drift.abs() > (DRIFT_SHARE * t).max(noise) {
        return Some(format!("throughput drifted by {:+.0} % over {} s", 100.0 * drift / t, ok.len()));
    }
    None
}

fn too_short(seconds: usize, room: &Room, measures: &Measures) -> Option<String> {
    let asked = whole_seconds(measures.baseline.as_secs_f64());
    let excused = room.planned_distance_s < CLOSE_TOGETHER_S || seconds >= asked;
    (seconds < SHORTEST_STEADY && !excused).then(|| format!("only {seconds} s of baseline"))
}

fn unrecovered(room: &Room) -> Option<String> {
    room.unrecovered.as_ref().map(|id| format!("service had not recovered from {id}"))
}

#[cfg(test)]
mod tests;
