//! A freeze of 45 s never vanishes from the percentiles, whatever the loop does about it.
//!
//! 100/s for 60 s: 6,000 arrivals, of which the 4,500 in the freeze wait between 45 s and nothing.

use crate::freeze::{frozen, readers};
use crate::support::run::{Ended, Run, number};

const FREEZE: std::ops::Range<u64> = 5..50;

async fn run(more: &str) -> Ended {
    let server = frozen(FREEZE);
    let scenario = readers(60, more).replace("deadline = \"30s\"", "deadline = \"60s\"");
    Run::new(&scenario, &server.uri()).finish().await
}

async fn open_loop(after_outage: &str) -> Ended {
    let ended = run(&format!("workers = 8\nrate = \"100/s\"\nafter_outage = \"{after_outage}\"")).await;
    let work = &ended.report()["workloads"][0];
    let all: u64 = ["ok", "failed", "unknown", "missed"].iter().map(|name| number(&work[name])).sum();
    assert_eq!((all, number(&work["response_us"]["count"])), (6_000, 6_000), "{work}");
    let rows = ended.rows("availability.csv");
    let scheduled: u64 = rows.iter().map(|row| row.count("scheduled")).sum();
    assert_eq!(scheduled, 6_000, "each arrival counts where it was intended");
    let starts: Vec<u64> = rows.iter().map(|row| row.count("from_ms")).collect();
    assert!(starts.windows(2).all(|pair| pair[0] < pair[1]), "no piece is written twice");
    let within: u64 =
        (FREEZE.start + 1..FREEZE.end - 1).map(|second| of_second(&ended, second, "ok_1s")).sum();
    assert_eq!(within, 0, "nothing intended in the freeze was good");
    assert_eq!(work["note"], serde_json::Value::Null);
    // No fault was planned, and the server was the only one that stood still.
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    ended
}

/// Sum of a column of the pieces that begin in this second.
fn of_second(ended: &Ended, second: u64, column: &str) -> u64 {
    let rows = ended.rows("availability.csv");
    rows.iter().filter(|row| row.count("from_ms") / 1_000 == second).map(|row| row.count(column)).sum()
}

/// Percentiles of the response time, in seconds.
fn percentiles(ended: &Ended) -> [f64; 4] {
    let response = &ended.report()["workloads"][0]["response_us"];
    ["p50", "p90", "p99", "max"].map(|name| number(&response[name]) as f64 / 1e6)
}

/// The 3,000th, 600th and 60th largest of 4,500 waits between 45 s and nothing.
fn check_waits_of_the_freeze(ended: &Ended) {
    if ended.starved() {
        return;
    }
    let [p50, p90, p99, max] = percentiles(ended);
    assert!((14.5..18.0).contains(&p50), "p50 {p50}");
    assert!((38.5..42.0).contains(&p90), "p90 {p90}");
    assert!((44.0..45.5).contains(&p99), "p99 {p99}");
    assert!((44.9..45.6).contains(&max), "max {max}");
}

#[tokio::test]
async fn what_is_dropped_keeps_its_wait() {
    let ended = open_loop("drop").await;
    assert!(number(&ended.report()["workloads"][0]["missed"]) > 4_000);
    check_waits_of_the_freeze(&ended);
}

#[tokio::test]
async fn a_burst_sends_everything_and_hides_nothing() {
    let ended = open_loop("burst").await;
    if !ended.starved() {
        assert_eq!(number(&ended.report()["workloads"][0]["missed"]), 0);
    }
    check_waits_of_the_freeze(&ended);
}

/// At 110/s only 1,100 of 4,500 are caught up until the end; the others are missed, with their waits.
#[tokio::test]
async fn paced_keeps_to_its_rate_and_hides_nothing() {
    let ended = open_loop("paced").await;
    let rows = ended.rows("timeline.csv");
    let sent = |row: &crate::support::run::Row| row.count("ok") + row.count("failed") + row.count("unknown");
    // Eight in flight may end a second late, on top of the 110; the first second ends those that were stuck.
    let fastest = rows[51..59].iter().map(sent).max().unwrap();
    assert!(fastest <= 130, "{fastest} in one second, at 110/s");
    let missed: u64 = rows[..59].iter().map(|row| row.count("missed")).sum();
    assert_eq!(missed, 0, "nothing is missed before the end");
    if ended.starved() {
        return;
    }
    let caught_up: u64 = rows[51..59].iter().map(sent).sum();
    assert!(caught_up >= 500, "it does catch up: {caught_up} in 8 s");
    let [p50, p90, p99, max] = percentiles(&ended);
    assert!((24.0..32.0).contains(&p50), "p50 {p50}");
    assert!((42.0..45.5).contains(&p90), "p90 {p90}");
    assert!((44.0..45.5).contains(&p99) && max >= 44.9, "p99 {p99}, max {max}");
}

/// A closed loop sends nothing while it waits: its percentiles are true and say little, and the report says
/// that.
#[tokio::test]
async fn a_closed_loop_says_that_its_percentiles_hide_waiting() {
    let ended = run("workers = 4").await;
    let report = ended.report();
    let work = &report["workloads"][0];
    assert!(number(&work["response_us"]["max"]) >= 44_900_000, "{work}");
    assert!(number(&work["response_us"]["p99"]) < 1_000_000, "{work}");
    assert!(work["note"].as_str().unwrap().contains("the percentiles hide waiting"), "{work}");
    assert!(ended.stdout.contains("readers: closed loop: "), "{}", ended.stdout);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}
