//! A recording as the measures see it: plain data, no files. `recorder::read` fills it from a run
//! directory; tests write it by hand.
//!
//! Times are seconds from the start of the measured phase.

use faults::{Evidence, Role, Spec};
use serde::{Deserialize, Serialize};

/// Everything that the measures need of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Length of the measured phase as it really was, in seconds.
    pub duration_s: f64,
    /// One per workload of the scenario, in its order.
    pub workloads: Vec<WorkloadRecording>,
    /// One per planned fault, in the order of the plan.
    pub faults: Vec<FaultRecord>,
    /// The steps of a sweep that began, in order.
    pub steps: Vec<Step>,
    /// The probes of a search for the highest rate, in order.
    pub probes: Vec<Probe>,
    /// Moves of chunks from shard to shard that began in the run, ours or the balancer's; ascending.
    pub migrations: Vec<Migration>,
    /// What the tester itself took of the machine; ascending. A second that it slept through is missing.
    pub own: Vec<OwnSecond>,
}

/// A move of a chunk, as the cluster itself has noted it (`config.changelog`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Migration {
    /// Database and collection.
    pub ns: String,
    /// Lower bound of the range, inclusive; as text.
    pub min: String,
    /// Upper bound of the range, exclusive; as text.
    pub max: String,
    /// The shard that gave.
    pub from: String,
    /// The shard that took.
    pub to: String,
    /// Whether it went through; `false`: the donor kept the range.
    pub committed: bool,
    /// What the donor noted of an end before its time; `None`: nothing.
    pub why: Option<String>,
    /// When it began, in seconds from the start of the measured phase, by the donor's clock. In `events.jsonl` it is
    /// the time of the line.
    #[serde(skip)]
    pub started_s: f64,
    /// Documents that were copied, those that changed meanwhile included; `None`: not noted.
    pub docs: Option<u64>,
    /// Bytes that were copied at first; `None`: not noted.
    pub bytes: Option<u64>,
    /// Its phases, in order.
    pub phases: Vec<MigrationPhase>,
}

/// One phase of a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MigrationPhase {
    /// `prepare`, `clone` (the copy, and what changed meanwhile), `critical_section` (writes wait), `commit`.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
}

/// One step of a sweep that began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its number, from 0.
    pub index: u32,
    /// Which workload is stepped.
    pub workload: String,
    /// Workers that are active.
    pub workers: u32,
    /// Intended rate; `None`: closed loop.
    pub rate_ops_s: Option<f64>,
    /// Start of the part that is counted, in whole seconds.
    pub counted_from_s: u64,
    /// End of the step, in whole seconds.
    pub to_s: u64,
}

/// One measured probe of a search for the highest rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Intended rate.
    pub rate_ops_s: f64,
    /// Start of the measured part, in whole seconds.
    pub from_s: u64,
    /// Its end, in whole seconds.
    pub to_s: u64,
    /// Acknowledged operations.
    pub ok: u64,
    /// Failed and unknown ones.
    pub not_ok: u64,
    /// Arrivals that were never sent.
    pub missed: u64,
    /// Sends that were over 10 ms late although a worker was free.
    pub late_starts: u64,
    /// p99 of the response time, in microseconds; `None`: nothing finished.
    pub p99_us: Option<u64>,
    /// p99 of the service time, in microseconds; `None`: nothing succeeded.
    pub service_p99_us: Option<u64>,
    /// Mean of the service time, in microseconds; `None`: nothing succeeded.
    pub service_mean_us: Option<f64>,
    /// Share of its processors that the tester used.
    pub cpu_share: f64,
}

/// One second of the tester itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnSecond {
    /// Number of the second. While it is an event, from the start of the drive.
    pub t_s: u64,
    /// How long it really was.
    pub seconds: f64,
    /// Processor time of the process, user and system.
    pub cpu_s: f64,
    /// Time that its threads were ready to run and did not, all together.
    pub waited_s: f64,
    /// Time that the hypervisor took from this machine, all processors together; `None`: unknown.
    pub stolen_s: Option<f64>,
    /// Time in which any task of this machine waited for a processor; `None`: unknown.
    pub pressure_s: Option<f64>,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Events that wait for the recorder.
    pub event_queue: u64,
    /// Seconds of workloads that wait for the recorder.
    pub sample_queue: u64,
    /// Operations that outlived their deadline and are not resolved.
    pub abandoned: u64,
}

/// What one workload did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadRecording {
    /// Its name.
    pub name: String,
    /// Intended rate; `None`: closed loop.
    pub rate_ops_s: Option<f64>,
    /// Whether that rate was changed in the measured phase.
    pub pace: Pace,
    /// One row a second from second 0, no second left out.
    pub seconds: Vec<Second>,
    /// What became of the operations *intended* in each piece of time; ascending, without overlap.
    /// Pieces are 100 ms wide where anything was not good, up to 1 s where all was. A piece that is
    /// missing had nothing scheduled.
    pub availability: Vec<Piece>,
    /// Times between two successive successful finishes, where they were 100 ms or more; ascending.
    /// The last one may be open: it then ends at the end of the measured phase.
    pub gaps: Vec<Gap>,
}

/// Whether the intended rate of a workload was changed in the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// It stayed as it was, or there is none.
    #[default]
    Constant,
    /// By its schedule, or by hand.
    Changed,
}

/// One second of one workload, by the time of *finishing*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Acknowledged operations.
    pub ok: u64,
    /// Operations that were surely not applied.
    pub failed: u64,
    /// Operations that may have been applied.
    pub unknown: u64,
    /// Arrivals that were never sent.
    pub missed: u64,
    /// p99 of the response time over the five seconds that end with this one, in microseconds;
    /// operations without an answer count with the time they had waited. `None`: no operation.
    pub p99_5s_us: Option<u64>,
    /// The same over the ten seconds that end with this one.
    pub p99_10s_us: Option<u64>,
    /// p99 of the service time of this second (from the send), in microseconds. `None`: nothing succeeded.
    pub service_p99_us: Option<u64>,
    /// Sends that were over 10 ms late although a worker was free (open loop).
    pub late_starts: u64,
}

/// What became of the operations that were intended in one piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Piece {
    /// Start, in seconds.
    pub from_s: f64,
    /// Width, in seconds.
    pub width_s: f64,
    /// Operations intended in it, missed ones included.
    pub scheduled: u64,
    /// Of these, acknowledged within 1, 2, 5, 10, 30, 60 s of their intended start ([`WITHIN_S`]).
    /// Cumulative: each includes the one before it.
    pub ok_within: [u64; 6],
    /// Of these, failed or unknown.
    pub not_ok: u64,
}

/// The edges of [`Piece::ok_within`], in seconds.
pub const WITHIN_S: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Time between two successive successful finishes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Finish before it.
    pub from_s: f64,
    /// Finish after it, or the end of the measured phase.
    pub to_s: f64,
}

/// What happened to one planned fault.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRecord {
    /// `f1`, `f2` ...
    pub id: String,
    /// What was planned.
    pub spec: Spec,
    /// Planned offset; `None`: it was to be triggered.
    pub planned_s: Option<f64>,
    /// When the first command was issued.
    pub injected_s: Option<f64>,
    /// When the effect was seen.
    pub effective_s: Option<f64>,
    /// When the lifting was seen. `None`: not lifted before the end of the recording.
    pub lifted_s: Option<f64>,
    /// Nodes it hit.
    pub nodes: Vec<String>,
    /// What each of them was just before, in their order.
    pub roles: Vec<Role>,
    /// How it went.
    pub outcome: FaultOutcome,
    /// Why, unless it was effective.
    pub reason: Option<String>,
    /// What was seen, by node and step.
    pub evidence: Evidence,
}

/// How one planned fault went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultOutcome {
    /// Injected, and its effect was seen.
    Effective,
    /// Nothing to do, or no effect seen.
    NotEffective,
    /// Never injected: the run ended first, what was in its way did not go away, or what it needs is not here.
    Skipped,
    /// The tester could not inject or lift it.
    Failed,
}

/// How the collection was filled before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Documents that are there now.
    pub documents: u64,
    /// Of these, written by this load.
    pub inserted: u64,
    /// Something was there before.
    pub resumed: bool,
    /// Fresh documents of earlier runs that were removed.
    pub removed: u64,
    /// From the first batch to the confirmation by a majority.
    pub seconds: f64,
    /// For the secondary indexes, after that.
    pub index_seconds: f64,
    /// `collStats.storageSize`.
    pub storage_bytes: Option<u64>,
    /// `collStats.size`.
    pub data_bytes: Option<u64>,
    /// `collStats.totalIndexSize`.
    pub index_bytes: Option<u64>,
    /// What the data directories of our own servers take on disk.
    pub disk_bytes: Option<u64>,
}

/// One second of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSecond {
    /// Second of the load, from 0.
    pub t_s: u64,
    /// Documents written in it.
    pub documents: u64,
    /// Insert commands answered in it.
    pub batches: u64,
    /// Commands that failed in it and were tried again.
    pub failed_tries: u64,
    /// Bytes of these documents.
    pub bytes: u64,
}

/// What became of the acknowledged writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Documents that were acknowledged, loaded and deleted ones included.
    pub acknowledged: u64,
    /// Of these, looked up. checked + unchecked = acknowledged.
    pub checked: u64,
    /// Acknowledged, not deleted, present, right content.
    pub present: u64,
    /// Their delete was acknowledged, and they are absent.
    #[serde(default)]
    pub deleted: u64,
    /// Acknowledged, with a delete whose outcome is unknown: present or absent.
    #[serde(default)]
    pub delete_unknown: u64,
    /// An insert acknowledged with majority is absent, or a delete acknowledged with majority is undone: a
    /// violation.
    pub lost: u64,
    /// The same with a weaker write concern: permitted.
    pub lost_permitted: u64,
    /// Outcome unknown, present.
    pub unknown_present: u64,
    /// Outcome unknown, absent.
    pub unknown_absent: u64,
    /// Refused before execution, yet present: a note.
    pub refused_present: u64,
    /// Acknowledged, not looked up.
    pub unchecked: u64,
    /// Second documents for one key.
    pub duplicates: u64,
    /// Documents whose content is not what was written under their key.
    pub corrupt: u64,
    /// Documents that were never sent.
    pub alien: u64,
    /// Reads and updates during the run that found nothing under an acknowledged key.
    pub stale_reads: u64,
    /// Inserts that were acknowledged by reading them back: the driver had sent them twice, and was told
    /// "duplicate key".
    #[serde(default)]
    pub read_back: u64,
    /// Some of the findings, bounded.
    pub samples: Vec<Finding>,
    /// Why the check is incomplete.
    pub incomplete_because: Option<String>,
}

/// One finding of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `lost`, `lost_permitted`, `corrupt`, `alien`, `duplicate`.
    pub kind: String,
    /// The key, or the `_id` as text where it is no key of ours.
    pub key: String,
    /// What is wrong.
    pub detail: String,
}
