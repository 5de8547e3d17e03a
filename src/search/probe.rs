//! What one probe says.

use crate::recording::Probe;
use crate::scenario::FindMax;

/// Largest share of its processors that the tester may use.
pub const CPU_SHARE: f64 = 0.85;
/// Share of the sends that may be over 10 ms late although a worker was free.
pub const LATE_SHARE: f64 = 0.01;
/// The server was busier than at its best when its mean service time is this many times as long. Then workers are
/// missing because of the server: with all of them busy, it does this many times less than they could send.
pub const GROWN: f64 = 1.5;
/// Share of failed and unknown operations that holds.
const ERROR_SHARE: f64 = 0.001;
/// Share of the operations that must have come back in time; what is still on its way makes up the rest.
pub const LEAST_SHARE: f64 = 0.95;

/// What one probe says.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The limit holds, nothing was missed, hardly anything failed.
    Holds,
    /// It does not, and the server is the reason. For people.
    TooMuch(String),
    /// It does not, or says nothing, because of the tester itself. For people.
    Tester(String),
}

/// Judges a probe; `before` are the earlier ones, which tell how fast the server is at its best.
#[must_use]
pub fn finding(search: &FindMax, before: &[Probe], probe: &Probe) -> Finding {
    let sent = probe.ok + probe.not_ok;
    let share = |part: u64| part as f64 / sent.max(1) as f64;
    if probe.cpu_share > CPU_SHARE {
        let used = 100.0 * probe.cpu_share;
        return Finding::Tester(format!(
            "it used {used:.0} % of its processors: take a larger or a second machine"
        ));
    }
    if share(probe.late_starts) > LATE_SHARE {
        let late = 100.0 * share(probe.late_starts);
        return Finding::Tester(format!(
            "{late:.1} % of the operations were sent over 10 ms late although a worker was free: free processors, or \
             take a second machine"
        ));
    }
    let Some(why) = trouble(search, probe) else { return Finding::Holds };
    if workers_are_the_limit(search, before, probe) {
        return Finding::Tester(format!("{why}, but the server answers as fast as ever: more workers"));
    }
    Finding::TooMuch(why)
}

/// Why the limit does not hold; `None`: it does.
fn trouble(search: &FindMax, probe: &Probe) -> Option<String> {
    let seconds = probe.to_s.saturating_sub(probe.from_s) as f64;
    let intended = probe.rate_ops_s * seconds;
    let sent = probe.ok + probe.not_ok;
    let limit_us = search.p99.as_micros();
    let p99_us = probe.p99_us.map_or(u128::MAX, u128::from);
    if probe.missed > 0 {
        Some(format!("{} arrivals found no free worker within a second", probe.missed))
    } else if probe.not_ok as f64 > ERROR_SHARE * sent as f64 {
        Some(format!("{} of {sent} operations failed", probe.not_ok))
    } else if (probe.ok as f64) < LEAST_SHARE * intended {
        Some(format!("{} of {intended:.0} operations came back", probe.ok))
    } else if p99_us > limit_us {
        Some(format!("p99 {:.1} ms", p99_us as f64 / 1e3))
    } else {
        None
    }
}

/// Operations wait for workers while the server is as fast as it ever was.
fn workers_are_the_limit(search: &FindMax, before: &[Probe], probe: &Probe) -> bool {
    let within = probe.service_p99_us.is_some_and(|us| u128::from(us) <= search.p99.as_micros());
    let errors = probe.not_ok as f64 > ERROR_SHARE * (probe.ok + probe.not_ok) as f64;
    let best = before.iter().filter_map(|p| p.service_mean_us).fold(f64::INFINITY, f64::min);
    within && !errors && probe.service_mean_us.is_some_and(|mean| mean < GROWN * best)
}
