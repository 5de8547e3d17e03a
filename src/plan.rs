//! `(Scenario, seed) -> Plan`: pure, printable, and alone in deciding when faults happen.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::{FaultSpec, Scenario};

/// Everything that will happen, before anything starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// `mongosoak-plan/1`.
    pub schema: &'static str,
    /// Name of the scenario.
    pub scenario: String,
    /// Decides the documents, the key choice and the ties of the faults.
    pub seed: u64,
    /// Length of the measured phase in seconds.
    pub duration_s: f64,
    /// In the order of their times.
    pub faults: Vec<PlannedFault>,
}

/// One fault at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// `f1`, `f2` ... in the order of their times.
    pub id: String,
    /// Seconds from the start of the measured phase.
    pub at_s: f64,
    /// What is done, to whom.
    pub r#do: FaultSpec,
    /// Settles the choice when several nodes fit; drawn from the seed.
    pub tie: u64,
}

impl PlannedFault {
    /// Offset from the start of the measured phase.
    #[must_use]
    pub fn at(&self) -> Duration {
        Duration::from_secs_f64(self.at_s)
    }
}

impl Plan {
    /// Makes the plan.
    #[must_use]
    pub fn new(_scenario: &Scenario, _seed: u64) -> Self {
        unimplemented!("written by the scenario helper")
    }
}

/// stub
pub fn stream_seed(_seed: u64, _concern: &str, _index: u64) -> [u8; 32] { [0; 32] }
