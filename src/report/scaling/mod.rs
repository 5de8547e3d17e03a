//! What a sweep and a search for the highest rate come to: the data, and its forms.

pub mod csv;
pub mod text;

use serde::{Deserialize, Serialize};

use super::data::Percentiles;
pub use crate::recording::Probe;

/// One workload at one load after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Which workload.
    pub workload: String,
    /// What was stepped.
    pub stepped: Stepped,
    /// One per planned step, in order.
    pub steps: Vec<StepReport>,
    /// Where more load stops to help.
    pub knee: Knee,
}

/// What was stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stepped {
    /// Active workers, in a closed loop.
    Workers,
    /// Intended operations per second.
    Rate,
}

/// One step, over the seconds that are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// Its number, from 0.
    pub index: u32,
    /// Active workers.
    pub workers: u32,
    /// Intended rate; `None`: closed loop.
    pub rate_ops_s: Option<f64>,
    /// Start of the counted part.
    pub from_s: u64,
    /// Its end.
    pub to_s: u64,
    /// Acknowledged operations.
    pub ok: u64,
    /// Operations that were surely not applied.
    pub failed: u64,
    /// Operations that may have been applied.
    pub unknown: u64,
    /// Arrivals that were never sent.
    pub missed: u64,
    /// Sends that were over 10 ms late although a worker was free.
    pub late_starts: u64,
    /// ok / counted time; `None`: nothing was counted.
    pub throughput_ops_s: Option<f64>,
    /// From the intended start; operations without an answer count with the time they had waited.
    pub response_us: Percentiles,
    /// From the send, acknowledged operations only.
    pub service_us: Percentiles,
    /// Operations at the same time, by Little's law: throughput times mean service time.
    pub in_flight: Option<f64>,
    /// Share of the workers' time in which they waited for something to do (0 to 1): 1 - in flight / workers. In a
    /// closed loop this is the tester's own share.
    pub idle_share: Option<f64>,
    /// Share of its processors that the tester used, on average; `None`: unknown.
    pub cpu_share: Option<f64>,
    /// Why this step carries no verdict; `None`: it does.
    pub no_verdict: Option<String>,
}

impl StepReport {
    /// Its load: workers, or operations per second.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.rate_ops_s.unwrap_or_else(|| f64::from(self.workers))
    }
}

/// The smallest load with 95 % of the best throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Whether there is one.
    pub state: KneeState,
    /// Number of its step; with `not_reached` of the step with the best throughput.
    pub step: Option<u32>,
    /// Load of that step: workers, or operations per second.
    pub load: Option<f64>,
    /// Throughput of that step.
    pub throughput_ops_s: Option<f64>,
    /// Smallest load after that of the lowest p99 at which the p99 is over twice as high; `None`: nowhere.
    pub p99_doubled_at: Option<f64>,
    /// Sentences for people.
    pub text: Vec<String>,
}

/// Whether there is a knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeState {
    /// More load than at the knee does not help.
    Found,
    /// Throughput still grew at the last step.
    NotReached,
    /// Steps without a verdict may hide it.
    Unclear,
}

/// The highest rate that holds a latency limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindMaxReport {
    /// Which workload.
    pub workload: String,
    /// Limit on the p99 of the response time, in microseconds.
    pub p99_us: u64,
    /// The highest rate that held, twice; `None`: no answer.
    pub rate_ops_s: Option<f64>,
    /// Without an answer: it is at least this, if any rate held.
    pub at_least_ops_s: Option<f64>,
    /// Why there is no answer; `None`: there is one.
    pub why: Option<String>,
    /// What was measured, in order.
    pub probes: Vec<ProbeReport>,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// What was measured.
    #[serde(flatten)]
    pub probe: Probe,
    /// Whether the limit held.
    pub holds: bool,
    /// Why not.
    pub why: Option<String>,
}
