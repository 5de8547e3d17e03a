//! `(Scenario, seed) -> Plan`: pure, printable, and alone in deciding when faults happen.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::scenario::{FaultSpec, Scenario};

/// Name and version of the format.
pub const SCHEMA: &str = "mongosoak-plan/1";

/// Stream of the ties of the faults.
const FAULTS: &str = "faults";

/// Everything that will happen, before anything starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// [`SCHEMA`].
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
    /// Makes the plan. The same scenario and seed give the same plan on every machine and with every
    /// number of workers; the tie of a fault depends on nothing but the seed and the fault's number.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut times: Vec<(Duration, &FaultSpec)> = scenario
            .faults
            .iter()
            .flat_map(|rule| rule.when.offsets(scenario.duration).map(|at| (at, &rule.spec)))
            .collect();
        // Stable: faults at the same time keep the order of their rules.
        times.sort_by_key(|(at, _)| *at);
        let mut ties = ChaCha8Rng::from_seed(stream_seed(seed, FAULTS, 0));
        let faults = (1_u64..)
            .zip(times)
            .map(|(number, (at, spec))| PlannedFault {
                id: format!("f{number}"),
                at_s: at.as_secs_f64(),
                r#do: spec.clone(),
                tie: ties.next_u64(),
            })
            .collect();
        Self {
            schema: SCHEMA,
            scenario: scenario.name.clone(),
            seed,
            duration_s: scenario.duration.as_secs_f64(),
            faults,
        }
    }
}

/// Seed of an own random stream for one concern (`"faults"`, `"worker"`) and one of its members (the
/// number of the worker), to be used with `ChaCha8Rng::from_seed`.
///
/// Streams of different concerns, members or seeds share nothing, so that another worker, or another
/// draw in one of them, changes none of the others. The layout is fixed: seed and index in little
/// endian, then the 128-bit FNV-1a hash of the concern's name.
#[must_use]
pub fn stream_seed(seed: u64, concern: &str, index: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    bytes[16..].copy_from_slice(&fnv1a_128(concern.as_bytes()).to_le_bytes());
    bytes
}

/// Published constants of the hash.
fn fnv1a_128(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::scenario::{Source, parse};

    fn scenario(text: &str) -> Scenario {
        let source = Source { path: PathBuf::from("x.toml"), text: text.into() };
        parse(&source).unwrap_or_else(|problems| panic!("{problems}"))
    }

    const TEXT: &str = r#"
duration = "10m"
[[workload]]
name = "w"
op = "read"
workers = 4
[[fault]]
do = { kill = { target = "secondary" } }
first = "3m"
every = "3m"
[[fault]]
do = "stop"
at = ["6m", "500ms"]
"#;

    /// If this fails, every seed that anybody wrote down means another run: then it needs a new
    /// schema number, not new numbers here.
    #[test]
    fn golden() {
        let plan = Plan::new(&scenario(TEXT), 42);
        let faults: Vec<_> = plan
            .faults
            .iter()
            .map(|fault| (fault.id.as_str(), fault.at_s, fault.r#do.kind(), fault.tie))
            .collect();
        assert_eq!(
            faults,
            [
                ("f1", 0.5, "stop", 7_842_329_727_887_583_416),
                ("f2", 180.0, "kill", 9_190_024_469_326_564_754),
                ("f3", 360.0, "kill", 11_084_507_107_607_016_121),
                ("f4", 360.0, "stop", 15_106_875_705_690_353_019),
                ("f5", 540.0, "kill", 10_840_835_765_764_925_210),
            ]
        );
        assert_eq!((plan.schema, plan.scenario.as_str(), plan.duration_s), (SCHEMA, "x", 600.0));
    }

    #[test]
    fn workloads_change_nothing() {
        let plan = Plan::new(&scenario(TEXT), 42);
        let other = TEXT.replace("workers = 4", "workers = 64\nrate = \"5/s\"");
        let other =
            format!("{other}\n[[workload]]\nname = \"v\"\nop = \"insert\"\n[dataset]\ndocuments = 5\n");
        assert_eq!(Plan::new(&scenario(&other), 42), plan);
    }

    #[test]
    fn ties_depend_on_seed_and_number_only() {
        let ties = |text: &str, seed| -> Vec<u64> {
            Plan::new(&scenario(text), seed).faults.iter().map(|fault| fault.tie).collect()
        };
        assert_eq!(ties(TEXT, 42), ties(&TEXT.replace("\"3m\"", "\"2m\""), 42)[..5]);
        assert_ne!(ties(TEXT, 42), ties(TEXT, 43));
    }

    #[test]
    fn streams_differ() {
        let seeds = [
            stream_seed(1, "faults", 0),
            stream_seed(2, "faults", 0),
            stream_seed(1, "faults", 1),
            stream_seed(1, "worker", 0),
            stream_seed(1, "a name that is longer than its hash", 0),
            stream_seed(1, "a name that is longer than its hash?", 0),
        ];
        for (index, seed) in seeds.iter().enumerate() {
            assert!(!seeds[..index].contains(seed), "{index}");
        }
        // The published test vector of FNV-1a with 128 bits for "a".
        assert_eq!(fnv1a_128(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
