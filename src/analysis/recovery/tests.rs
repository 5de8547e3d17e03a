use std::time::Duration;

use super::*;
use crate::analysis::judge_faults;
use crate::analysis::testing::{
    Load, fault, judged, judged_once, ninety_percent_for_ten_seconds, recording, two_elections,
};
use crate::recording::FaultRecord;

fn recovery(load: Load, fault: FaultRecord) -> Recovery {
    judged_once(load, fault).recovery.unwrap()
}

#[test]
fn the_first_good_operations_are_no_recovery() {
    let load = Load::closed("writers").series(two_elections(305, 100));
    let recording = recording(vec![load], vec![fault("f1", 305.0)]);
    let report = judge_faults(&recording, &ninety_percent_for_ten_seconds()).remove(0);
    let found = report.recovery.unwrap();
    assert_eq!(found.first_success_s, Some(2.0));
    assert_eq!(found.sustained_s, Some(80.0));
    assert_eq!(found.throughput_s, Some(80.0));
    assert_eq!(found.declared_s, Some(90.0));
    assert_eq!((found.censored, found.not_before_s, found.reason), (false, None, None));
    let dip = report.dip.unwrap();
    assert!((dip.area_ops - 21_280.0).abs() <= 20.0, "{dip:?}");
    assert_eq!(dip.count, 2);
}

#[test]
fn a_clean_step_back_is_dated_to_its_second() {
    let found =
        recovery(Load::open("writers", 500).ok(100, 500).failing(9, 0).ok(191, 500), fault("f1", 100.0));
    assert_eq!(found.sustained_s, Some(9.0), "the means must not blur the edge");
    assert_eq!(found.first_failure_s, Some(0.0));
    assert_eq!(found.first_success_s, Some(9.0));
    assert_eq!(found.hold_s, Some(60.0));
}

#[test]
fn all_times_count_from_the_effect() {
    let mut f = fault("f1", 100.0);
    f.effective_s = Some(101.5);
    f.lifted_s = Some(112.0);
    let found = recovery(Load::open("writers", 500).ok(101, 500).failing(9, 0).ok(190, 500), f);
    assert_eq!(found.first_failure_s, Some(-0.5), "the effect was noticed later than felt");
    assert_eq!(found.sustained_s, Some(8.5));
    assert_eq!(found.from_lift_s, Some(-2.0), "before the lifting");
}

#[test]
fn a_fault_that_nobody_felt_is_recovered_at_once() {
    let mut f = fault("f1", 100.0);
    f.effective_s = Some(100.4);
    let found = recovery(Load::open("writers", 500).ok(300, 500), f);
    assert_eq!((found.sustained_s, found.first_failure_s, found.first_success_s), (Some(0.0), None, None));
}

#[test]
fn a_second_election_within_the_hold_starts_it_again() {
    let load = Load::open("writers", 500).ok(100, 500).failing(5, 0).ok(20, 500).failing(5, 0).ok(170, 500);
    assert_eq!(recovery(load.clone(), fault("f1", 100.0)).sustained_s, Some(30.0));
    let measures = Measures { sustained_for: Some(Duration::from_secs(10)), ..Measures::default() };
    let short = judge_faults(&recording(vec![load], vec![fault("f1", 100.0)]), &measures);
    assert_eq!(short[0].recovery.as_ref().unwrap().sustained_s, Some(5.0), "20 s hold a hold of 10 s");
}

#[test]
fn the_hold_is_a_third_of_the_time_left_between_ten_and_sixty_seconds() {
    let hold = |left_s: f64| {
        let window = Window {
            injected_s: 100.0,
            effective_s: 100.0,
            lifted_s: None,
            end_s: 100.0 + left_s,
            ended_by: crate::analysis::window::End::EndOfRun,
        };
        super::hold(&window, &Measures::default())
    };
    assert_eq!([5.0, 24.0, 100.0, 180.0, 3_600.0].map(hold), [10, 10, 33, 60, 60]);
}

#[test]
fn not_recovered_is_censored_and_never_zero() {
    let load = Load::open("writers", 500).ok(100, 500).failing(80, 200);
    let found = recovery(load, fault("f1", 100.0));
    assert!(found.censored);
    assert_eq!((found.sustained_s, found.declared_s, found.from_lift_s), (None, None, None));
    assert_eq!((found.censored_after_s, found.not_before_s), (Some(80.0), Some(80.0)));
    assert_eq!(found.reason.as_deref(), Some("end of run"));
}

#[test]
fn a_hold_that_was_cut_short_is_censored_with_its_lower_bound() {
    // Good again after 20 s, but the run ends 8 s later.
    let load = Load::open("writers", 500).ok(100, 500).failing(20, 0).ok(8, 500);
    let found = recovery(load, fault("f1", 100.0));
    assert!(found.censored);
    assert_eq!((found.censored_after_s, found.not_before_s), (Some(28.0), Some(20.0)));
}

#[test]
fn the_hold_must_be_complete_to_its_last_second() {
    let good_for = |seconds: usize, then: usize| {
        let load = Load::open("writers", 500).ok(100, 500).failing(5, 0).ok(seconds, 500).failing(then, 0);
        recovery(load, fault("f1", 100.0)).sustained_s
    };
    // 15 s are left, so the hold is 10 s.
    assert_eq!((good_for(9, 0), good_for(10, 0)), (None, Some(5.0)));
    assert_eq!((good_for(9, 1), good_for(10, 1)), (None, Some(5.0)));
}

#[test]
fn a_fault_right_before_the_end_is_censored_too() {
    let found = recovery(Load::open("writers", 500).ok(104, 500), fault("f1", 100.0));
    assert!(found.censored, "4 s show nothing");
    assert_eq!((found.sustained_s, found.censored_after_s), (None, Some(4.0)));
}

#[test]
fn the_next_fault_ends_the_observation() {
    let load = Load::open("writers", 500).ok(100, 500).failing(30, 0).ok(170, 500);
    let found = judged(load, vec![fault("f1", 100.0), fault("f2", 120.5)]);
    let first = found[0].recovery.as_ref().unwrap();
    assert_eq!(first.reason.as_deref(), Some("next fault"));
    assert_eq!((first.censored_after_s, first.first_success_s), (Some(20.5), None));
}

#[test]
fn latency_and_throughput_come_back_apart() {
    let slow = Load::open("writers", 500).ok(100, 500).failing(10, 0).p99(50_000).ok(40, 500);
    let found = recovery(slow.p99(5_000).ok(250, 500), fault("f1", 100.0));
    assert_eq!(found.throughput_s, Some(10.0));
    assert_eq!(found.latency_s, Some(50.0), "means with a slow second in them are over");
    assert_eq!(found.sustained_s, Some(50.0));
}

#[test]
fn the_latency_bound_is_factor_and_slack() {
    // P = 5 ms: 1.25 x 5 + 1 = 7.25 ms.
    let with = |us| {
        let load = Load::open("writers", 500).ok(100, 500).p99(us).ok(200, 500);
        recovery(load, fault("f1", 100.0)).sustained_s
    };
    assert_eq!((with(7_250), with(7_251)), (Some(0.0), None));
}

#[test]
fn errors_hold_recovery_back() {
    let failing = |seconds: usize, failed: u64| {
        let row = Second { ok: 1_000 - failed, failed, ..Second::default() };
        let load = Load::open("writers", 1_000).ok(100, 1_000).rows(seconds, row).ok(200, 1_000);
        recovery(load, fault("f1", 100.0)).sustained_s
    };
    assert_eq!(failing(30, 10), Some(30.0));
    assert_eq!(failing(30, 1), Some(0.0), "0.1 % is normal");
}

#[test]
fn throughput_at_exactly_the_share_is_enough() {
    let at = |ok| {
        let load = Load::closed("writers").ok(100, 1_000).ok(200, ok);
        recovery(load, fault("f1", 100.0)).sustained_s
    };
    assert_eq!((at(950), at(949)), (Some(0.0), None));
}

#[test]
fn single_slow_seconds_do_not_undo_a_recovery() {
    // One second of 900 in five: the mean is 980.
    let noisy = (0..200).map(|i| if i % 10 == 3 { 900 } else { 1_000 });
    let load = Load::closed("writers").ok(100, 1_000).ok(5, 0).series(noisy);
    assert_eq!(recovery(load, fault("f1", 100.0)).sustained_s, Some(5.0));
}

#[test]
fn a_workload_of_one_operation_a_second_can_recover() {
    let load =
        Load::open("rare", 1).ok(100, 1).failing(10, 0).series((0..200).map(|i| [1, 1, 0, 2, 1][i % 5]));
    let found = recovery(load, fault("f1", 100.0));
    assert_eq!(found.sustained_s, Some(10.0), "{found:?}");
}

#[test]
fn without_a_baseline_there_is_no_number() {
    let found =
        judged_once(Load::open("writers", 500).ok(5, 500).failing(5, 0).ok(60, 500), fault("f1", 5.0));
    assert_eq!(found.baseline, None);
    assert_eq!(found.dip, None);
    let recovery = found.recovery.unwrap();
    assert!(recovery.reason.unwrap().starts_with("no baseline: only 5 s before the fault"));
    assert_eq!((recovery.sustained_s, recovery.censored, recovery.first_success_s), (None, false, Some(5.0)));
    assert!((found.outage.unwrap().hard_s - 5.0).abs() < 1e-6, "an outage needs none");
}

#[test]
fn closed_loop_workers_that_stay_stuck_never_recover() {
    let found = recovery(Load::closed("writers").ok(100, 500).stuck(60), fault("f1", 100.0));
    assert_eq!((found.sustained_s, found.throughput_s, found.latency_s), (None, None, None));
    assert_eq!((found.first_success_s, found.censored_after_s), (None, Some(60.0)));
}
