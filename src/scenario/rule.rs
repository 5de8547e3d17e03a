//! One `[[fault]]` as the plan sees it: what may be done, when, and how it gets on with other faults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FaultSpec, When};

/// One `[[fault]]` of the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// What is done, to whom: one choice (`do`), or several of which each occurrence draws one (`mix`).
    pub choices: Vec<Choice>,
    /// When, from the start of the measured phase.
    pub when: When,
    /// How long an occurrence waits for what is in its way; zero: it is skipped at once.
    pub wait: Duration,
    /// Whether it may take the majority away.
    pub majority: Majority,
}

/// One fault of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What is done, to whom.
    pub spec: FaultSpec,
    /// Its part of the draws, relative to the others; at least 1.
    pub weight: u32,
}

/// Whether a rule may leave fewer healthy members than make a majority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Majority {
    /// It waits until a majority is left without the nodes that it hits.
    #[default]
    Kept,
    /// It strikes all the same.
    MayBeLost,
}

impl FaultRule {
    /// Longest wait when the rule does not say: a restart and the replay after it.
    pub const WAIT: Duration = Duration::from_secs(120);

    /// Everything that the rule may do.
    pub fn specs(&self) -> impl Iterator<Item = &FaultSpec> {
        self.choices.iter().map(|choice| &choice.spec)
    }
}
