//! Each documented exit code, from a run that must end with it; the code also stands in `report.json`.

use std::time::Duration;

use bson::rawdoc;
use mongosoak::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Run, number};
use crate::support::script::Script;
use crate::support::store::Id;

/// Nobody listens on the discard port.
const DEAD: &str = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=500";

/// A closed loop that leaves the processors alone.
const READERS: &str = r#"
name = "codes"
seed = 1
duration = "2s"
warmup = "0s"
[dataset]
documents = 100
[[workload]]
name = "readers"
op = "read"
"#;

fn server() -> FakeServer {
    FakeServer::start(Script { service_time: Duration::from_millis(10), ..Script::default() })
}

#[tokio::test]
async fn a_clean_run_passes() {
    let server = server();
    let ended = Run::new(READERS, &server.uri()).finish().await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    let report = ended.report();
    assert_eq!(report["verdict"]["outcome"], "pass");
    assert_eq!(number(&report["ledger"]["present"]), 100);
    assert!(ended.stdout.to_lowercase().contains("pass"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_broken_limit_fails() {
    let server = server();
    let scenario = format!("{READERS}[limits]\np99 = {{ readers = \"1us\" }}\n");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    assert_eq!(ended.code, 1, "{}", ended.printed());
    let report = ended.report();
    assert_eq!(report["verdict"]["outcome"], "fail");
    assert_eq!(
        (report["limits"][0]["name"].as_str(), report["limits"][0]["ok"].as_bool()),
        (Some("p99.readers"), Some(false))
    );
}

#[tokio::test]
async fn a_bad_scenario_touches_nothing() {
    let server = server();
    let partition = format!("{READERS}[[fault]]\ndo = \"partition\"\nat = [\"1s\"]\n");
    for (scenario, says) in [
        (READERS.replace("seed", "sed"), "seed"),
        (partition, "partition needs"),
        ("duration = ".to_owned(), "TOML"),
    ] {
        let run = Run::new(&scenario, &server.uri());
        let out = run.out();
        let ended = run.finish().await;
        assert_eq!(ended.code, 2, "{}", ended.printed());
        assert!(ended.stderr.contains(says), "{}", ended.printed());
        assert!(!out.exists(), "nothing was made");
    }
    assert_eq!(server.most_connections(), 0, "nobody was asked");
}

#[tokio::test]
async fn a_deployment_that_is_not_there_is_an_error_soon() {
    let clock = Clock::start();
    let ended = Run::new(READERS, DEAD).finish().await;
    assert!(clock.now() < Duration::from_secs(8), "{:?}", clock.now());
    assert_eq!(ended.code, 5, "{}", ended.printed());
    assert_eq!(ended.report()["verdict"]["outcome"], "error");
    assert!(ended.reasons()[0].contains("no answer"), "{}", ended.printed());
}

#[tokio::test]
async fn a_collection_of_somebody_else_is_refused_and_left_alone() {
    let server = server();
    let theirs = rawdoc! { "_id": 5_i64, "precious": true };
    server.documents("soak.docs", |documents| {
        documents.insert(Id::Number(5), theirs.clone());
    });
    let ended = Run::new(READERS, &server.uri()).finish().await;
    assert_eq!(ended.code, 5, "{}", ended.printed());
    assert!(ended.reasons()[0].contains("collection soak.docs is not empty"), "{}", ended.printed());
    let left = server.documents("soak.docs", |documents| documents.values().cloned().collect::<Vec<_>>());
    assert_eq!(left, [theirs]);
    assert_eq!(["insert", "update", "createIndexes", "drop"].map(|name| server.count(name)), [0; 4]);
}

#[tokio::test]
async fn an_interrupted_run_leaves_a_report() {
    let server = server();
    let running = Run::new(&READERS.replace("2s", "10m"), &server.uri()).start();
    running.until("timeline.csv", "\n1,readers").await;
    let clock = Clock::start();
    running.signal(Signal::SIGINT);
    let ended = running.finish().await;
    assert!(clock.now() < Duration::from_secs(15), "{:?}", clock.now());
    assert_eq!(ended.code, 130, "{}", ended.printed());
    let report = ended.report();
    assert_eq!(report["verdict"]["outcome"], "interrupted");
    assert!(ended.reasons()[0].contains("SIGINT"), "{}", ended.printed());
    let duration_s = report["run"]["duration_s"].as_f64().unwrap();
    assert!((2.0..15.0).contains(&duration_s), "{duration_s}");
    assert!(number(&report["workloads"][0]["ok"]) > 0);
    let rows = ended.rows("timeline.csv");
    assert_eq!(rows.len(), duration_s.ceil() as usize, "no second is left out");
    let events = std::fs::read_to_string(ended.out().join("events.jsonl")).unwrap();
    assert!(events.contains("\"interrupted\"") && events.trim_end().ends_with("\"finished\"}"), "{events}");
}

#[tokio::test]
async fn an_interrupted_warm_up_leaves_a_report() {
    let server = server();
    let running = Run::new(&READERS.replace("0s", "10m"), &server.uri()).start();
    running.until("warmup.csv", "\n0,readers").await;
    running.signal(Signal::SIGTERM);
    let ended = running.finish().await;
    assert_eq!(ended.code, 130, "{}", ended.printed());
    assert!(ended.reasons()[0].contains("SIGTERM"), "{}", ended.printed());
}

/// The load answers so slowly that it would last for minutes; a second signal does not wait for it.
#[tokio::test]
async fn an_interrupted_load_leaves_a_report() {
    for signals in [1, 2] {
        let server = FakeServer::start(Script { service_time: Duration::from_secs(3), ..Script::default() });
        let running = Run::new(&READERS.replace("= 100", "= 1_000_000"), &server.uri()).start();
        running.until("events.jsonl", "\"load\"").await;
        let clock = Clock::start();
        for _ in 0..signals {
            running.signal(Signal::SIGINT);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let ended = running.finish().await;
        assert!(clock.now() < Duration::from_secs(8), "{:?}", clock.now());
        assert_eq!(ended.code, 130, "{}", ended.printed());
        assert!(ended.reasons()[0].contains("SIGINT"), "{}", ended.printed());
    }
}

/// Nothing could be written any more, and yet everything until then can be read.
#[tokio::test]
async fn a_killed_run_can_still_be_judged() {
    let server = server();
    let running = Run::new(&READERS.replace("2s", "10m"), &server.uri()).start();
    running.until("timeline.csv", "\n2,readers").await;
    running.signal(Signal::SIGKILL);
    let killed = running.finish().await;
    assert!(!killed.out().join("report.json").exists());
    let judged = Run::bare(&["report", killed.out().to_str().unwrap()]).finish().await;
    assert_eq!(judged.code, 5, "{}", judged.printed());
    let report = std::fs::read_to_string(killed.out().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let reason = report["verdict"]["reasons"][0]["text"].as_str().unwrap();
    assert!(reason.contains("did not end in order") && reason.contains("measure"), "{reason}");
    let ok = number(&report["workloads"][0]["ok"]);
    let duration_s = report["run"]["duration_s"].as_f64().unwrap();
    assert!(ok > 10 && duration_s >= 3.0, "{report}");
    let throughput_ops_s = report["workloads"][0]["throughput_ops_s"].as_f64().unwrap();
    // Both are printed as decimals: the last bit may differ.
    assert!((throughput_ops_s * duration_s / ok as f64 - 1.0).abs() < 1e-12, "{report}");
}

/// The same directory judged again says the same.
#[tokio::test]
async fn a_report_can_be_made_again() {
    let server = server();
    let ended = Run::new(READERS, &server.uri()).finish().await;
    let first = ended.report();
    let again = Run::bare(&["report", ended.out().to_str().unwrap()]).finish().await;
    assert_eq!(again.code, ended.code, "{}", again.printed());
    assert_eq!(ended.report(), first);
}
