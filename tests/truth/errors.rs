//! A server that refuses a part of the writes: each is counted as what it is, and no worker dies of it.

use std::time::Duration;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Run, number};
use crate::support::script::{Answer, Rule, Script, When};

const WRITERS: &str = r#"
name = "errors"
seed = 1
duration = "6s"
warmup = "0s"
[dataset]
documents = 0
[[workload]]
name = "writers"
workers = 4
op = "insert"
"#;

#[tokio::test]
async fn every_third_insert_finds_no_primary() {
    no_primary("").await;
}

pub async fn no_primary(engine: &str) {
    let refused = Answer::Error { code: 10107, labels: vec![] };
    let rules = vec![Rule::insert(When::Every(3), refused)];
    let server = FakeServer::start(Script { rules, ..Script::default() });
    let scenario = format!("{WRITERS}{engine}[limits]\nerror_share = {{ writers = 0.5 }}\n");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!((unknown, missed), (0, 0), "{work}");
    assert!(failed >= 5, "{work}");
    assert_eq!(
        (ok + failed, failed),
        (server.count("insert"), server.count("insert") / 3),
        "{work} {books} {}",
        std::fs::read_to_string(ended.out().join("timeline.csv")).unwrap()
    );
    let errors = work["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "one kind of error is one line: {errors:?}");
    assert_eq!((errors[0]["class"].as_str(), errors[0]["code"].as_i64()), (Some("not_primary"), Some(10107)));
    assert_eq!(number(&errors[0]["count"]), failed);
    assert!(ended.rows("timeline.csv").iter().all(|row| row.count("workers_alive") == 4));
    assert_eq!([number(&books["acknowledged"]), number(&books["present"])], [ok, ok], "{books}");
    assert_eq!(number(&books["refused_present"]), 0);
    // A third is less than the half that is allowed, so it passes.
    assert_eq!(report["limits"][0]["ok"], true, "{}", report["limits"]);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// With this label the driver has tried twice and gives the answer to the second try. The first one may have
/// been applied, which only the driver knows; our own engine tries once.
#[tokio::test]
async fn a_refused_second_try_says_nothing_about_the_first() {
    for (engine, expected) in [("", "unknown"), ("engine = \"wire\"\n", "failed")] {
        let refused = Answer::Error { code: 10107, labels: vec!["RetryableWriteError"] };
        let rules = vec![Rule::insert(When::Every(3), refused)];
        let server = FakeServer::start(Script { rules, ..Script::default() });
        let scenario = format!("{WRITERS}{engine}").replace("6s", "1s");
        let ended = Run::new(&scenario, &server.uri()).finish().await;
        let work = &ended.report()["workloads"][0];
        assert!(number(&work[expected]) > 0, "{work}");
        assert_eq!(number(&work["failed"]) + number(&work["unknown"]), number(&work[expected]), "{work}");
    }
}

/// Nothing ever succeeds: that is no pass, although nothing is lost and no limit was set.
#[tokio::test]
async fn a_run_without_a_single_success_is_inconclusive() {
    let refused = Answer::Error { code: 13, labels: vec![] };
    let rules = vec![Rule::insert(When::Every(1), refused)];
    let service_time = Duration::from_millis(20);
    let server = FakeServer::start(Script { service_time, rules, ..Script::default() });
    let ended = Run::new(&WRITERS.replace("6s", "2s"), &server.uri()).finish().await;
    assert_eq!(ended.code, 4, "{}", ended.printed());
    let reason = "workload writers: nothing was measured";
    assert!(ended.reasons().iter().any(|text| text.starts_with(reason)), "{}", ended.printed());
}

/// Reads and inserts of an empty collection: at first there is nothing to read. What was intended is
/// sent or missed, and never just gone.
#[tokio::test]
async fn reads_of_a_collection_that_is_still_empty_do_not_vanish() {
    let service_time = Duration::from_millis(5);
    let server = FakeServer::start(Script { service_time, ..Script::default() });
    let scenario =
        WRITERS.replace("op = \"insert\"", "op = { mix = { insert = 1, read = 1 } }\nrate = \"100/s\"");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let work = &ended.report()["workloads"][0];
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!(ok + failed + unknown + missed, 600, "{work}");
    assert!(missed < 50 || ended.starved(), "{work}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// Errors and operations of the warm-up are not judged, but what it wrote must be there.
#[tokio::test]
async fn the_warm_up_is_driven_and_not_judged() {
    let refused = Answer::Error { code: 10107, labels: vec![] };
    let service_time = Duration::from_millis(2);
    let rules = vec![Rule::insert(When::First(50), refused)];
    let server = FakeServer::start(Script { service_time, rules, ..Script::default() });
    let scenario = WRITERS.replace("\"0s\"", "\"2s\"").replace("\"6s\"", "\"3s\"");
    let ended = Run::new(&format!("{scenario}rate = \"100/s\"\n"), &server.uri()).finish().await;
    let report = ended.report();
    let work = &report["workloads"][0];
    assert_eq!((number(&work["failed"]), work["errors"].as_array().unwrap().len()), (0, 0), "{work}");
    assert_eq!((ended.rows("warmup.csv").len(), ended.rows("timeline.csv").len()), (2, 3));
    let failed: u64 = ended.rows("warmup.csv").iter().map(|row| row.count("failed")).sum();
    // Availability goes by the intended start, so it is exact on any machine.
    let scheduled: u64 = ended.rows("availability.csv").iter().map(|row| row.count("scheduled")).sum();
    assert_eq!((failed, scheduled), (50, 300));
    assert!(number(&work["ok"]) == 300 || ended.starved(), "{work}");
    assert_eq!(number(&report["ledger"]["present"]), server.count("insert") - 50);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}
