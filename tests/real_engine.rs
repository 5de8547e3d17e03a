//! Faults that are in each other's way, and faults that wait for their moment, in a whole run: what the processes
//! did meanwhile decides, not what the faults say of themselves.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::collections::BTreeSet;
use std::time::Duration;

use real::place::Place;
use real::run_dir::{RunDir, tells_of_unclean_shutdown};
use real::tester::Tester;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(240);

const TURNS: &str = r#"
name = "turns"
seed = 3
duration = "50s"
warmup = "2s"
[cluster]
members = 3
election_timeout = "5s"
parameters = { shutdownTimeoutMillisForSignaledShutdown = 1000 }
[dataset]
documents = 1_000
[[workload]]
name = "writers"
workers = 8
rate = "50/s"
op = "insert"
write_concern = "majority"
[[fault]]
do = "rolling_restart"
at = ["4s"]
[[fault]]
# Some of these fall into the roll.
mix = [
    { do = { kill = { target = "secondary", restart_after = "1s" } } },
    { do = { kill = { target = "any", restart_after = "1s" } } },
]
random = { mean = "2s", from = "4500ms" }
times = 2
[[fault]]
# The roll ends with a new primary.
do = { set_parameter = { target = "secondary", name = "cursorTimeoutMillis", value = 12_345, for = "1s" } }
when = "election"
wait = "100s"
[limits]
lost_majority_writes = 0
min_effective_faults = 4
"#;

/// The most processes that were gone at the same time.
fn most_gone_at_once(dir: &RunDir) -> usize {
    let (mut gone, mut most) = (BTreeSet::new(), 0);
    let measured = |event: &&Value| event["t_s"].as_f64().is_some_and(|t_s| (0.0..50.0).contains(&t_s));
    for event in dir.events().iter().filter(measured) {
        let node = event["node"].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str().unwrap_or_default() {
            "node_exited" => drop(gone.insert(node)),
            "node_started" => drop(gone.remove(&node)),
            _ => {}
        }
        most = most.max(gone.len());
    }
    most
}

#[tokio::test]
async fn real_faults_take_turns() {
    let place = Place::new();
    let tester = Tester::run(&place, TURNS);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    println!("{}\n{}", ended.stdout, ended.stderr);
    let report = dir.json("report.json");
    for fault in report["faults"].as_array().unwrap() {
        assert_eq!(fault["outcome"], "effective", "{fault:#}");
    }
    let [roll, kill, other_kill, parameter] = report["faults"].as_array().unwrap().as_slice() else {
        panic!("{report:#}")
    };
    // A kill that came while the roll went on was kept back until it was over.
    let time =
        |fault: &Value, name: &str| fault[name].as_f64().unwrap_or_else(|| panic!("{name}: {fault:#}"));
    assert!(time(kill, "planned_s") < time(roll, "lifted_s"), "{kill:#}");
    assert!(time(kill, "injected_s") >= time(roll, "lifted_s"), "{kill:#}");
    let waited = dir.events_named("fault_waits");
    let waits = waited.iter().find(|event| event["fault"] == kill["id"]).unwrap();
    assert!(waits["reason"].as_str().unwrap().contains("is still held by f1 (rolling_restart)"), "{waits}");
    assert!(time(other_kill, "injected_s") >= time(kill, "lifted_s"), "{other_kill:#}");
    assert_eq!(most_gone_at_once(&dir), 1);
    for fault in [kill, other_kill] {
        assert!(tells_of_unclean_shutdown(&dir.log(fault["node"].as_str().unwrap())), "{fault:#}");
    }
    // What an election triggers has no time of its own, and comes after it.
    let elected_s = time(&dir.events_named("primary_changed")[0], "t_s");
    assert!(parameter["planned_s"].is_null(), "{parameter:#}");
    let poll_s = 1.0;
    assert!(time(parameter, "injected_s") > elected_s - poll_s, "{parameter:#}");

    let coverage = report["coverage"].as_array().unwrap();
    let of = |kind: &str, role: &str| coverage.iter().find(|c| c["kind"] == kind && c["role"] == role);
    for role in ["primary", "secondary"] {
        assert_eq!(of("rolling_restart", role).unwrap()["effective"], 1, "{coverage:#?}");
    }
    assert_eq!(of("set_parameter", "secondary").unwrap()["effective"], 1, "{coverage:#?}");
    assert_eq!(dir.json("plan.json")["schema"], "mongosoak-plan/2");
    for bad in ["lost", "unchecked", "corrupt", "duplicates", "alien"] {
        assert_eq!(report["ledger"][bad], 0, "{bad}: {report:#}");
    }
}
