//! The checked scenario: what the rest of the program works with.
//!
//! [`read`] and [`parse`] are the way in. `overrides` puts `--set` into the text, `file` reads TOML
//! strictly, `check` cross-checks; all collect every problem before they give up, and `places` finds
//! its line and column.
//! Nothing here touches a server, a disk (beyond the file and what it names) or the clock.

mod check;
mod cluster;
mod concern;
pub mod content;
mod distribution;
mod fault;
mod fault_words;
mod file;
mod find_max;
mod hooks;
mod op;
mod overrides;
mod path;
mod placeholder;
mod places;
mod problem;
pub mod quantity;
mod rate;
mod rule;
mod seat;
mod secret;
mod shape;
mod source;
mod sweep;
mod table;
mod template;
#[cfg(test)]
mod tests;
mod uri;
mod values;
mod when;
mod words;
mod workload;
pub mod ycsb;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

pub use faults::{NodeTarget as Target, Spec as FaultSpec};

pub use check::MOST_FAULTS;
pub use concern::{ReadConcern, ReadPreference, WriteConcern};
pub use distribution::{DEFAULT_EXPONENT, Distribution};
pub use fault_words::fault_spec;
pub use find_max::{FindMax, LONGEST_PAUSE, MOST_PROBES};
pub use hooks::Hooks;
pub use op::{Aggregation, Op, OpKind};
pub use problem::{Place, Problem, Problems};
pub use rate::{AfterOutage, Profile, Schedule};
pub use rule::{Choice, FaultRule, Majority};
pub use seat::{MONGOS, Part, Seat};
pub use secret::{Secret, hide_credentials, without_credentials};
pub use shape::Shape;
pub use source::{Source, TEMPLATE_COPY, parse, read, read_text};
pub use sweep::{Loads, Sweep};
pub use template::Template;
pub use when::{Cue, When};

/// A scenario in which every value is in range and every combination makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name; also the folder of its runs.
    pub name: String,
    /// The comment lines at the head of the file: what the scenario shows.
    pub description: String,
    /// `None`: drawn at the start of the run, and printed.
    pub seed: Option<u64>,
    /// Length of the measured phase.
    pub duration: Duration,
    /// What is driven before the measured phase and not judged.
    pub warmup: Warmup,
    /// Threads of the tester that drive load, at least 1; `None`: one for each core of the machine, half of
    /// them where the servers share it.
    pub threads: Option<u32>,
    /// What is tested.
    pub cluster: Cluster,
    /// The data that is loaded first.
    pub dataset: Dataset,
    /// At least one.
    pub workloads: Vec<Workload>,
    /// May be empty: a soak without faults.
    pub faults: Vec<FaultRule>,
    /// One workload at one load after another, instead of a steady measured phase.
    pub sweep: Option<Sweep>,
    /// The search for the highest rate that holds a latency limit, instead of a steady measured phase.
    pub find_max: Option<FindMax>,
    /// How the numbers are taken.
    pub measures: Measures,
    /// What decides between pass and fail.
    pub limits: Limits,
}

/// Length of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// Until throughput is steady; at most five minutes, at most a third of the duration.
    Auto,
    /// Exactly this long; may be zero.
    Fixed(Duration),
}

/// What is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum Cluster {
    /// Started, and stopped, by us.
    Managed(Managed),
    /// Somebody else's, reached by its URI.
    Attached(Attached),
}

/// A deployment of our own processes on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// Shape of the deployment.
    pub topology: Topology,
    /// Data-bearing members per replica set, 1 to 7; 1 for a standalone.
    pub members: u8,
    /// Shards, 1 to 4; 0 unless sharded.
    pub shards: u8,
    /// Version prefix or path, as written; `None`: the first one found.
    pub mongod: Option<String>,
    /// Path of a mongos, as written; `None`: one on PATH or beside the mongod, else the stand-in.
    pub mongos: Option<String>,
    /// WiredTiger cache of each node in bytes (at least 256 MiB).
    pub cache_bytes: u64,
    /// Largest oplog of each member in bytes (at least 990 MiB); takes effect when its data is made.
    pub oplog_bytes: u64,
    /// Replica set election timeout.
    pub election_timeout: Duration,
    /// `--setParameter` name and value.
    pub parameters: BTreeMap<String, String>,
    /// Whether the members are reached through proxies of ours, by clients and by each other; set when a fault
    /// needs them.
    pub proxies: bool,
    /// Whether the servers take test commands (failpoints); set when a fault needs them.
    pub test_commands: bool,
    /// Whether the servers' clocks can be moved; set when a fault needs it.
    pub clock_library: bool,
    /// Size of a file system of its own for each node, in bytes; `None`: a folder. Needs root.
    pub disk_bytes: Option<u64>,
}

/// Shape of a managed deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One mongod without replication.
    Standalone,
    /// One replica set.
    ReplicaSet,
    /// Shards and config servers, each a replica set, behind a router.
    Sharded,
}

/// A running deployment that is not ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    /// How to reach it. The text may hold a password.
    pub uri: Secret,
    /// The user's own commands for its servers.
    pub hooks: Hooks,
}

/// The documents that are loaded before the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dataset {
    /// Kind of document.
    pub shape: Shape,
    /// Seed of the content; `None`: that of the run.
    pub seed: Option<u64>,
    /// Number of documents.
    pub documents: u64,
    /// `_id` of the first one; the others follow.
    pub first: u64,
    /// Database name.
    pub database: String,
    /// Collection name.
    pub collection: String,
    /// Fields that get an ascending secondary index.
    pub indexes: Vec<String>,
    /// How it is spread over shards, by `_id`; `None`: not at all.
    pub shard_key: Option<ShardKey>,
}

/// How a collection is spread over shards, by `_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShardKey {
    /// By the hash of it: evenly from the beginning.
    Hashed,
    /// In ranges of it: one chunk on one shard at the beginning, and new documents always at the end of the last.
    Ranged,
}

/// One stream of operations with its own workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Unique in the scenario.
    pub name: String,
    /// Operations at the same time, at least 1.
    pub workers: u32,
    /// Intended operations per second (open loop), at the start where it changes; `None`: closed loop.
    pub rate_ops_s: Option<f64>,
    /// How the rate changes in the measured phase; `None`: not at all.
    pub schedule: Option<Schedule>,
    /// What becomes of arrivals that found no worker in time.
    pub after_outage: AfterOutage,
    /// What it does: at least one kind, none twice; weights are relative, all above zero.
    pub mix: Vec<(Op, f64)>,
    /// Operations of the measured phase, at least 1: when every workload that has such a number has done
    /// them, the phase ends; `None`: as many as come.
    pub operations: Option<u64>,
    /// Write concern of every write.
    pub write_concern: WriteConcern,
    /// Read concern of every read, always sent explicitly.
    pub read_concern: ReadConcern,
    /// Which acknowledged key an operation picks.
    pub distribution: Distribution,
    /// Where reads go.
    pub read_preference: ReadPreference,
    /// Longest an operation may take, selection and pool wait included, before it is booked as
    /// timed out.
    pub deadline: Duration,
    /// Who sends.
    pub engine: Engine,
}

/// Who sends the operations of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The MongoDB driver: what an application would see.
    #[default]
    Driver,
    /// Our own client: cheaper, without retries, and it knows whether a request had left.
    Wire,
}

/// How the numbers are taken (`docs/measures.md`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// Longest baseline window before a fault.
    #[serde(rename = "baseline_s", serialize_with = "seconds")]
    pub baseline: Duration,
    /// How long a recovery must hold; `None`: 60 s, shrunk to a third of the time that is left
    /// before the next fault or the end, never below 10 s.
    #[serde(rename = "sustained_for_s", serialize_with = "optional_seconds")]
    pub sustained_for: Option<Duration>,
    /// Throughput share of the baseline that counts as recovered (0.95).
    pub sustained_throughput: f64,
    /// p99 may be this many times the baseline's (1.25) ...
    pub sustained_p99_factor: f64,
    /// ... plus this much (1 ms).
    #[serde(rename = "sustained_p99_slack_s", serialize_with = "seconds")]
    pub sustained_p99_slack: Duration,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            baseline: Duration::from_secs(300),
            sustained_for: None,
            sustained_throughput: 0.95,
            sustained_p99_factor: 1.25,
            sustained_p99_slack: Duration::from_millis(1),
        }
    }
}

/// What decides between pass and fail. Absent means: not judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Longest sustained recovery of any fault, from its effect; a censored one breaks it.
    #[serde(rename = "sustained_recovery_s", serialize_with = "optional_seconds")]
    pub sustained_recovery: Option<Duration>,
    /// Longest hard outage of any fault.
    #[serde(rename = "hard_outage_s", serialize_with = "optional_seconds")]
    pub hard_outage: Option<Duration>,
    /// Longest time between two successful operations around any fault.
    #[serde(rename = "longest_gap_s", serialize_with = "optional_seconds")]
    pub longest_gap: Option<Duration>,
    /// Acknowledged majority writes that may be missing (more is a violation anyway).
    pub lost_majority_writes: Option<u64>,
    /// Acknowledged weaker writes that may be missing.
    pub lost_permitted_writes: Option<u64>,
    /// Whole-run p99 of the response time, by workload.
    #[serde(rename = "p99_s", serialize_with = "named_seconds")]
    pub p99: BTreeMap<String, Duration>,
    /// Share of failed and unknown operations of all, by workload (0 to 1).
    pub error_share: BTreeMap<String, f64>,
    /// Fewer effective faults make the run inconclusive.
    pub min_effective_faults: Option<u64>,
}

// In the manifest a duration is a number of seconds, and its name says so.

fn seconds<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(value.as_secs_f64())
}

fn optional_seconds<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    value.map(|duration| duration.as_secs_f64()).serialize(to)
}

fn named_seconds<S: Serializer>(values: &BTreeMap<String, Duration>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(name, duration)| (name, duration.as_secs_f64())))
}
