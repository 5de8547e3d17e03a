use super::*;
use crate::analysis::judge_faults;
use crate::analysis::testing::{Load, fault, piece, recording};
use crate::scenario::Measures;

const IDLE: Used = Used { cpu_s: 1.0, cores: 2.0 };

fn check_with(loads: Vec<Load>, faults: Vec<crate::recording::FaultRecord>, used: Used) -> Option<String> {
    let recording = recording(loads, faults);
    let faults = judge_faults(&recording, &Measures::default());
    check(&recording, &faults, used)
}

fn late(late_starts: u64) -> Option<String> {
    let on_time = Second { ok: 100, ..Second::default() };
    let load = Load::open("writers", 100).row(Second { late_starts, ..on_time }).rows(59, on_time);
    check_with(vec![load], vec![], IDLE)
}

#[test]
fn one_percent_of_the_sends_may_be_late() {
    assert_eq!(late(60), None);
    let why = late(61).unwrap();
    assert!(why.starts_with("workload writers: 1.0 % of the operations were sent over 10 ms late"), "{why}");
}

#[test]
fn cpu_over_85_percent_of_the_cores_is_saturation() {
    let used = |cpu_s| Used { cpu_s, cores: 2.0 };
    let run = |used| check_with(vec![Load::open("writers", 100).ok(100, 100)], vec![], used);
    assert_eq!(run(used(170.0)), None);
    assert!(run(used(171.0)).unwrap().starts_with("the tester used 86 % of its 2 cores (at most 85 %)"));
    assert_eq!(run(Used { cpu_s: 1.0, cores: 0.0 }), None, "cores unknown");
}

#[test]
fn missed_arrivals_count_only_while_the_server_answers_and_no_fault_holds() {
    let missing = Second { ok: 90, missed: 10, ..Second::default() };
    let during = Load::open("writers", 100).ok(100, 100).rows(30, missing).ok(100, 100);
    assert_eq!(check_with(vec![during.clone()], vec![fault("f1", 100.0)], IDLE), None);
    let why = check_with(vec![during], vec![], IDLE).unwrap();
    assert!(why.starts_with("workload writers: 300 arrivals in 30 s without a fault"), "{why}");
    // A server that takes seconds keeps the workers busy: that is its doing.
    let slow = Load::open("writers", 100).ok(100, 100).p99(3_000_000).rows(30, missing).ok(100, 100);
    assert_eq!(check_with(vec![slow], vec![], IDLE), None);
}

#[test]
fn arrivals_that_waited_long_do_not_hide_a_quick_server() {
    // One worker far too few: whatever is sent has waited a second, and the server took 5 ms.
    let overrun = Second { ok: 90, missed: 900, service_p99_us: Some(5_000), ..Second::default() };
    let load = Load::open("writers", 1_000).p99(1_400_000).rows(60, overrun);
    assert!(check_with(vec![load], vec![], IDLE).is_some());
}

#[test]
fn a_fault_that_nobody_felt_holds_until_it_is_lifted() {
    let missing = Second { ok: 99, missed: 1, ..Second::default() };
    let load = Load::open("writers", 100).ok(110, 100).rows(30, missing).ok(100, 100);
    let mut f = fault("f1", 100.0);
    f.lifted_s = Some(140.0);
    assert_eq!(check_with(vec![load], vec![f], IDLE), None);
}

#[test]
fn after_the_recovery_missed_arrivals_count_again() {
    let missing = Second { ok: 96, missed: 4, ..Second::default() };
    let load = Load::open("writers", 100).ok(100, 100).failing(10, 0).ok(100, 100).rows(50, missing);
    assert!(check_with(vec![load], vec![fault("f1", 100.0)], IDLE).is_some());
}

#[test]
fn a_closed_loop_has_no_arrivals_to_miss() {
    let row = Second { ok: 100, late_starts: 50, ..Second::default() };
    assert_eq!(check_with(vec![Load::closed("readers").rows(60, row)], vec![], IDLE), None);
}

/// Arrivals at this rate that finish when these numbers say, none of them dropped.
fn queued(rate: u64, finished: &[(usize, u64)], service_us: u64) -> Option<String> {
    let row = |ok| Second { ok, service_p99_us: (ok > 0).then_some(service_us), ..Second::default() };
    let load = finished.iter().fold(Load::open("writers", rate), |load, (n, ok)| load.rows(*n, row(*ok)));
    let mut recording = recording(vec![load], vec![]);
    let seconds = recording.workloads[0].seconds.len();
    recording.workloads[0].availability = (0..seconds).map(|s| piece(s as f64, 1.0, rate, rate)).collect();
    check(&recording, &[], IDLE)
}

#[test]
fn catching_up_after_an_outage_is_no_saturation() {
    assert_eq!(queued(100, &[(60, 100), (45, 0), (450, 110), (60, 100)], 5_000), None, "paced");
    assert_eq!(queued(100, &[(60, 100), (45, 0), (5, 1_000), (60, 100)], 5_000), None, "a burst");
    assert_eq!(queued(100, &[(60, 100), (45, 0), (500, 101)], 5_000), None, "slowly");
}

#[test]
fn a_backlog_that_grows_while_the_server_answers_is_saturation() {
    let why = queued(100, &[(100, 90)], 5_000).unwrap();
    assert!(why.starts_with("workload writers: its backlog grew for "), "{why}");
    assert!(queued(100, &[(60, 100), (45, 0), (100, 90)], 5_000).is_some(), "also after an outage");
    assert_eq!(queued(100, &[(100, 90)], 3_000_000), None, "a slow server keeps the workers busy");
    assert_eq!(queued(2, &[(5, 2), (3, 1), (100, 2)], 5_000), None, "three in flight are no backlog");
}
