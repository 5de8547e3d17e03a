//! Our own client against real servers: reads and writes of every kind while the primary changes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use real::place::Place;
use real::tester::Tester;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(150);

const FAILOVER: &str = r#"
name = "wire-failover"
duration = "27s"
warmup = "3s"
[cluster]
members = 3
election_timeout = "5s"
[dataset]
documents = 2_000
[[workload]]
name = "writers"
workers = 8
rate = "50/s"
op = "insert"
engine = "wire"
[[workload]]
name = "batches"
workers = 2
rate = "10/s"
op = { insert = { batch = 20 } }
engine = "wire"
[[workload]]
name = "mixed"
workers = 8
rate = "50/s"
op = { mix = { read = 50, update = 50 } }
engine = "wire"
[[workload]]
name = "far"
workers = 2
rate = "30/s"
op = "read"
read_preference = "secondary"
engine = "wire"
[[fault]]
do = { kill = { target = "primary", restart_after = "3s" } }
at = ["11s"]
[measures]
sustained_for = "5s"
sustained_p99_factor = 3.0
sustained_p99_slack = "100ms"
[limits]
lost_majority_writes = 0
min_effective_faults = 1
"#;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Rows of `timeline.csv` of one workload: second, acknowledged, workers alive.
fn timeline(text: &str, workload: &str) -> Vec<(u64, u64, u64)> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let (t, of, ok, alive) = (at("t_s"), at("workload"), at("ok"), at("workers_alive"));
    let cell = |row: &csv::StringRecord, at: usize| row[at].parse().unwrap();
    let rows = reader.records().map(Result::unwrap).filter(|row| &row[of] == workload);
    rows.map(|row| (cell(&row, t), cell(&row, ok), cell(&row, alive))).collect()
}

/// The primary is killed: every worker lives, the new primary is found, and nothing acknowledged is missing.
#[tokio::test]
async fn real_wire_failover() {
    let place = Place::new();
    let tester = Tester::run(&place, FAILOVER);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    let report = dir.json("report.json");
    println!("{}", ended.stdout);
    assert_eq!(report["faults"][0]["outcome"], "effective", "{report:#}");
    let text = std::fs::read_to_string(dir.0.join("timeline.csv")).unwrap();
    for (name, workers) in [("writers", 8), ("batches", 2), ("mixed", 8), ("far", 2)] {
        let rows = timeline(&text, name);
        assert_eq!(rows.len(), 27, "{name}");
        assert!(rows.iter().all(|(_, _, alive)| *alive == workers), "{name}: {rows:?}");
        assert!(rows[2..10].iter().all(|(_, ok, _)| *ok > 0), "{name} before the fault: {rows:?}");
        assert!(rows[24..].iter().all(|(_, ok, _)| *ok > 0), "{name} has recovered: {rows:?}");
    }
    let ledger = &report["ledger"];
    assert!(number(&ledger["acknowledged"]) > 2_500.0, "{ledger:#}");
    assert_eq!(ledger["checked"], ledger["acknowledged"], "{ledger:#}");
    assert_eq!(ledger["present"], ledger["acknowledged"], "{ledger:#}");
    for bad in ["lost", "unchecked", "corrupt", "duplicates", "alien", "refused_present"] {
        assert_eq!(ledger[bad], 0, "{bad}: {ledger:#}");
    }
    let verdict = &report["verdict"];
    assert!(["pass", "inconclusive"].contains(&verdict["outcome"].as_str().unwrap()), "{verdict:#}");
    let classes: Vec<_> = report["workloads"].as_array().unwrap().iter().map(|w| &w["errors"]).collect();
    println!("{classes:#?}");
}
