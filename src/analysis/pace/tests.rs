use super::*;
use crate::analysis::judge_faults;
use crate::analysis::testing::{Load, fault, recording};
use crate::recording::Second;
use crate::report::data::FaultReport;
use crate::scenario::Measures;

fn work(load: Load) -> WorkloadRecording {
    WorkloadRecording { pace: Pace::Changed, ..load.build() }
}

fn judged(load: Load, at_s: f64) -> FaultReport {
    let mut recording = recording(vec![load], vec![fault("f1", at_s)]);
    recording.workloads[0].pace = Pace::Changed;
    judge_faults(&recording, &Measures::default()).remove(0)
}

#[test]
fn a_rate_that_nobody_changed_is_the_same_always() {
    let constant = Load::open("w", 100).ok(50, 100).ok(50, 300).build();
    assert_eq!(same_since(&constant, 100), 0);
    assert_eq!(same_until(&constant, 0..40, 40, 100), None);
}

#[test]
fn a_change_is_found_from_both_sides() {
    let stepped = work(Load::open("w", 100).ok(50, 100).ok(50, 300));
    let since = same_since(&stepped, 100);
    assert!((50..=55).contains(&since), "{since}");
    let until = same_until(&stepped, 0..40, 40, 100).unwrap();
    assert!((41.0..=50.0).contains(&until), "{until}");
    assert_eq!(same_until(&stepped, 60..80, 80, 100), None);
}

#[test]
fn a_slow_workload_may_have_one_arrival_more_or_less() {
    let slow =
        work(Load::open("w", 1).series((0..100).map(|i| u64::from(i % 3 != 0) + u64::from(i % 3 == 1))));
    assert_eq!(same_since(&slow, 100), 0);
    assert_eq!(same_until(&slow, 0..40, 40, 100), None);
}

#[test]
fn arrivals_of_an_outage_are_no_change_of_the_rate() {
    let out = work(Load::open("w", 100).ok(60, 100).failing(20, 0).ok(60, 100));
    assert_eq!(same_until(&out, 15..55, 60, 140), None);
}

#[test]
fn a_baseline_begins_after_the_last_change() {
    let failing = Second { failed: 300, ..Second::default() };
    let load = Load::open("w", 100).ok(100, 100).ok(60, 300).rows(5, failing).ok(100, 300);
    let report = judged(load, 160.0);
    let baseline = report.baseline.unwrap();
    assert_eq!((baseline.throughput_ops_s, baseline.steady), (300.0, true));
    assert!((50.0..=55.0).contains(&baseline.window_s), "{}", baseline.window_s);
    assert_eq!(report.recovery.unwrap().sustained_s, Some(5.0));
}

#[test]
fn a_change_just_before_the_fault_leaves_no_baseline() {
    let report = judged(Load::open("w", 100).ok(100, 100).ok(8, 300).failing(5, 0).ok(100, 300), 108.0);
    assert_eq!(report.baseline, None);
    let why = report.recovery.unwrap().reason.unwrap();
    assert!(why.contains("between a change of the rate and the fault"), "{why}");
}

#[test]
fn a_change_before_the_recovery_censors_it() {
    let report = judged(Load::open("w", 100).ok(100, 100).failing(40, 0).ok(100, 50), 100.0);
    let recovery = report.recovery.unwrap();
    assert!(recovery.censored && recovery.sustained_s.is_none(), "{recovery:?}");
    assert_eq!(recovery.reason.as_deref(), Some("rate change"));
    assert_eq!(recovery.first_failure_s, Some(0.0));
    assert!(report.outage.unwrap().hard_s >= 39.9, "the outage does not depend on the rate");
}

#[test]
fn a_higher_rate_is_no_recovery() {
    // 60 of 100 are answered until somebody asks for 200: then 120 are.
    let half = |load: Load, ok, missed| load.rows(60, Second { ok, missed, ..Second::default() });
    let load = half(half(Load::open("w", 100).ok(100, 100), 60, 40), 120, 80);
    let recovery = judged(load, 100.0).recovery.unwrap();
    assert!(recovery.censored, "{recovery:?}");
}
