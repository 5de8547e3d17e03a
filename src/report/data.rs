//! The report as data, schema `mongosoak-report/1`. Every number that does not exist is `None`, which
//! is `null` in JSON. Times are seconds from the start of the measured phase unless a name says
//! otherwise.

use std::collections::BTreeMap;

use faults::Evidence;
use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use super::migrations::MigrationReport;
use super::scaling::{FindMaxReport, SweepReport};
use crate::exit::Outcome;
pub use crate::recording::{FaultOutcome, Finding, Ledger};

/// Name and version of the format.
pub const SCHEMA: &str = "mongosoak-report/1";

/// One run, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which run.
    pub run: Run,
    /// Effective settings, as in `manifest.json`.
    pub manifest: serde_json::Value,
    /// What it came to.
    pub verdict: Verdict,
    /// One per workload.
    pub workloads: Vec<WorkloadReport>,
    /// The load before the run; `None` when nothing was loaded.
    pub load: Option<Load>,
    /// One per planned fault.
    pub faults: Vec<FaultReport>,
    /// The same faults by kind, and by the role of the node that they hit.
    #[serde(default)]
    pub coverage: Vec<Coverage>,
    /// Moves of chunks that began in the run.
    #[serde(default)]
    pub migrations: Vec<MigrationReport>,
    /// The steps of a sweep and their knee; `None`: no sweep.
    pub sweep: Option<SweepReport>,
    /// The highest rate that holds a limit; `None`: none was searched.
    pub find_max: Option<FindMaxReport>,
    /// What became of the acknowledged writes; `None`: not verified.
    pub ledger: Option<Ledger>,
    /// One per limit of the scenario.
    pub limits: Vec<LimitResult>,
    /// What the tester itself used.
    pub tester: Tester,
}

/// Which run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the run directory.
    pub id: String,
    /// Name of the scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Wall clock, RFC 3339, UTC.
    pub started_at: String,
    /// Length of the measured phase as it really was.
    pub duration_s: f64,
    /// Version of this program.
    pub tool_version: String,
}

/// What the run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst of all reasons.
    pub outcome: Outcome,
    /// The process exit code.
    pub exit_code: u8,
    /// All reasons, the worst first; for a pass, what the pass rests on.
    pub reasons: Vec<Reason>,
}

/// One reason of a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// What this reason alone would make of the run.
    pub outcome: Outcome,
    /// A sentence for people.
    pub text: String,
}

/// One workload over the whole measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Its mix, as in the scenario: `read 95, update 5`.
    pub op: String,
    /// Intended rate; `None`: closed loop.
    pub rate_ops_s: Option<f64>,
    /// Acknowledged operations.
    pub ok: u64,
    /// Operations that were surely not applied.
    pub failed: u64,
    /// Operations that may have been applied.
    pub unknown: u64,
    /// Arrivals that were never sent.
    pub missed: u64,
    /// ok / duration.
    pub throughput_ops_s: f64,
    /// Longest time between two successive successes, in seconds; `None`: none of 100 ms or more.
    pub longest_gap_s: Option<f64>,
    /// What to know about the percentiles; `None`: nothing special.
    #[serde(default)]
    pub note: Option<String>,
    /// From the intended start; operations without an answer, or that failed after more than 1 s, count with the
    /// time they had waited.
    pub response_us: Percentiles,
    /// From the send, acknowledged operations only.
    pub service_us: Percentiles,
    /// By kind of operation, at least one that was sent.
    #[serde(default)]
    pub ops: Vec<OpReport>,
    /// By class, most frequent first.
    pub errors: Vec<ErrorClass>,
}

/// One kind of operation of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpReport {
    /// `read`, `update` ...
    pub op: String,
    /// Acknowledged operations.
    pub ok: u64,
    /// Operations that were surely not applied.
    pub failed: u64,
    /// Operations that may have been applied.
    pub unknown: u64,
    /// ok / duration.
    pub throughput_ops_s: f64,
    /// From the intended start; operations that ran into their deadline count with the time they had waited.
    pub response_us: Percentiles,
}

/// A latency distribution in microseconds; everything `None` when `count` is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub min: Option<u64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub p999: Option<u64>,
    pub max: Option<u64>,
    pub mean: Option<f64>,
    pub count: u64,
}

/// Errors of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorClass {
    /// Our name of the class.
    pub class: String,
    /// The server's code, if it gave one.
    pub code: Option<i32>,
    /// How many.
    pub count: u64,
    /// First one.
    pub first_s: f64,
    /// Last one.
    pub last_s: f64,
    /// One message, without secrets.
    pub sample: String,
}

/// The load before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// What was done, and how large it became.
    #[serde(flatten)]
    pub done: crate::recording::Load,
    /// inserted / seconds; `None`: nothing was inserted.
    pub docs_per_s: Option<f64>,
    /// Documents of the median second of `load.csv`, the first and the last one left out; `None`: too short.
    pub median_docs_per_s: Option<u64>,
    /// Documents of the slowest of these seconds.
    pub slowest_docs_per_s: Option<u64>,
    /// Which one that was.
    pub slowest_at_s: Option<u64>,
    /// Every key was looked up: whether all are there and right. `None`: not looked up.
    pub verified: Option<bool>,
    /// How long that took.
    pub verify_seconds: Option<f64>,
}

/// One planned fault and what it did. The numbers are those of the workload that suffered most;
/// `workloads` has all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// `f1`, `f2` ...
    pub id: String,
    /// Kind: `kill`.
    pub kind: String,
    /// The rule: `primary`.
    pub target: String,
    /// The node or nodes it became, comma separated.
    pub node: Option<String>,
    /// Planned offset; `None`: it was to be triggered.
    pub planned_s: Option<f64>,
    /// When the command was issued.
    pub injected_s: Option<f64>,
    /// When the effect was seen.
    pub effective_s: Option<f64>,
    /// When the lifting was seen.
    pub lifted_s: Option<f64>,
    /// How it went.
    pub outcome: FaultOutcome,
    /// Why, unless effective.
    pub reason: Option<String>,
    /// What was seen, by node and step.
    pub evidence: Evidence,
    /// Name of the workload whose numbers follow; `None` when the fault was not effective.
    pub workload: Option<String>,
    /// Before the fault; `None`: no usable baseline.
    pub baseline: Option<Baseline>,
    /// How long it was down; `None` when the fault was not effective.
    pub outage: Option<Outage>,
    /// How it came back.
    pub recovery: Option<Recovery>,
    /// How deep throughput fell; `None` without a baseline.
    pub dip: Option<Dip>,
    /// The same for every workload, by name.
    pub workloads: BTreeMap<String, Impact>,
}

/// What one fault did to one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in FaultReport")]
pub struct Impact {
    pub baseline: Option<Baseline>,
    pub outage: Option<Outage>,
    pub recovery: Option<Recovery>,
    pub dip: Option<Dip>,
}

/// Normal operation before a fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// T: median acknowledged operations per second.
    pub throughput_ops_s: f64,
    /// P: median of the 10 s p99s of the response time, in microseconds.
    pub p99_us: Option<u64>,
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Share of failed and unknown operations of all.
    pub error_share: f64,
    /// Whether it may carry a verdict.
    pub steady: bool,
    /// Why not.
    pub unsteady_because: Option<String>,
}

/// Time without service around a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// Longest hard outage (good share below 0.01), in seconds; 0: none.
    pub hard_s: f64,
    /// All of them together.
    pub hard_total_s: f64,
    /// Longest degraded time (good share below 0.99), in seconds; 0: none.
    pub degraded_s: f64,
    /// Longest time between two successive successful finishes, to the millisecond.
    pub longest_gap_s: Option<f64>,
    /// No operation failed, stayed unknown or was missed. They may still have been slow.
    pub masked: bool,
    /// Every window, hard and degraded.
    pub windows: Vec<OutageWindow>,
}

/// One window of an outage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutageWindow {
    /// `hard` or `degraded`.
    pub kind: OutageKind,
    /// Start.
    pub from_s: f64,
    /// End.
    pub to_s: f64,
}

/// How bad a window was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutageKind {
    /// Good share below 0.01.
    Hard,
    /// Good share below 0.99.
    Degraded,
}

/// How service came back. Times are seconds after the fault took effect (`from_lift_s`: after the lifting);
/// `hold_s` and `censored_after_s` are lengths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// First failed, unknown or missed operation, after the injection; `None`: none (masked).
    pub first_failure_s: Option<f64>,
    /// First success after the longest gap; `None`: never, or there was no gap of 100 ms or more.
    pub first_success_s: Option<f64>,
    /// Sustained recovery; `None`: not reached (see `censored`).
    pub sustained_s: Option<f64>,
    /// Sustained recovery counted from the lifting; negative when it came before.
    pub from_lift_s: Option<f64>,
    /// Throughput back at the threshold, whatever latency and errors do.
    pub throughput_s: Option<f64>,
    /// Latency back within its bound, whatever throughput does.
    pub latency_s: Option<f64>,
    /// When the hold was complete, after the effect: `sustained_s` plus the hold.
    pub declared_s: Option<f64>,
    /// How long it had to hold.
    pub hold_s: Option<f64>,
    /// Sustained recovery was not reached while it could be observed.
    pub censored: bool,
    /// How long it was observed without being reached, when censored.
    pub censored_after_s: Option<f64>,
    /// A lower bound of `sustained_s`, when censored: the last time at which service was seen not to
    /// have recovered. Less than `censored_after_s` when the hold had begun but was cut short.
    pub not_before_s: Option<f64>,
    /// Why there is no number: `no baseline: ...`, `next fault`, `end of run`.
    pub reason: Option<String>,
}

/// How deep throughput fell, against the baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dip {
    /// 1 - min S/T, S being the 5 s centred mean.
    pub depth: f64,
    /// Time with S below 0.95 T.
    pub duration_s: f64,
    /// Operations lost: sum of max(0, T - ok) over the seconds.
    pub area_ops: f64,
    /// area / T.
    pub equivalent_outage_s: f64,
    /// Operations above T, never subtracted.
    pub overshoot_ops: f64,
    /// Separate times below the threshold of recovery.
    pub count: u32,
}

/// One limit of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitResult {
    /// Key in the scenario: `hard_outage`, `p99.readers`.
    pub name: String,
    /// What was asked, in the unit of the name.
    pub limit: f64,
    /// What was measured; `None`: it could not be.
    pub value: Option<f64>,
    /// `s`, `operations`, `faults`, `share`.
    pub unit: String,
    /// Whether it held; `None`: not measured, which makes the run inconclusive.
    pub ok: Option<bool>,
    /// Where it was worst: a fault's id or a workload.
    pub at: Option<String>,
}

/// What the tester itself used and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tester {
    /// CPU seconds, user and system, measured phase only.
    pub cpu_s: f64,
    /// Largest resident memory of the whole run.
    pub rss_max_bytes: u64,
    /// Sends that were over 10 ms late although a worker was free.
    pub late_starts: u64,
    /// Lines of `tester.log` that were dropped.
    pub dropped_log_lines: u64,
    /// Times at which the tester itself stood still for over a second.
    pub own_pauses: Vec<OwnPause>,
    /// Operations that outlived their deadline and were not yet resolved at the end.
    pub abandoned_operations: u64,
}

/// A time at which the tester stood still.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnPause {
    /// When.
    pub at_s: f64,
    /// How long.
    pub seconds: f64,
}
