//! `[find_max]`: the search for the highest rate that holds a latency limit.

use std::time::Duration;

use toml::de::DeValue;

use super::Workload;
use super::check::Check;
use super::table::Node;
use super::values::{duration, number, positive_duration, rate, text};
use super::words::Names;

const FIND_MAX: Names<'_> =
    Names { what: "key", now: &["workload", "p99", "from", "to", "each", "settle", "precision"], later: &[] };

const DEFAULT_FROM_OPS_S: f64 = 100.0;
const DEFAULT_TO_OPS_S: f64 = 100_000.0;
const DEFAULT_EACH: Duration = Duration::from_secs(10);
const DEFAULT_SETTLE: Duration = Duration::from_secs(3);
const DEFAULT_PRECISION: f64 = 0.05;
/// Probes of one search. Doubling over five decades takes 17, bisection to 1 % takes 7; the rest is for noise.
pub const MOST_PROBES: u32 = 40;
/// Longest pause after a failed probe, until the backlog is gone and the limit holds again.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The search for the highest rate at which the p99 of the response time stays within a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FindMax {
    /// Name of the workload.
    pub workload: String,
    /// Limit on the p99 of the response time, from the intended start.
    pub p99: Duration,
    /// Lowest rate.
    pub from_ops_s: f64,
    /// Highest rate; above the lowest.
    pub to_ops_s: f64,
    /// Measured part of each probe, in whole seconds.
    pub each: Duration,
    /// Start of each probe that is not measured, in whole seconds.
    pub settle: Duration,
    /// The found rate and a rate that failed differ by no more than this share.
    pub precision: f64,
}

impl FindMax {
    /// The search takes no longer, whatever it finds.
    #[must_use]
    pub fn longest(&self) -> Duration {
        (self.settle.saturating_add(self.each).saturating_add(LONGEST_PAUSE)).saturating_mul(MOST_PROBES)
    }

    /// A workload without a rate warms up at the lowest.
    pub(super) fn complete(&self, workload: &mut Workload) {
        workload.rate_ops_s.get_or_insert(self.from_ops_s);
    }
}

/// Reads it.
pub(super) fn read(node: &Node<'_>) -> FindMax {
    let mut search = FindMax {
        workload: String::new(),
        p99: Duration::MAX,
        from_ops_s: DEFAULT_FROM_OPS_S,
        to_ops_s: DEFAULT_TO_OPS_S,
        each: DEFAULT_EACH,
        settle: DEFAULT_SETTLE,
        precision: DEFAULT_PRECISION,
    };
    let Some(table) = node.table(&FIND_MAX) else { return search };
    let share =
        |value: &DeValue<'_>| number(value, |x| (0.01..=0.5).contains(&x), "write a share from 0.01 to 0.5");
    const WORKLOAD: &str = "name the workload whose rate is searched";
    search.workload = table.required("workload", WORKLOAD, text).unwrap_or_default();
    let p99 = table.required("p99", "write the limit, for example p99 = \"10ms\"", positive_duration);
    search.p99 = p99.unwrap_or(search.p99);
    search.from_ops_s = table.optional("from", rate).unwrap_or(search.from_ops_s);
    search.to_ops_s = table.optional("to", rate).unwrap_or(search.to_ops_s);
    search.each = table.optional("each", positive_duration).unwrap_or(search.each);
    search.settle = table.optional("settle", duration).unwrap_or(search.settle);
    search.precision = table.optional("precision", share).unwrap_or(search.precision);
    search
}

/// Books what does not fit together.
pub(super) fn check(check: &Check<'_>, search: &FindMax) {
    check.known_workload("find_max.workload", &search.workload);
    check.whole_seconds("find_max.each", search.each);
    check.whole_seconds("find_max.settle", search.settle);
    if search.from_ops_s >= search.to_ops_s {
        check.refuse(
            "find_max.to",
            &["find_max.from"],
            format!("{}/s is not above the lowest rate, {}/s", search.to_ops_s, search.from_ops_s),
            "write a range, for example from = \"100/s\", to = \"100k/s\"",
        );
    }
    let one_probe = search.settle.saturating_add(search.each);
    if check.scenario.duration < one_probe {
        check.refuse(
            "duration",
            &["find_max.each", "find_max.settle"],
            "is too short for one probe of [find_max]",
            "leave it out: the search ends by itself",
        );
    }
}
