//! A running test is looked at and changed from outside.

use std::time::Duration;

use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::Run;
use crate::support::script::Script;

const SCENARIO: &str = r#"
name = "control"
seed = 1
duration = "15s"
warmup = "0s"
[dataset]
documents = 500
[[workload]]
name = "readers"
op = "read"
workers = 4
rate = "1/m"
[[workload]]
name = "flat-out"
op = "read"
"#;

async fn ctl(out: &str, arguments: &[&str]) -> crate::support::run::Ended {
    Run::bare(&[&["ctl", out], arguments].concat()).finish().await
}

#[tokio::test]
async fn a_rate_is_changed_at_once_and_the_change_is_recorded() {
    let server = FakeServer::start(Script { service_time: Duration::from_millis(2), ..Script::default() });
    let run = Run::new(SCENARIO, &server.uri());
    let out = run.out();
    let dir = out.to_str().unwrap().to_owned();
    let running = run.start();
    running.until("events.jsonl", "\"phase\":\"measure\"").await;

    let refused = ctl(&dir, &["rate", "reader=200/s"]).await;
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("valid: readers, flat-out"), "{}", refused.stderr);
    let refused = ctl(&dir, &["rate", "readers=200/s", "flat-out=5/s"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("closed loop"), "{}", refused.stderr);
    let changed = ctl(&dir, &["rate", "readers=200/s"]).await;
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let status = ctl(&dir, &["status", "--json"]).await;
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["phase"], &status["workloads"][0]["rate_ops_s"]), (&"measure".into(), &200.0.into()));
    assert_eq!(status["workloads"][1]["rate_ops_s"], Value::Null);

    let ended = running.finish().await;
    let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let changes: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["event"] == "rate_changed")
        .collect();
    assert_eq!(changes.len(), 1, "what was refused changed nothing: {changes:?}");
    let change = &changes[0];
    assert_eq!((&change["workload"], &change["by"]), (&"readers".into(), &"ctl".into()));
    let at = change["t_s"].as_f64().unwrap();
    let rows = ended.rows("timeline.csv");
    let ok = |t_s: f64| {
        let row =
            |r: &&crate::support::run::Row| r.text("workload") == "readers" && r.number("t_s") == Some(t_s);
        rows.iter().find(row).unwrap().count("ok")
    };
    // Workers that slept for a minute woke up.
    if at.floor() + 3.0 < 14.0 && !ended.starved() {
        assert!((20..=300).contains(&ok(at.floor() + 2.0)), "{}", ok(at.floor() + 2.0));
    }
    assert!(!out.join("control.sock").exists());
    let over = ctl(&dir, &["status"]).await;
    assert!(over.code == 2 && over.stderr.contains("it is over"), "{}", over.stderr);
}
