//! Connections that stay open while no answer comes: every operation ends at its deadline, nothing that
//! happens later is forgotten, and the workers go on.

use std::time::Duration;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::{Answer, Origin, Rule, Script, When};

const NAMESPACE: &str = "soak.docs";

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scenario(seconds: u64, documents: u64, workload: &str) -> String {
    format!(
        r#"
name = "silence"
seed = 1
duration = "{seconds}s"
warmup = "0s"
[dataset]
documents = {documents}
[[workload]]
name = "w"
workers = 4
{workload}
"#
    )
}

/// Every worker was there all the time, and the last three seconds are as if nothing had been.
fn check_workers_went_on(ended: &Ended) {
    let rows = ended.rows("timeline.csv");
    assert!(rows.iter().all(|row| row.count("workers_alive") == 4));
    for row in &rows[rows.len() - 3..] {
        assert!(row.count("ok") > 0, "nothing succeeded in second {}", row.count("t_s"));
        assert_eq!(row.count("failed") + row.count("unknown"), 0, "in second {}", row.count("t_s"));
    }
}

/// Three deadlines long, so that every worker leaves three operations behind, each with its connection.
fn silent(from: Origin) -> FakeServer {
    let service_time = Duration::from_millis(5);
    FakeServer::start(Script { service_time, origin: from, swallows: vec![s(2)..s(5)], ..Script::default() })
}

#[tokio::test]
async fn swallowed_inserts_are_unknown_at_their_deadline() {
    inserts("").await;
}

pub async fn inserts(engine: &str) {
    let server = silent(Origin::Arrival("insert", 1));
    let workload = format!("op = \"insert\"\ndeadline = \"1s\"\n{engine}");
    let ended = Run::new(&scenario(10, 0, &workload), &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, unknown] = ["ok", "unknown"].map(|name| number(&work[name]));
    // The last one of a worker may be sent just before the end of the silence, or just after it.
    assert!((12..=16).contains(&unknown), "{work}");
    assert_eq!((work["errors"][0]["class"].as_str(), number(&work["failed"])), (Some("deadline"), 0));
    assert!(number(&work["response_us"]["max"]) < 2_000_000, "deadline and a second: {work}");
    check_workers_went_on(&ended);
    let stored = server.documents(NAMESPACE, |documents| documents.len() as u64);
    assert_eq!([number(&books["acknowledged"]), number(&books["present"])], [ok, ok], "{books}");
    assert_eq!((stored, number(&books["unknown_absent"])), (ok, unknown), "{books}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

#[tokio::test]
async fn swallowed_reads_fail_at_their_deadline() {
    reads("").await;
}

pub async fn reads(engine: &str) {
    let server = silent(Origin::Arrival("find", 2));
    let workload = format!("op = \"read\"\ndeadline = \"1s\"\n{engine}");
    let ended = Run::new(&scenario(10, 100, &workload), &server.uri()).finish().await;
    let work = &ended.report()["workloads"][0];
    assert!((12..=16).contains(&number(&work["failed"])), "{work}");
    assert_eq!((work["errors"][0]["class"].as_str(), number(&work["unknown"])), (Some("deadline"), 0));
    assert_eq!(work["errors"].as_array().unwrap().len(), 1, "{work}");
    assert!(number(&work["response_us"]["max"]) < 2_000_000, "{work}");
    check_workers_went_on(&ended);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// The answers come after the deadline: the operations are unknown, their documents acknowledged.
#[tokio::test]
async fn answers_after_the_deadline_are_booked() {
    let service_time = Duration::from_millis(5);
    let origin = Origin::Arrival("insert", 1);
    let script = Script { service_time, origin, freezes: vec![s(2)..s(5)], ..Script::default() };
    let server = FakeServer::start(script);
    let workload = "op = { insert = { batch = 3 } }\ndeadline = \"1s\"";
    let ended = Run::new(&scenario(9, 0, workload), &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, unknown] = ["ok", "unknown"].map(|name| number(&work[name]));
    assert!((8..=16).contains(&unknown), "{work}");
    check_workers_went_on(&ended);
    let all = 3 * (ok + unknown);
    assert_eq!([number(&books["acknowledged"]), number(&books["present"])], [all, all], "{books}");
    assert_eq!(server.documents(NAMESPACE, |documents| documents.len() as u64), all);
    assert_eq!(number(&report["tester"]["abandoned_operations"]), 0, "all have been resolved");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// Every third answer comes after the deadline. The connection that it belongs to must not give it to
/// anybody else: each read checks that it got the document it asked for.
#[tokio::test]
async fn late_answers_are_never_taken_for_others() {
    late_answers("").await;
}

pub async fn late_answers(engine: &str) {
    let late = Answer::Late(Duration::from_millis(900));
    let rules = vec![Rule { command: "find", when: When::Every(3), answer: late }];
    let server = FakeServer::start(Script { rules, ..Script::default() });
    let workload = format!("op = \"read\"\ndeadline = \"300ms\"\n{engine}");
    let ended = Run::new(&scenario(5, 100, &workload), &server.uri()).finish().await;
    let work = &ended.report()["workloads"][0];
    let [ok, failed] = ["ok", "failed"].map(|name| number(&work[name]));
    assert!((ok / 2).abs_diff(failed) <= 4, "{work}");
    assert_eq!(
        (work["errors"][0]["class"].as_str(), work["errors"].as_array().unwrap().len()),
        (Some("deadline"), 1)
    );
    // Each worker waits for one answer while three more are due at most; and there are monitors.
    assert!(server.most_connections() <= 4 * 4 + 4, "{}", server.most_connections());
}

/// A hundred deadlines long. Nobody ever ends the operations that it swallowed, so in the end each worker
/// drops its oldest ones.
#[tokio::test]
async fn a_worker_survives_more_unanswered_operations_than_it_can_keep() {
    let origin = Origin::Arrival("insert", 1);
    let server = FakeServer::start(Script { origin, swallows: vec![s(1)..s(8)], ..Script::default() });
    let workload = "op = \"insert\"\ndeadline = \"70ms\"\nrate = \"100/s\"";
    let ended = Run::new(&scenario(11, 0, workload), &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!((ok + unknown + missed, failed), (1_100, 0), "{work}");
    assert!(unknown > 4 * 65, "more than all workers can keep: {work}");
    // 64 that were given up and the current one for each worker; the server may still count some that
    // were closed just now.
    assert!(server.most_connections() <= 4 * 65 + 10, "{}", server.most_connections());
    let rows = ended.rows("timeline.csv");
    assert!(rows.iter().all(|row| row.count("workers_alive") == 4));
    let after: u64 = rows[9..].iter().map(|row| row.count("ok")).sum();
    assert!(after > 150 || ended.starved(), "it went on after the silence: {after} of 200");
    assert_eq!([number(&books["lost"]), number(&books["present"])], [0, number(&books["acknowledged"])]);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}
