//! The plan: the same on every machine, and each rule for itself.

use std::path::PathBuf;

use super::chance::fnv1a_128;
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
        .map(|fault| (fault.id.as_str(), fault.at_s.unwrap(), fault.r#do.kind(), fault.tie))
        .collect();
    assert_eq!(
        faults,
        [
            ("f1", 0.5, "stop", 8_149_898_358_813_408_932),
            ("f2", 180.0, "kill", 15_381_559_234_615_502_571),
            ("f3", 360.0, "kill", 14_379_516_564_269_433_213),
            ("f4", 360.0, "stop", 1_209_826_955_258_130_107),
            ("f5", 540.0, "kill", 767_538_367_609_323_185),
        ]
    );
    assert_eq!((plan.schema, plan.scenario.as_str(), plan.duration_s), (SCHEMA, "x", 600.0));
}

#[test]
fn workloads_change_nothing() {
    let plan = Plan::new(&scenario(TEXT), 42);
    let other = TEXT.replace("workers = 4", "workers = 64\nrate = \"5/s\"");
    let other = format!("{other}\n[[workload]]\nname = \"v\"\nop = \"insert\"\n[dataset]\ndocuments = 5\n");
    assert_eq!(Plan::new(&scenario(&other), 42), plan);
}

#[test]
fn ties_depend_on_seed_and_number_only() {
    let ties = |text: &str, seed| -> Vec<u64> {
        let plan = Plan::new(&scenario(text), seed);
        plan.faults.iter().filter(|fault| fault.rule == 0).map(|fault| fault.tie).collect()
    };
    assert_eq!(ties(TEXT, 42), ties(&TEXT.replace("\"3m\"", "\"2m\""), 42)[..3]);
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

const CHANCE: &str = r#"
duration = "1h"
[[workload]]
name = "w"
op = "read"
[[fault]]
mix = [{ do = "kill", weight = 3 }, { do = "pause" }, { do = { stop = { target = "secondary" } } }]
random = { mean = "5m", from = "10m", until = "50m" }
[[fault]]
do = "stepdown"
when = "election"
after = "2m"
every = "1m"
times = 2
majority = "may_be_lost"
[[fault]]
do = "kill"
at = ["30m"]
wait = "0s"
"#;

/// See [`golden`].
#[test]
fn golden_chance() {
    let plan = Plan::new(&scenario(CHANCE), 42);
    let faults: Vec<_> = plan.faults.iter().map(|f| (f.id.as_str(), f.rule, f.at_s, f.r#do.kind())).collect();
    assert_eq!(
        faults,
        [
            ("f1", 0, Some(1_045.081), "stop"),
            ("f2", 0, Some(1_385.284), "kill"),
            ("f3", 2, Some(1_800.0), "kill"),
            ("f4", 0, Some(1_838.986), "kill"),
            ("f5", 0, Some(2_021.372), "kill"),
            ("f6", 0, Some(2_203.877), "kill"),
            ("f7", 0, Some(2_385.94), "kill"),
            ("f8", 1, None, "stepdown"),
            ("f9", 1, None, "stepdown"),
        ]
    );
    let [.., first, second] = plan.faults.as_slice() else { panic!("{plan:?}") };
    let trigger = Some(Trigger { cue: Cue::Election, after_s: 120.0, every_s: 60.0 });
    assert_eq!((first.when, second.when), (trigger, trigger));
    assert_eq!((first.wait_s, first.majority), (0.0, Majority::MayBeLost));
    let waits = |rule| plan.faults.iter().find(|f| f.rule == rule).map(|f| (f.wait_s, f.majority));
    assert_eq!(waits(0), Some((120.0, Majority::Kept)));
    assert_eq!(waits(2), Some((0.0, Majority::Kept)));
    assert_eq!(Plan::new(&scenario(CHANCE), 42), plan);
    assert_ne!(Plan::new(&scenario(CHANCE), 43), plan);
}

/// What a file of a run says is what was planned.
#[test]
fn a_plan_survives_its_file() {
    let plan = Plan::new(&scenario(CHANCE), 42);
    let file = serde_json::to_value(&plan).unwrap();
    assert_eq!(file["schema"], "mongosoak-plan/2");
    let back: Vec<PlannedFault> = serde_json::from_value(file["faults"].clone()).unwrap();
    assert_eq!(back, plan.faults);
    // A run of an older version.
    let old = r#"{ "id": "f1", "at_s": 5.0, "do": { "kill": { "target": "primary", "restart_after": 1.0 } }, "tie": 7 }"#;
    let old: PlannedFault = serde_json::from_str(old).unwrap();
    assert_eq!((old.at_s, old.when, old.wait_s), (Some(5.0), None, 0.0));
}

#[test]
fn a_rule_changes_no_other() {
    let of_rule = |text: &str, rule| -> Vec<_> {
        let plan = Plan::new(&scenario(text), 42);
        plan.faults.into_iter().filter(|f| f.rule == rule).map(|f| (f.at_s, f.r#do, f.tie)).collect()
    };
    let other =
        CHANCE.replace("at = [\"30m\"]", "random = { mean = \"1m\" }").replace("weight = 3", "weight = 1");
    assert_eq!(of_rule(CHANCE, 1), of_rule(&other, 1));
    let times = |text: &str| of_rule(text, 0).into_iter().map(|(at_s, ..)| at_s).collect::<Vec<_>>();
    assert_eq!(times(CHANCE), times(&other), "the weights of a mix change no time");
    assert_ne!(of_rule(CHANCE, 0), of_rule(&other, 0));
}

/// Distances as a Poisson process has them, kinds as their weights say.
#[test]
fn chance_keeps_to_the_numbers() {
    let text = CHANCE.replace("\"1h\"", "\"10d\"").replace(", until = \"50m\"", "");
    let plan = Plan::new(&scenario(&text), 1);
    let drawn: Vec<_> = plan.faults.iter().filter(|f| f.rule == 0).collect();
    let times: Vec<f64> = drawn.iter().map(|f| f.at_s.unwrap()).collect();
    assert!(times[0] >= 600.0 && *times.last().unwrap() < 864_000.0);
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    // 2,878 are to be expected, give or take 54.
    assert!((2_600..3_150).contains(&drawn.len()), "{}", drawn.len());
    let short = times.windows(2).filter(|pair| pair[1] - pair[0] < 300.0).count() as f64;
    let share = short / times.len() as f64;
    assert!((0.58..0.68).contains(&share), "{share} of the gaps are below their mean, 0.632 should be");
    let kills = drawn.iter().filter(|f| f.r#do.kind() == "kill").count() as f64 / drawn.len() as f64;
    assert!((0.55..0.65).contains(&kills), "{kills} are kills, 0.6 should be");
}
