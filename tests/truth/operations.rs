//! Every kind of operation against a server that misbehaves in one way at a time: what is wrong is found by
//! the operation itself, while the run goes on, and what is only unusual is not called wrong.

use std::time::Duration;

use mongosoak::dataset;
use mongosoak::scenario::Shape;
use serde_json::Value;

use crate::defects::spoil;
use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::{Answer, Rule, Script, When};
use crate::support::store::{Documents, Id};

const NAMESPACE: &str = "soak.docs";
const LOADED: i64 = 300;

fn scenario(op: &str) -> String {
    format!(
        r#"
name = "operations"
seed = 1
duration = "3s"
warmup = "0s"
[dataset]
documents = {LOADED}
indexes = ["int"]
[[workload]]
name = "work"
workers = 4
op = {op}
"#
    )
}

fn server(rules: Vec<Rule>) -> FakeServer {
    let service_time = Duration::from_millis(2);
    FakeServer::start(Script { service_time, rules, ..Script::default() })
}

fn rule(command: &'static str, when: When, answer: Answer) -> Rule {
    Rule { command, when, answer }
}

/// Runs an operation on few documents, one key after the other, so that each of them has its turn also on a
/// slow machine; changes them when it is under way.
async fn run_and(op: &str, change: impl FnOnce(&mut Documents)) -> Ended {
    let server = server(Vec::new());
    let few = scenario(op).replace("documents = 300", "documents = 60");
    let text = format!("{few}distribution = \"sequential\"\n");
    let running = Run::new(&text, &server.uri()).start();
    running.until("events.jsonl", "\"measure\"").await;
    server.documents(NAMESPACE, change);
    running.finish().await
}

async fn run(op: &str, rules: Vec<Rule>) -> (FakeServer, Ended) {
    let server = server(rules);
    let ended = Run::new(&scenario(op), &server.uri()).finish().await;
    (server, ended)
}

fn counts(report: &Value) -> [u64; 3] {
    ["ok", "failed", "unknown"].map(|name| number(&report["workloads"][0][name]))
}

fn books<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| number(&report["ledger"][name]))
}

/// Count and sample of the errors of a class.
fn errors(report: &Value, class: &str) -> (u64, String) {
    let all = report["workloads"][0]["errors"].as_array().unwrap();
    let found = all.iter().find(|error| error["class"] == class);
    found.map_or((0, String::new()), |e| (number(&e["count"]), e["sample"].as_str().unwrap().to_owned()))
}

const SCAN: &str = "{ scan = { length = 50 } }";
const FIND: &str = "{ find = { field = \"int\" } }";
const COUNT: &str = "{ aggregate = { length = 50 } }";

#[tokio::test]
async fn wrong_content_in_a_scan_or_a_find_is_found() {
    wrong_content("").await;
}

pub async fn wrong_content(engine: &str) {
    for op in [SCAN, FIND] {
        let ended = run_and(&format!("{op}\n{engine}"), |documents| spoil(documents, 30)).await;
        let report = ended.report();
        let (count, sample) = errors(&report, "wrong_content");
        assert!(count > 0 && sample.contains("document 30"), "{op}: {report}");
        assert_eq!(counts(&report)[1], count, "nothing else failed: {op}: {report}");
        assert!(counts(&report)[0] > count, "{op}: {report}");
        assert_eq!(ended.code, 3, "{op}: {}", ended.printed());
    }
}

#[tokio::test]
async fn a_document_that_is_missing_in_a_range_is_found() {
    missing_document("").await;
}

pub async fn missing_document(engine: &str) {
    for (op, words) in
        [(SCAN, "key 30 was not found"), (COUNT, "acknowledged"), (FIND, "key 30 was not found")]
    {
        let ended =
            run_and(&format!("{op}\n{engine}"), |documents| drop(documents.remove(&Id::Number(30)))).await;
        let report = ended.report();
        let (count, sample) = errors(&report, "not_found");
        assert!(count > 0 && sample.contains(words), "{op}: {report}");
        let [stale, lost, corrupt] = books(&report, ["stale_reads", "lost", "corrupt"]);
        assert_eq!((stale, lost, corrupt, counts(&report)[1]), (count, 1, 0, count), "{op}: {report}");
        assert_eq!(ended.code, 3, "{op}: {}", ended.printed());
    }
}

#[tokio::test]
async fn documents_that_come_twice_in_a_scan_are_found() {
    document_twice("").await;
}

pub async fn document_twice(engine: &str) {
    // The find of the load is the first one, and the check of the data comes long after these.
    let (_, ended) =
        run(&format!("{SCAN}\n{engine}"), vec![rule("find", When::First(40), Answer::LastTwice)]).await;
    let report = ended.report();
    let (count, sample) = errors(&report, "wrong_content");
    assert!((20..=39).contains(&count) && sample.contains("came twice"), "{report}");
    assert_eq!(books(&report, ["corrupt", "lost"]), [count, 0]);
    assert_eq!(ended.code, 3, "{}", ended.printed());
}

#[tokio::test]
async fn more_documents_than_were_sent_are_found_by_counting() {
    let stranger = dataset::Documents::new(Shape::Row, 1).document(70, 0);
    let ended = run_and(COUNT, |documents| drop(documents.insert(Id::Number(70), stranger))).await;
    let report = ended.report();
    let (count, sample) = errors(&report, "wrong_content");
    assert!(count > 0 && sample.contains("were sent"), "{report}");
    assert_eq!(books(&report, ["alien", "lost"]), [1, 0]);
    assert_eq!(ended.code, 3, "{}", ended.printed());
}

/// All kinds at once on few documents: updates, deletes, scans and finds of the same key meet all the time,
/// and none of that is a failure.
#[tokio::test]
async fn operations_that_meet_on_a_key_are_no_failures() {
    meeting("").await;
}

pub async fn meeting(engine: &str) {
    let mix = "{ mix = { insert = { weight = 2, batch = 3, ordered = false }, read = 4, \
               find = { weight = 2, field = \"int\" }, scan = { weight = 2, length = 50 }, update = 3, \
               replace = 3, read_modify_write = 3, delete = 3, aggregate = 2 } }";
    let (server, ended) = run(&format!("{mix}\n{engine}"), Vec::new()).await;
    let report = ended.report();
    let [ok, failed, unknown] = counts(&report);
    assert!(ok > 200 && failed + unknown == 0, "{report}");
    let names = ["acknowledged", "checked", "present", "deleted"];
    let [acknowledged, checked, present, deleted] = books(&report, names);
    assert!(deleted > 10 && present > 10, "{report}");
    assert_eq!((acknowledged, checked), (present + deleted, acknowledged), "{report}");
    assert_eq!(server.documents(NAMESPACE, |documents| documents.len() as u64), present);
    assert!(["insert", "find", "update", "delete", "aggregate"].iter().all(|c| server.count(c) > 10));
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// The same by our own client, as far as it goes.
#[tokio::test]
async fn operations_of_the_wire_engine_that_meet_on_a_key_are_no_failures() {
    let mix = "{ mix = { insert = { weight = 2, batch = 3, ordered = false }, read = 4, update = 3, \
               replace = 3, read_modify_write = 3, delete = 3 } }\nengine = \"wire\"\nread_concern = \"majority\"";
    let (server, ended) = run(mix, Vec::new()).await;
    let report = ended.report();
    let [ok, failed, unknown] = counts(&report);
    assert!(ok > 200 && failed + unknown == 0, "{report}");
    let names = ["acknowledged", "checked", "present", "deleted", "corrupt"];
    let [acknowledged, checked, present, deleted, corrupt] = books(&report, names);
    assert!(deleted > 10 && present > 10 && corrupt == 0, "{report}");
    assert_eq!((acknowledged, checked), (present + deleted, acknowledged), "{report}");
    assert_eq!(server.documents(NAMESPACE, |documents| documents.len() as u64), present);
    assert!(["insert", "find", "update", "delete"].iter().all(|c| server.count(c) > 10));
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// A find asks for the value that was inserted; an updated document has another one.
#[tokio::test]
async fn a_find_of_a_document_that_was_updated_finds_nothing_and_is_right() {
    find_of_updated("").await;
}

pub async fn find_of_updated(engine: &str) {
    let mix = "{ mix = { find = { weight = 1, field = \"int\" }, update = 2 } }";
    let (_, ended) = run(&format!("{mix}\n{engine}"), Vec::new()).await;
    let report = ended.report();
    let [ok, failed, unknown] = counts(&report);
    assert!(ok > 100 && failed + unknown == 0, "{report}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

#[tokio::test]
async fn a_delete_that_is_acknowledged_and_not_done_is_a_lost_write() {
    let delete = format!("{}rate = \"50/s\"\n", scenario("\"delete\""));
    for (concern, engine, code) in
        [("\"majority\"", "driver", 3), ("1", "driver", 0), ("\"majority\"", "wire", 3)]
    {
        let server = server(vec![rule("delete", When::Every(10), Answer::WithoutEffect)]);
        let text = format!("{delete}write_concern = {concern}\nengine = \"{engine}\"\n");
        let ended = Run::new(&text, &server.uri()).finish().await;
        let report = ended.report();
        let names = ["lost", "lost_permitted", "deleted", "present"];
        let [lost, lost_permitted, deleted, present] = books(&report, names);
        let back = server.count("delete") / 10;
        let expected = if code == 3 { (back, 0) } else { (0, back) };
        assert!(back > 3 && deleted > 3 * back, "{report}");
        assert_eq!((lost, lost_permitted), expected, "{report}");
        assert_eq!(LOADED as u64, deleted + present + back, "{report}");
        let detail = report["ledger"]["samples"][0]["detail"].as_str().unwrap();
        assert!(detail.starts_with("its delete was acknowledged"), "{detail}");
        assert_eq!(ended.code_if_not_starved(), code, "{}", ended.printed());
    }
}

#[tokio::test]
async fn a_delete_whose_reply_is_cut_off_may_have_happened() {
    cut_delete("").await;
}

pub async fn cut_delete(engine: &str) {
    let server = server(vec![rule("delete", When::Every(5), Answer::CutReply)]);
    let text = format!("{}rate = \"50/s\"\n", scenario(&format!("\"delete\"\n{engine}")));
    let ended = Run::new(&text, &server.uri()).finish().await;
    let report = ended.report();
    let [ok, failed, unknown] = counts(&report);
    assert!(unknown > 3 && failed == 0, "{report}");
    let names = ["deleted", "delete_unknown", "present", "lost"];
    assert_eq!(books(&report, names), [ok, unknown, LOADED as u64 - ok - unknown, 0], "{report}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// The driver lost the answer to an insert, sent it again and was told that the key is taken: by itself.
#[tokio::test]
async fn a_duplicate_of_a_second_try_is_acknowledged_by_reading_it_back() {
    for (batch, ordered) in [(1, true), (10, true), (10, false)] {
        let insert = format!("{{ insert = {{ batch = {batch}, ordered = {ordered} }} }}");
        let (server, ended) = run(&insert, vec![rule("insert", When::Every(5), Answer::AsSecondTry)]).await;
        let report = ended.report();
        let [ok, failed, unknown] = counts(&report);
        assert_eq!((failed, unknown), (0, 0), "{report}");
        // The load is the first insert.
        let retried = (ok + 1) / 5;
        assert!(retried > 3, "{report}");
        let names = ["acknowledged", "present", "read_back", "refused_present"];
        let all = LOADED as u64 + ok * batch;
        assert_eq!(books(&report, names), [all, all, retried * batch, 0], "{batch} {ordered}: {report}");
        assert_eq!(server.count("insert"), ok + 1);
        let told = ended.reasons().iter().any(|reason| reason.contains("reading them back"));
        assert!(told, "{}", ended.printed());
        assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    }
}

#[tokio::test]
async fn a_key_that_somebody_else_took_is_a_failure_and_a_finding() {
    let server = server(Vec::new());
    let text = scenario("\"insert\"").replace("workers = 4", "rate = \"20/s\"");
    let running = Run::new(&text, &server.uri()).start();
    running.until("events.jsonl", "\"measure\"").await;
    let foreign = dataset::Documents::new(Shape::Row, 99).document(340, 0);
    server.documents(NAMESPACE, |documents| drop(documents.insert(Id::Number(340), foreign)));
    let ended = running.finish().await;
    let report = ended.report();
    let (count, sample) = errors(&report, "duplicate_key");
    assert!(sample.contains("not ours"), "{report}");
    assert_eq!((count, counts(&report)[1]), (1, 1));
    assert_eq!(books(&report, ["read_back", "corrupt", "lost"]), [0, 1, 0], "{report}");
    assert_eq!(ended.code, 3, "{}", ended.printed());
}

#[tokio::test]
async fn the_read_concern_and_the_pipeline_of_the_user_are_what_is_sent() {
    read_concern("").await;
}

pub async fn read_concern(engine: &str) {
    let mix = r#"{ mix = { scan = 1, aggregate = { weight = 1, pipeline = '[{"$match": {"_id": 5}}]' } } }"#;
    let server = server(Vec::new());
    let text = format!("{}read_concern = \"linearizable\"\n", scenario(&format!("{mix}\n{engine}")));
    let ended = Run::new(&text, &server.uri()).finish().await;
    let report = ended.report();
    assert_eq!(counts(&report)[1..], [0, 0], "{report}");
    let aggregate = server.last("aggregate").unwrap();
    assert_eq!(aggregate.get_document("readConcern").unwrap().get_str("level").unwrap(), "linearizable");
    let stages = bson::Document::try_from(&*aggregate).unwrap().get_array("pipeline").unwrap().clone();
    let stages = bson::Bson::Array(stages).to_string();
    assert!(stages.contains("$match") && stages.contains("$limit"), "{stages}");
    let manifest = &report["manifest"]["workloads"][0];
    assert_eq!(
        (&manifest["read_concern"], &manifest["op"]),
        (&"linearizable".into(), &"scan 1, aggregate 1".into())
    );
    assert_eq!(manifest["operations"][0]["op"]["scan"]["length"], 100, "{manifest}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}
