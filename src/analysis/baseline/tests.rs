use std::time::Duration;

use super::*;
use crate::analysis::testing::{Load, P99_US};
use crate::recording::Second;

fn room(injected_s: f64) -> Room {
    Room { from_s: 0.0, after: None, unrecovered: None, injected_s, planned_distance_s: injected_s }
}

fn before(load: Load, injected_s: f64) -> Result<Baseline, String> {
    measure(&load.build(), &room(injected_s), &Measures::default())
}

/// Deterministic scatter: the sum of two rows of numbers without a common period.
fn noisy(seconds: usize, level: u64, swing: u64) -> Load {
    let scatter = |i: usize| (i * 7 % 11 + i * 5 % 13) as u64 * swing / 22;
    Load::closed("writers").series((0..seconds).map(move |i| level - swing / 2 + scatter(i)))
}

#[test]
fn an_even_workload_is_steady_and_the_window_ends_five_seconds_before() {
    let load = Load::open("writers", 500).ok(355, 500).ok(5, 100);
    let found = before(load, 360.0).unwrap();
    assert_eq!(found.throughput_ops_s, 500.0);
    assert_eq!(found.p99_us, Some(P99_US));
    assert_eq!(found.window_s, 300.0);
    assert_eq!(found.error_share, 0.0);
    assert_eq!((found.steady, found.unsteady_because), (true, None));
}

#[test]
fn the_window_starts_where_the_fault_before_was_over() {
    let load = Load::open("writers", 500).ok(100, 100).ok(100, 500).build();
    let room = Room { from_s: 99.4, after: Some("f1".into()), ..room(200.0) };
    let found = measure(&load, &room, &Measures::default()).unwrap();
    assert_eq!((found.window_s, found.throughput_ops_s, found.steady), (95.0, 500.0, true));
}

#[test]
fn the_scenario_may_ask_for_a_shorter_window() {
    let measures = Measures { baseline: Duration::from_secs(10), ..Measures::default() };
    let load = Load::open("writers", 500).ok(300, 500).build();
    let found = measure(&load, &room(300.0), &measures).unwrap();
    assert_eq!((found.window_s, found.steady), (10.0, true));
}

#[test]
fn a_short_scenario_may_have_a_short_steady_baseline() {
    // A fault 12 s after the start: 7 s are all that there can be.
    let found = before(Load::open("writers", 500).ok(12, 500), 12.0).unwrap();
    assert_eq!((found.window_s, found.steady), (7.0, true));
    assert_eq!(found.p99_us, Some(P99_US), "from the 5 s p99s: no 10 s one fits");
}

#[test]
fn a_short_window_is_not_excused_where_the_plan_gave_time() {
    let load = Load::open("writers", 500).ok(300, 500).build();
    let room = Room { from_s: 283.0, after: Some("f1".into()), ..room(300.0) };
    let found = measure(&load, &room, &Measures::default()).unwrap();
    assert_eq!(found.unsteady_because.as_deref(), Some("only 12 s of baseline"));
    assert_eq!((found.window_s, found.steady), (12.0, false));
    // 24 s from fault to fault: the same window is all that could be had.
    let close = Room { planned_distance_s: 24.0, ..room };
    assert!(measure(&load, &close, &Measures::default()).unwrap().steady);
}

#[test]
fn under_five_seconds_there_is_none() {
    let why = before(Load::open("writers", 500).ok(60, 500), 9.9).unwrap_err();
    assert_eq!(why, "only 10 s before the fault, 10 are needed");
    assert!(before(Load::open("writers", 500).ok(60, 500), 10.0).is_ok());
    assert!(before(Load::open("writers", 500).ok(60, 500), 0.0).is_err());
}

#[test]
fn a_fault_that_still_holds_leaves_none() {
    let load = Load::open("writers", 500).ok(300, 500).build();
    let room = Room { from_s: f64::INFINITY, after: Some("f1".into()), ..room(300.0) };
    assert_eq!(measure(&load, &room, &Measures::default()).unwrap_err(), "f1 was still in force");
}

#[test]
fn silence_before_the_fault_is_no_baseline() {
    let why = before(Load::closed("writers").ok(100, 0), 100.0).unwrap_err();
    assert_eq!(why, "nothing was acknowledged before the fault");
}

#[test]
fn an_unrecovered_tail_is_flagged() {
    let load = Load::open("writers", 500).ok(300, 400).build();
    let room = Room { unrecovered: Some("f1".into()), ..room(300.0) };
    let found = measure(&load, &room, &Measures::default()).unwrap();
    assert_eq!(found.throughput_ops_s, 400.0);
    assert_eq!(found.unsteady_because.as_deref(), Some("service had not recovered from f1"));
}

#[test]
fn a_drift_of_more_than_five_percent_is_not_steady() {
    let rising = |by: u64| Load::closed("writers").series((0..300).map(move |i| 1_000 + by * i / 300));
    let found = before(rising(100), 305.0).unwrap();
    assert!(!found.steady);
    let why = found.unsteady_because.unwrap();
    assert!(why.starts_with("throughput drifted by +10 % over 300 s"), "{why}");
    assert!(before(rising(40), 305.0).unwrap().steady);
}

#[test]
fn scatter_of_more_than_a_fifth_is_not_steady() {
    let found = before(noisy(300, 1_000, 1_200), 305.0).unwrap();
    let why = found.unsteady_because.unwrap();
    assert!(why.starts_with("throughput scattered by"), "{why}");
    assert!(before(noisy(300, 1_000, 400), 305.0).unwrap().steady);
}

#[test]
fn noise_in_a_short_window_is_not_taken_for_drift() {
    // 7 s of a closed loop: the slope through them is over 5 %, but within the scatter.
    let noise = [980, 1_000, 960, 1_020, 990, 1_060, 1_030];
    let found = before(Load::closed("writers").series(noise).ok(5, 1_000), 12.0).unwrap();
    assert_eq!(found.unsteady_because, None);
    // A true slope is still found.
    let rising = (0..7).map(|i| 1_000 + 60 * i);
    let found = before(Load::closed("writers").series(rising).ok(5, 1_400), 12.0).unwrap();
    assert!(!found.steady);
}

#[test]
fn errors_before_the_fault_are_not_steady() {
    let one_in = |n: u64| {
        let bad = Second { ok: n - 1, failed: 1, ..Second::default() };
        before(Load::open("writers", n).rows(100, bad), 100.0).unwrap()
    };
    let found = one_in(500);
    assert_eq!(found.unsteady_because.as_deref(), Some("0.20 % of the operations failed"));
    assert_eq!(found.error_share, 0.002);
    assert!(one_in(1_000).steady, "exactly 0.1 % is allowed");
}

#[test]
fn a_slow_workload_is_judged_by_its_mean() {
    // 2.5 operations a second can only come as 2 or 3.
    let found = before(Load::open("rare", 2).series((0..105).map(|i| 2 + i % 2)), 105.0).unwrap();
    assert_eq!((found.throughput_ops_s, found.unsteady_because), (2.5, None));
}
