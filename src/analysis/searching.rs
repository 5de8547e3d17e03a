//! What a search for the highest rate came to: the same question again that the run had asked.

use crate::exit::Outcome;
use crate::recording::Recording;
use crate::report::data::Reason;
use crate::report::per_second;
use crate::report::scaling::{FindMaxReport, ProbeReport};
use crate::scenario::FindMax;
use crate::search::{self, Finding, Next};

/// Judges a search by its probes.
#[must_use]
pub fn find_max(recording: &Recording, search: &FindMax) -> FindMaxReport {
    let probes = &recording.probes;
    let (rate_ops_s, at_least_ops_s, why) = match search::next(search, probes) {
        Next::Found(rate) => (Some(rate), None, None),
        Next::Open { at_least, why } => (None, at_least, Some(why)),
        Next::Probe(rate) => {
            let held = highest_held(search, recording);
            (None, held, Some(format!("the run ended before {} was measured", per_second(rate))))
        }
    };
    FindMaxReport {
        workload: search.workload.clone(),
        p99_us: u64::try_from(search.p99.as_micros()).unwrap_or(u64::MAX),
        rate_ops_s,
        at_least_ops_s,
        why,
        probes: (0..probes.len()).map(|index| probe(search, recording, index)).collect(),
    }
}

/// Why there is no answer, as a reason of the verdict.
#[must_use]
pub fn reason(found: &FindMaxReport) -> Option<Reason> {
    let why = found.why.as_ref()?;
    let least =
        found.at_least_ops_s.map_or(String::new(), |rate| format!(" (at least {})", per_second(rate)));
    let text = format!("the highest rate of workload {} was not found{least}: {why}", found.workload);
    Some(Reason { outcome: Outcome::Inconclusive, text })
}

fn probe(search: &FindMax, recording: &Recording, index: usize) -> ProbeReport {
    let (before, probe) = (&recording.probes[..index], &recording.probes[index]);
    let why = match search::finding(search, before, probe) {
        Finding::Holds => None,
        Finding::TooMuch(why) => Some(why),
        Finding::Tester(why) => Some(format!("the tester: {why}")),
    };
    ProbeReport { probe: probe.clone(), holds: why.is_none(), why }
}

/// Below every rate that failed.
fn highest_held(search: &FindMax, recording: &Recording) -> Option<f64> {
    let judged: Vec<ProbeReport> = (0..recording.probes.len()).map(|i| probe(search, recording, i)).collect();
    let failed = judged.iter().filter(|p| !p.holds).map(|p| p.probe.rate_ops_s).fold(f64::INFINITY, f64::min);
    let held = judged.iter().filter(|p| p.holds).map(|p| p.probe.rate_ops_s);
    held.filter(|rate| *rate < failed).max_by(f64::total_cmp)
}
