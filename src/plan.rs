//! `(Scenario, seed) -> Plan`: pure, printable, and alone in deciding when faults happen.

mod chance;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

pub use crate::scenario::{Cue, Majority};
use crate::scenario::{FaultRule, FaultSpec, MOST_FAULTS, Scenario, When};
pub use chance::stream_seed;

/// Name and version of the format.
pub const SCHEMA: &str = "mongosoak-plan/2";

/// Streams of the rules, each indexed by the number of the rule: another rule changes none of them.
const TIES: &str = "fault ties";
const KINDS: &str = "fault kinds";
const TIMES: &str = "fault times";

/// Everything that will happen, before anything starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Name of the scenario.
    pub scenario: String,
    /// Decides the documents, the key choice, and times, kinds and ties of the faults.
    pub seed: u64,
    /// Length of the measured phase in seconds.
    pub duration_s: f64,
    /// In the order of their times; those without a time are the last, in the order of their rules.
    pub faults: Vec<PlannedFault>,
}

/// One fault at one time, or at one occasion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// `f1`, `f2` ... in the order of the plan.
    pub id: String,
    /// Number of its rule, from 0 in the order of the scenario.
    #[serde(default)]
    pub rule: usize,
    /// Seconds from the start of the measured phase; `None`: it is triggered.
    pub at_s: Option<f64>,
    /// What triggers it; `None`: it has its time.
    #[serde(default)]
    pub when: Option<Trigger>,
    /// What is done, to whom.
    pub r#do: FaultSpec,
    /// Settles the choice when several nodes fit; drawn from the seed.
    pub tie: u64,
    /// How long it waits for what is in its way, in seconds.
    #[serde(default)]
    pub wait_s: f64,
    /// Whether it may take the majority away.
    #[serde(default)]
    pub majority: Majority,
}

/// What a fault without a time waits for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    /// What the servers must be at.
    pub cue: Cue,
    /// Not before this offset, in seconds.
    pub after_s: f64,
    /// Not sooner than this after the fault before it of the same rule, in seconds.
    pub every_s: f64,
}

impl PlannedFault {
    /// Offset from the start of the measured phase before which it cannot happen.
    #[must_use]
    pub fn earliest(&self) -> Duration {
        let after_s = self.when.map(|trigger| trigger.after_s);
        Duration::from_secs_f64(self.at_s.or(after_s).unwrap_or_default())
    }

    /// How long it waits for what is in its way.
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.wait_s)
    }
}

impl Plan {
    /// Makes the plan. The same scenario and seed give the same plan on every machine and with every
    /// number of workers. Times, kinds and ties of a rule depend on nothing but the seed, the number of the
    /// rule and the rule itself: another rule that changes, changes none of them (only the ids, which count).
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let rules = scenario.faults.iter().enumerate();
        let mut faults: Vec<_> =
            rules.flat_map(|(number, rule)| occurrences(scenario, seed, number, rule)).collect();
        // Stable: faults at the same time keep the order of their rules.
        faults.sort_by(|a, b| {
            let time = |fault: &PlannedFault| fault.at_s.unwrap_or(f64::INFINITY);
            time(a).total_cmp(&time(b))
        });
        for (number, fault) in (1_u64..).zip(&mut faults) {
            fault.id = format!("f{number}");
        }
        Self {
            schema: SCHEMA,
            scenario: scenario.name.clone(),
            seed,
            duration_s: scenario.duration.as_secs_f64(),
            faults,
        }
    }
}

/// All faults of one rule, without their ids.
fn occurrences(scenario: &Scenario, seed: u64, number: usize, rule: &FaultRule) -> Vec<PlannedFault> {
    let index = number as u64;
    let (mut ties, mut kinds) = (chance::stream(seed, TIES, index), chance::stream(seed, KINDS, index));
    let mut one = |at: Option<Duration>, when: Option<Trigger>| PlannedFault {
        id: String::new(),
        rule: number,
        at_s: at.map(|at| at.as_secs_f64()),
        when,
        r#do: chance::choose(&mut kinds, &rule.choices).spec.clone(),
        tie: ties.next_u64(),
        wait_s: rule.wait.as_secs_f64(),
        majority: rule.majority,
    };
    match rule.when {
        When::Cued { cue, after, every, times } => {
            let (after_s, every_s) = (after.as_secs_f64(), every.as_secs_f64());
            let trigger = Trigger { cue, after_s, every_s };
            (0..times).map(|_| one(None, Some(trigger))).collect()
        }
        When::Random { .. } => {
            drawn(scenario.duration, seed, index, &rule.when).map(|at| one(Some(at), None)).collect()
        }
        When::At(_) | When::Every { .. } => {
            rule.when.offsets(scenario.duration).map(|at| one(Some(at), None)).collect()
        }
    }
}

/// The times of a random rule, ascending and strictly inside a measured phase of this length.
fn drawn(duration: Duration, seed: u64, index: u64, when: &When) -> impl Iterator<Item = Duration> {
    let (mean, from, until, times) = match *when {
        When::Random { mean, from, until, times } => (mean, from, until, times.unwrap_or(u32::MAX)),
        _ => (Duration::MAX, duration, None, 0),
    };
    let end = until.unwrap_or(duration).min(duration);
    let mut gaps = chance::stream(seed, TIMES, index);
    let next = move |last: &Duration| last.checked_add(chance::gap(&mut gaps, mean));
    let times = usize::try_from(times).unwrap_or(usize::MAX).min(MOST_FAULTS);
    std::iter::successors(Some(from), next)
        .skip(1)
        .skip_while(Duration::is_zero)
        .take_while(move |at| *at < end)
        .take(times)
}
