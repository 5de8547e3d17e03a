//! Every kind of operation against a real server: the answers mean what the tool takes them for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use real::place::Place;
use real::tester::Tester;
use serde_json::Value;

const LONG: Duration = Duration::from_secs(150);

/// Kind, as the workload is called, and what it does.
const KINDS: [(&str, &str); 11] = [
    ("insert", "\"insert\""),
    ("bulk", "{ insert = { batch = 20, ordered = false } }"),
    ("read", "\"read\""),
    ("find", "{ find = { field = \"int\", limit = 5 } }"),
    ("scan", "{ scan = { length = 200 } }"),
    ("update", "\"update\""),
    ("replace", "\"replace\""),
    ("read_modify_write", "\"read_modify_write\""),
    ("delete", "\"delete\""),
    ("aggregate", "{ aggregate = { length = 500 } }"),
    (
        "pipeline",
        r#"{ aggregate = { pipeline = '[{"$match": {"$expr": {"$gte": ["$_id", "$$key"]}}}, {"$group": {"_id": {"$mod": ["$int", 10]}, "n": {"$sum": 1}}}]' } }"#,
    ),
];

/// All kinds on the same documents at the same time, each measured on its own; and the four read concerns.
fn scenario(engine: &str) -> String {
    let mut text = String::from(
        "name = \"operations\"\nseed = 5\nduration = \"10s\"\nwarmup = \"1s\"\n[cluster]\nmembers = 1\n\
         [dataset]\ndocuments = 2_000\nindexes = [\"int\"]\n",
    );
    let concerns = ["local", "available", "majority", "linearizable"];
    for ((name, op), concern) in KINDS.iter().zip(concerns.iter().cycle()) {
        text.push_str(&format!(
            "[[workload]]\nname = \"{name}\"\nworkers = 2\nrate = \"30/s\"\nop = {op}\n\
             read_concern = \"{concern}\"\nengine = \"{engine}\"\n"
        ));
    }
    text.push_str(
        "[[workload]]\nname = \"mixed\"\nworkers = 2\nrate = \"100/s\"\ndistribution = \"zipfian\"\n\
         op = { mix = { insert = 1, read = 1, find = { weight = 1, field = \"int\" }, scan = 1, update = 1, \
         replace = 1, read_modify_write = 1, delete = 1, aggregate = 1 } }\n",
    );
    text.push_str(&format!("engine = \"{engine}\"\n"));
    text
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

#[tokio::test]
async fn real_operations_of_every_kind_succeed_beside_all_others() {
    all_kinds("driver").await;
}

#[tokio::test]
async fn real_operations_of_every_kind_succeed_by_our_own_client_too() {
    all_kinds("wire").await;
}

async fn all_kinds(engine: &str) {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario(engine));
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    println!("{}", ended.stdout);
    let report = dir.json("report.json");
    let workloads = report["workloads"].as_array().unwrap();
    assert_eq!(workloads.len(), KINDS.len() + 1);
    for work in workloads {
        let [ok, failed, unknown] = ["ok", "failed", "unknown"].map(|name| number(&work[name]));
        assert!(ok > 5, "{work:#}");
        // A loaded machine may be slow, but nothing is answered with an error.
        assert_eq!((failed, unknown), (0, 0), "{work:#}");
    }
    let ledger = &report["ledger"];
    let names = ["acknowledged", "checked", "present", "deleted", "delete_unknown"];
    let [acknowledged, checked, present, deleted, unknown] = names.map(|name| number(&ledger[name]));
    assert!(deleted > 5 && unknown == 0, "{ledger:#}");
    assert_eq!((checked, present + deleted), (acknowledged, acknowledged), "{ledger:#}");
    for bad in ["lost", "lost_permitted", "corrupt", "alien", "duplicates", "stale_reads", "unchecked"] {
        assert_eq!(ledger[bad], 0, "{bad}: {ledger:#}");
    }
    // On a loaded machine the generator may come late; it must never be called worse than that.
    let outcome = report["verdict"]["outcome"].as_str().unwrap();
    assert!(["pass", "inconclusive"].contains(&outcome), "{:#}", report["verdict"]);
}
