//! The plan: the same on every machine, and each rule for itself.

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
