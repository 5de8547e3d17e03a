//! A primary that is cut off from the others while clients still reach it: it acknowledges what the set takes back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use real::place::Place;
use real::run_dir::at_s;
use real::tester::Tester;

/// Server log: "Can't see a majority of the set, relinquishing primary".
const RELINQUISHING: i64 = 21_809;
const LONG: Duration = Duration::from_secs(180);

const SCENARIO: &str = r#"
name = "partition"
duration = "35s"
warmup = "3s"
[cluster]
election_timeout = "5s"
[dataset]
documents = 2_000
[[workload]]
name = "majority-writers"
workers = 4
rate = "20/s"
op = "insert"
write_concern = "majority"
[[workload]]
name = "w1-writers"
workers = 8
rate = "50/s"
op = "insert"
write_concern = 1
[[fault]]
do = { partition = { for = "18s" } }
at = ["8s"]
[limits]
lost_majority_writes = 0
min_effective_faults = 1
"#;

/// The keys of what a server took back, by the files in which it keeps such documents.
fn rolled_back(node: &Path) -> BTreeSet<i64> {
    let mut keys = BTreeSet::new();
    for collection in std::fs::read_dir(node.join("db/rollback")).unwrap() {
        for file in std::fs::read_dir(collection.unwrap().path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let document = bson::Document::from_reader(&mut rest).unwrap();
                keys.extend(document.get_i64("_id"));
            }
        }
    }
    keys
}

#[tokio::test]
async fn real_partitioned_primary_steps_down_and_only_writes_below_majority_vanish() {
    let place = Place::new();
    let tester = Tester::run_with(&place, SCENARIO, &["--keep-data"]);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    let report = dir.json("report.json");
    println!("{}", ended.stdout);
    let fault = &report["faults"][0];
    assert_eq!(fault["outcome"], "effective", "{fault:#}");
    let cut_off = fault["node"].as_str().unwrap();
    let evidence = &fault["evidence"]["cluster"];
    assert!(evidence["effect"]["acted"].as_u64().unwrap() > 0, "{evidence:#}");

    // By itself, while it was cut off: so its own log says.
    let (injected, lifted) = (at_s(&dir.event("fault_injected")), at_s(&dir.event("fault_lifted")));
    let log = dir.log(cut_off);
    let relinquished = log.iter().find(|line| line.id == RELINQUISHING).expect("it steps down");
    assert!((injected..lifted).contains(&relinquished.at_s), "{injected} {} {lifted}", relinquished.at_s);

    let ledger = &report["ledger"];
    assert_eq!(ledger["lost"], 0, "{ledger:#}");
    assert_eq!(ledger["unchecked"], 0, "{ledger:#}");
    let permitted = ledger["lost_permitted"].as_u64().unwrap();
    assert!(permitted > 0, "{ledger:#}");
    // What the server itself put aside holds also the writes that nobody was told of.
    let aside = rolled_back(&dir.node(cut_off));
    assert!(permitted <= aside.len() as u64, "{permitted} of {}", aside.len());
    for sample in ledger["samples"].as_array().unwrap() {
        assert_eq!(sample["kind"], "lost_permitted");
        let key: i64 = sample["key"].as_str().unwrap().parse().unwrap();
        assert!(aside.contains(&key), "{key} vanished, and was not rolled back");
    }
    let unacknowledged = report["workloads"][0]["unknown"].as_u64().unwrap();
    assert!(aside.len() as u64 <= permitted + unacknowledged + 4, "{} and {permitted}", aside.len());
    let outcome = report["verdict"]["outcome"].as_str().unwrap();
    assert!(["pass", "inconclusive"].contains(&outcome), "{}", report["verdict"]);
}
