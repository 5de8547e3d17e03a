//! A server that stands still for some seconds: no part of the freeze may vanish from the figures.

use std::ops::Range;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Row, Run, number};
use crate::support::script::{Origin, Script};

/// The load asks once whether the collection is empty; the next read is the first operation, and so the
/// start of the measured phase.
const FIRST_READ: Origin = Origin::Arrival("find", 2);

pub fn frozen(freeze: Range<u64>) -> FakeServer {
    let freeze = Duration::from_secs(freeze.start)..Duration::from_secs(freeze.end);
    let service_time = Duration::from_millis(2);
    FakeServer::start(Script { service_time, origin: FIRST_READ, freezes: vec![freeze], ..Script::default() })
}

pub fn readers(seconds: u64, more: &str) -> String {
    format!(
        r#"
name = "freeze"
seed = 1
duration = "{seconds}s"
warmup = "0s"
[dataset]
documents = 500
[[workload]]
name = "readers"
op = "read"
deadline = "30s"
{more}
"#
    )
}

/// Operations in `latency.hlog`, as any reader of this standard format finds them.
fn logged(ended: &Ended, tag: &str) -> u64 {
    let log = std::fs::read(ended.out().join("latency.hlog")).unwrap();
    let mut decoder = Deserializer::new();
    let mut count = |entry: LogEntry<'_>| match entry {
        LogEntry::Interval(interval) if interval.tag().is_some_and(|t| t.as_str().starts_with(tag)) => {
            let kind = interval.tag().unwrap().as_str();
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let histogram: Histogram<u64> = decoder.deserialize(&mut bytes.as_slice()).unwrap();
            if kind.ends_with("/service") { 0 } else { histogram.len() }
        }
        _ => 0,
    };
    IntervalLogIterator::new(&log).map(|entry| count(entry.unwrap())).sum()
}

/// Length of the longest gap between two successes, and how many there are.
fn longest_gap(ended: &Ended) -> f64 {
    let length = |row: &Row| row.number("to_s").unwrap() - row.number("from_s").unwrap();
    ended.rows("gaps.csv").iter().map(length).fold(0.0, f64::max)
}

/// 100/s for 60 s: 6,000 arrivals, of which the 1,000 in the freeze wait between 10 s and nothing. So the
/// 600th largest wait is 4.0 s, the 60th largest 9.4 s.
fn check_open_loop(ended: &Ended) {
    let report = ended.report();
    let work = &report["workloads"][0];
    let seconds = |name: &str| number(&work["response_us"][name]) as f64 / 1e6;
    let all: u64 = ["ok", "failed", "unknown", "missed"].iter().map(|name| number(&work[name])).sum();
    assert_eq!(all, 6_000, "{work}");
    assert_eq!(number(&work["response_us"]["count"]), 6_000);
    let scheduled: u64 = ended.rows("availability.csv").iter().map(|row| row.count("scheduled")).sum();
    assert_eq!((scheduled, logged(ended, "readers/")), (6_000, 6_000));
    if ended.starved() {
        return;
    }
    assert!((0.002..0.006).contains(&seconds("p50")), "{work}");
    assert!((3.7..4.3).contains(&seconds("p90")), "{work}");
    assert!((9.2..9.6).contains(&seconds("p99")), "{work}");
    assert!((9.8..10.2).contains(&seconds("max")), "{work}");
    let gap = longest_gap(ended);
    assert!((9.95..10.05).contains(&gap), "{gap}");
}

/// One row a second, empty where nothing finished.
fn check_timeline(ended: &Ended, workers: u64) {
    let rows = ended.rows("timeline.csv");
    let seconds: Vec<u64> = rows.iter().map(|row| row.count("t_s")).collect();
    assert_eq!(seconds, (0..60).collect::<Vec<_>>());
    for row in &rows {
        assert_eq!(row.count("workers_alive"), workers);
        let finished = row.count("ok") + row.count("failed") + row.count("unknown");
        for column in ["p50_us", "p90_us", "p99_us", "p999_us"] {
            assert_eq!(row.number(column).is_some(), finished > 0, "{column} at {}", row.count("t_s"));
        }
    }
    // Some reads of second 20 were answered just before the freeze.
    for row in &rows[21..30] {
        assert_eq!(row.count("ok") + row.count("failed") + row.count("unknown"), 0);
        assert_eq!(row.text("max_us"), "");
    }
    if ended.starved() {
        return;
    }
    // A row is taken just after its second: row 29 sees the first answers already.
    for row in &rows[21..29] {
        assert_eq!(row.count("in_flight"), workers);
        let since_s = row.number("oldest_ms").unwrap() / 1e3 + 20.0;
        let taken_s = row.number("t_s").unwrap() + 1.0;
        assert!((taken_s - 0.1..taken_s + 0.5).contains(&since_s), "{since_s} at {taken_s}");
    }
}

#[tokio::test]
async fn an_open_loop_counts_every_arrival_of_a_freeze() {
    open_loop("").await;
}

pub async fn open_loop(engine: &str) {
    let server = frozen(20..30);
    let scenario = readers(60, &format!("workers = 8\nrate = \"100/s\"\n{engine}"));
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    check_open_loop(&ended);
    check_timeline(&ended, 8);
    // No fault was planned and no limit set, and all documents are there: nothing speaks against it.
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    assert_eq!(number(&ended.report()["ledger"]["present"]), 500);
}

#[tokio::test]
async fn a_closed_loop_shows_the_freeze_as_one_long_operation_of_each_worker() {
    closed_loop("").await;
}

pub async fn closed_loop(engine: &str) {
    let server = frozen(3..7);
    let scenario = readers(10, &format!("workers = 4\n{engine}"));
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    let response = &report["workloads"][0]["response_us"];
    // The upper edges leave room for a machine with other work; nothing here can be too short.
    assert!((3_950_000..5_000_000).contains(&number(&response["max"])), "{response}");
    assert!(number(&response["p50"]) < 100_000, "{response}");
    assert_eq!(number(&response["count"]), number(&report["workloads"][0]["ok"]));
    assert_eq!(number(&report["workloads"][0]["missed"]), 0, "a closed loop has no arrivals");
    let after: u64 = ended.rows("timeline.csv")[7..].iter().map(|row| row.count("ok")).sum();
    assert!(after > 50, "it went on after the freeze: {after}");
    let gap = longest_gap(&ended);
    assert!(gap >= 3.95 && (gap < 4.05 || ended.starved()), "{gap}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// At the end all workers are stuck: what they never took must not be left out, and what they sent
/// counts as failed at its deadline.
#[tokio::test]
async fn a_freeze_that_outlasts_the_run_is_not_cut_off() {
    outlasting("").await;
}

pub async fn outlasting(engine: &str) {
    let server = frozen(5..12);
    let scenario = readers(8, &format!("workers = 4\nrate = \"100/s\"\n{engine}")).replace("30s", "2s");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    let work = &report["workloads"][0];
    let [ok, failed, missed] = ["ok", "failed", "missed"].map(|name| number(&work[name]));
    assert_eq!((ok + failed + missed, number(&work["unknown"])), (800, 0), "{work}");
    // Each worker: one read from the start of the freeze to its deadline, and another one.
    assert_eq!(failed, 8, "{work}");
    assert!(missed > 250, "{work}");
    assert_eq!(work["errors"][0]["class"], "deadline");
    let gaps = ended.rows("gaps.csv");
    let last = gaps.last().unwrap();
    assert!((4.9..5.5).contains(&last.number("from_s").unwrap()));
    assert_eq!(last.text("to_s"), "8.000000", "it is open at the end");
    assert_eq!(ended.rows("timeline.csv").len(), 8);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// 45/s for workers that can do 40/s: at the end some twenty arrivals wait, most of them for less than a
/// second. How many are sent and how many are missed depends on the machine, but none is left out.
#[tokio::test]
async fn what_waits_for_a_worker_at_the_end_is_booked() {
    let service_time = Duration::from_millis(200);
    let server = FakeServer::start(Script { service_time, ..Script::default() });
    let ended = Run::new(&readers(4, "workers = 8\nrate = \"45/s\""), &server.uri()).finish().await;
    let work = &ended.report()["workloads"][0];
    let [ok, missed] = ["ok", "missed"].map(|name| number(&work[name]));
    assert_eq!(ok + missed, 180, "{work}");
}
