//! Writes of which only a part went in, or of which nobody knows: what the books say of each key.

use std::time::Duration;

use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::{Answer, Rule, Script, When};

const NAMESPACE: &str = "soak.docs";

/// Two seconds of inserts by one worker, so that the order of the commands is known. `engine` is a line of
/// the scenario, or empty.
fn inserts(batch: u32, engine: &str) -> String {
    format!(
        r#"
name = "batches"
seed = 1
duration = "2s"
warmup = "0s"
[dataset]
documents = 0
[[workload]]
name = "writers"
op = {{ insert = {{ batch = {batch} }} }}
{engine}
"#
    )
}

/// Each fifth command is treated in a special way; the rest takes 20 ms, as a machine with other work does.
async fn run(batch: u32, engine: &str, answer: Answer) -> (FakeServer, Ended) {
    let rules = vec![Rule::insert(When::Every(5), answer)];
    let service_time = Duration::from_millis(20);
    let server = FakeServer::start(Script { service_time, rules, ..Script::default() });
    let ended = Run::new(&inserts(batch, engine), &server.uri()).finish().await;
    (server, ended)
}

fn books(report: &Value) -> [u64; 6] {
    let names = ["acknowledged", "present", "lost", "unknown_present", "unknown_absent", "refused_present"];
    names.map(|name| number(&report["ledger"][name]))
}

fn counts(report: &Value) -> [u64; 4] {
    ["ok", "failed", "unknown", "missed"].map(|name| number(&report["workloads"][0][name]))
}

fn stored(server: &FakeServer) -> u64 {
    server.documents(NAMESPACE, |documents| documents.len() as u64)
}

/// Class, code and count of the only kind of error.
fn only_error(report: &Value) -> (&str, Option<i64>, u64) {
    let errors = report["workloads"][0]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    (errors[0]["class"].as_str().unwrap(), errors[0]["code"].as_i64(), number(&errors[0]["count"]))
}

#[tokio::test]
async fn a_write_whose_reply_is_cut_off_is_unknown_and_found() {
    cut_reply("").await;
}

pub async fn cut_reply(engine: &str) {
    let (server, ended) = run(1, engine, Answer::CutReply).await;
    let report = ended.report();
    let [ok, failed, unknown, missed] = counts(&report);
    assert!(unknown >= 1 && ok > unknown, "{report}");
    assert_eq!((failed, missed), (0, 0));
    assert_eq!(books(&report), [ok, ok, 0, unknown, 0, 0]);
    assert_eq!(stored(&server), ok + unknown, "each of them went in");
    assert_eq!(only_error(&report), ("network", None, unknown));
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

#[tokio::test]
async fn of_an_ordered_batch_counts_what_came_before_the_error() {
    ordered_batch("").await;
}

pub async fn ordered_batch(engine: &str) {
    let (server, ended) = run(10, engine, Answer::WriteErrors { indexes: vec![4], code: 121 }).await;
    let report = ended.report();
    let [ok, failed, unknown, _] = counts(&report);
    assert!(failed >= 1 && ok.abs_diff(4 * failed) <= 4, "every fifth one fails: {report}");
    // Keys 0 to 3 of such a batch are acknowledged, 4 is refused, 5 to 9 were never tried.
    let all = 10 * ok + 4 * failed;
    assert_eq!((books(&report), unknown), ([all, all, 0, 0, 0, 0], 0));
    assert_eq!(stored(&server), all);
    assert_eq!(only_error(&report), ("write_error", Some(121), failed));
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

#[tokio::test]
async fn a_write_concern_error_acknowledges_nothing() {
    write_concern_error("").await;
}

pub async fn write_concern_error(engine: &str) {
    for batch in [1, 10] {
        let (server, ended) = run(batch, engine, Answer::WriteConcernError { code: 64 }).await;
        let report = ended.report();
        let [ok, failed, unknown, _] = counts(&report);
        assert!(unknown >= 1 && failed == 0, "{report}");
        let (sure, unsure) = (u64::from(batch) * ok, u64::from(batch) * unknown);
        assert_eq!(books(&report), [sure, sure, 0, unsure, 0, 0]);
        assert_eq!(stored(&server), sure + unsure);
        assert_eq!(only_error(&report), ("write_concern", Some(64), unknown));
        assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    }
}

/// What the tool says about its write concern is what it sends, and it reads back what a majority has.
#[tokio::test]
async fn the_concerns_in_the_manifest_are_those_on_the_wire() {
    concerns("").await;
}

pub async fn concerns(engine: &str) {
    let server = FakeServer::start(Script::default());
    let ended = Run::new(&inserts(2, engine), &server.uri()).finish().await;
    let insert = server.last("insert").unwrap();
    assert_eq!(insert.get_document("writeConcern").unwrap().get_str("w").unwrap(), "majority");
    let update = server.last("update").unwrap();
    assert_eq!(update.get_document("writeConcern").unwrap().get_str("w").unwrap(), "majority", "the barrier");
    let find = server.last("find").unwrap();
    assert_eq!(find.get_document("readConcern").unwrap().get_str("level").unwrap(), "majority");
    assert_eq!(ended.report()["manifest"]["workloads"][0]["write_concern"], "majority");

    let weak = format!("{}write_concern = 1\n", inserts(2, engine));
    let server = FakeServer::start(Script::default());
    let ended = Run::new(&weak, &server.uri()).finish().await;
    let insert = server.last("insert").unwrap();
    assert_eq!(insert.get_document("writeConcern").unwrap().get_i32("w").unwrap(), 1);
    assert_eq!(ended.report()["manifest"]["workloads"][0]["write_concern"], "1");
}

/// The load repeats a batch of which it does not know what became of it, and takes its own duplicates
/// for what they are.
#[tokio::test]
async fn the_load_gets_over_lost_replies_and_refusals() {
    let refused = Answer::Error { code: 10107, labels: vec!["RetryableWriteError"] };
    let rules = [Answer::CutReply, Answer::WriteConcernError { code: 64 }, refused];
    let rules = (2..).zip(rules).map(|(n, answer)| Rule::insert(When::Nth(n), answer)).collect();
    let server = FakeServer::start(Script { rules, ..Script::default() });
    let scenario = inserts(1, "").replace("documents = 0", "documents = 9_500");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    assert_eq!(number(&report["load"]["documents"]), 9_500);
    let [ok, failed, unknown, _] = counts(&report);
    assert_eq!((failed, unknown), (0, 0), "{report}");
    assert_eq!(books(&report), [9_500 + ok, 9_500 + ok, 0, 0, 0, 0]);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// An update that nobody knows of may have changed the document or not: either version is right.
#[tokio::test]
async fn an_update_of_unknown_outcome_is_no_corruption() {
    unknown_update("").await;
}

pub async fn unknown_update(engine: &str) {
    let cut = Rule { command: "update", when: When::Every(5), answer: Answer::CutReply };
    let service_time = Duration::from_millis(5);
    let server = FakeServer::start(Script { service_time, rules: vec![cut], ..Script::default() });
    let scenario = inserts(1, engine).replace("documents = 0", "documents = 20");
    let scenario = scenario.replace("{ insert = { batch = 1 } }", "{ mix = { read = 1, update = 1 } }");
    let ended = Run::new(&scenario.replace("2s", "4s"), &server.uri()).finish().await;
    let report = ended.report();
    let [ok, failed, unknown, _] = counts(&report);
    // The barriers of the load and of the check are updates, too.
    assert!(unknown >= 1 && unknown + 1 >= (server.count("update") - 2) / 5, "{report}");
    assert!(failed == 0 && ok > 20, "{report}");
    assert_eq!(only_error(&report), ("network", None, unknown));
    assert_eq!(books(&report), [20, 20, 0, 0, 0, 0]);
    assert_eq!(number(&report["ledger"]["corrupt"]) + number(&report["ledger"]["stale_reads"]), 0);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}
