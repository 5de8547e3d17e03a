//! The search for the highest rate that holds a latency limit, without any time or load in it: from the probes
//! so far to the next one. The run asks it what to do, and the report what it came to, so both agree.
//!
//! Rates double from the lowest until one fails, then the gap is halved until it is small; the rate that is
//! found must hold twice. A rate that failed counts as failed from then on, also when it had held before: noise
//! makes the search more careful, never more confident.

mod probe;

use crate::recording::Probe;
use crate::scenario::{FindMax, MOST_PROBES};

pub use probe::{CPU_SHARE, Finding, GROWN, LATE_SHARE, LEAST_SHARE, finding};

/// Rates that held once and failed at another time. More of them, and the measurement is no ground to stand on.
const MOST_CONTRADICTIONS: usize = 3;

/// What the search comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Not over: measure this rate, in operations per second.
    Probe(f64),
    /// This rate held twice, and one that is hardly higher failed.
    Found(f64),
    /// No answer, and why. The rate is the highest one that held and was not contradicted.
    Open {
        /// At least this much, if anything held.
        at_least: Option<f64>,
        /// Why there is no more, for people.
        why: String,
    },
}

/// What comes after these probes.
#[must_use]
pub fn next(search: &FindMax, probes: &[Probe]) -> Next {
    let found: Vec<(f64, Finding)> =
        probes.iter().enumerate().map(|(i, p)| (p.rate_ops_s, finding(search, &probes[..i], p))).collect();
    let lowest_failed = found
        .iter()
        .filter(|(_, finding)| matches!(finding, Finding::TooMuch(_)))
        .map(|(rate, _)| *rate)
        .fold(f64::INFINITY, f64::min);
    let held: Vec<f64> = found.iter().filter(|(_, f)| *f == Finding::Holds).map(|(rate, _)| *rate).collect();
    let best = held.iter().copied().filter(|rate| *rate < lowest_failed).max_by(f64::total_cmp);
    let open = |why: String| Next::Open { at_least: best, why };
    if let Some((rate, Finding::Tester(why))) = found.last() {
        return open(format!("at {rate:.0}/s the tester itself is the limit: {why}"));
    }
    let contradicted = held.iter().filter(|rate| **rate >= lowest_failed).count();
    if contradicted > MOST_CONTRADICTIONS {
        return open(format!(
            "the measurements contradict each other: {contradicted} times a rate held that is not below one that failed"
        ));
    }
    if probes.len() >= MOST_PROBES as usize {
        return open(format!("no answer after {MOST_PROBES} probes"));
    }
    match best {
        None if lowest_failed <= search.from_ops_s => open(format!(
            "even the lowest rate, {:.0}/s, does not hold the limit: lower `from`",
            search.from_ops_s
        )),
        None if lowest_failed.is_finite() => Next::Probe((lowest_failed / 2.0).max(search.from_ops_s)),
        None => Next::Probe(search.from_ops_s),
        Some(best) if lowest_failed.is_infinite() && best >= search.to_ops_s => {
            open(format!("the highest rate, {:.0}/s, still holds the limit: raise `to`", search.to_ops_s))
        }
        Some(best) if lowest_failed.is_infinite() => Next::Probe((2.0 * best).min(search.to_ops_s)),
        Some(best) => between(search, best, lowest_failed, &held),
    }
}

/// Halves the gap, or confirms the lower end of a gap that is small.
fn between(search: &FindMax, best: f64, lowest_failed: f64, held: &[f64]) -> Next {
    let middle = f64::midpoint(best, lowest_failed).round();
    let narrow = lowest_failed - best <= search.precision * lowest_failed;
    if !narrow && best < middle && middle < lowest_failed {
        return Next::Probe(middle);
    }
    #[expect(clippy::float_cmp, reason = "the same number again, not one that was computed anew")]
    let times = held.iter().filter(|rate| **rate == best).count();
    if times >= 2 { Next::Found(best) } else { Next::Probe(best) }
}

#[cfg(test)]
mod tests;
