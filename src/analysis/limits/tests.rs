use super::*;
use crate::analysis::testing::{Load, fault, judged, judged_once, workload_report};

fn seconds(limit_s: f64) -> Option<Duration> {
    Some(Duration::from_secs_f64(limit_s))
}

fn one(limits: &Limits, faults: &[FaultReport]) -> LimitResult {
    evaluate(limits, faults, &[workload_report("writers", 1_000)], None).remove(0)
}

fn ten_seconds_down() -> FaultReport {
    judged_once(Load::open("writers", 500).ok(100, 500).failing(10, 0).ok(190, 500), fault("f1", 100.0))
}

#[test]
fn no_limit_gives_no_result() {
    assert_eq!(evaluate(&Limits::default(), &[ten_seconds_down()], &[], None), []);
}

#[test]
fn a_limit_holds_at_its_very_value() {
    let faults = [ten_seconds_down()];
    let recovery = |limit| one(&Limits { sustained_recovery: seconds(limit), ..Limits::default() }, &faults);
    let held = recovery(10.0);
    assert_eq!((held.value, held.ok, held.at.as_deref()), (Some(10.0), Some(true), Some("f1")));
    assert_eq!((held.name.as_str(), held.unit.as_str()), ("sustained_recovery", "s"));
    assert_eq!(recovery(9.999).ok, Some(false));
    let gap = |limit| one(&Limits { longest_gap: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((gap(10.0), gap(9.9)), (Some(true), Some(false)));
    let hard = |limit| one(&Limits { hard_outage: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((hard(10.001), hard(9.9)), (Some(true), Some(false)));
}

#[test]
fn every_workload_counts_not_only_the_one_that_suffered_most() {
    // Readers have the longer outage, writers the later recovery.
    let readers = Load::open("readers", 500).ok(100, 500).failing(10, 0).ok(190, 500);
    let writers = Load::open("writers", 500).ok(100, 500).failing(60, 300).ok(140, 500);
    let recording = crate::analysis::testing::recording(vec![readers, writers], vec![fault("f1", 100.0)]);
    let faults = crate::analysis::judge_faults(&recording, &crate::scenario::Measures::default());
    assert_eq!(faults[0].workload.as_deref(), Some("readers"));
    let found = one(&Limits { sustained_recovery: seconds(30.0), ..Limits::default() }, &faults);
    assert_eq!((found.value, found.ok), (Some(60.0), Some(false)));
    assert_eq!(worst(&faults, FaultMeasure::SustainedRecovery, 30.0).unwrap().workload, "writers");
}

#[test]
fn a_censored_recovery_breaks_the_limit_once_it_was_observed_long_enough() {
    let never = Load::open("writers", 500).ok(100, 500).failing(40, 0);
    let faults = [judged_once(never, fault("f1", 100.0))];
    let ok = |limit| one(&Limits { sustained_recovery: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((ok(30.0), ok(40.0)), (Some(false), Some(false)));
    assert_eq!(ok(40.1), None, "it might have come at 40 s");
}

#[test]
fn a_hold_that_the_end_cut_short_breaks_nothing() {
    // Good from 20 s on, but for 8 s only: 25 s were not exceeded, and not proved either.
    let cut = Load::open("writers", 500).ok(100, 500).failing(20, 0).ok(8, 500);
    let faults = [judged_once(cut, fault("f1", 100.0))];
    let found = one(&Limits { sustained_recovery: seconds(25.0), ..Limits::default() }, &faults);
    assert_eq!((found.value, found.ok), (Some(20.0), None));
    assert_eq!(
        one(&Limits { sustained_recovery: seconds(20.0), ..Limits::default() }, &faults).ok,
        Some(false)
    );
}

#[test]
fn an_outage_that_was_not_over_is_only_a_lower_bound() {
    let down = Load::open("writers", 500).ok(100, 500).failing(5, 0);
    let faults = [judged_once(down, fault("f1", 100.0))];
    let hard = |limit| one(&Limits { hard_outage: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((hard(20.0), hard(4.0)), (None, Some(false)));
    let gap = |limit| one(&Limits { longest_gap: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((gap(20.0), gap(4.0)), (None, Some(false)));
}

#[test]
fn the_ordinary_time_since_the_last_success_is_no_outage() {
    let mut found = judged_once(Load::open("writers", 500).ok(300, 500), fault("f1", 100.0));
    let impact = found.workloads.get_mut("writers").unwrap();
    impact.outage.as_mut().unwrap().longest_gap_s = Some(0.4);
    let limits = Limits { longest_gap: seconds(1.0), hard_outage: seconds(1.0), ..Limits::default() };
    assert!(evaluate(&limits, &[found], &[], None).iter().all(|l| l.ok == Some(true)));
}

#[test]
fn a_gap_limit_finer_than_the_recording_cannot_be_judged() {
    let faults = [judged_once(Load::open("writers", 500).ok(300, 500), fault("f1", 100.0))];
    let gap = |limit| one(&Limits { longest_gap: seconds(limit), ..Limits::default() }, &faults).ok;
    assert_eq!((gap(0.1), gap(0.05)), (Some(true), None));
}

#[test]
fn what_rests_on_a_bad_baseline_is_not_judged() {
    let unsteady = Load::open("writers", 500).ok(50, 500).ok(50, 200).failing(10, 0).ok(190, 500);
    let none = Load::open("writers", 500).ok(3, 500).failing(10, 0).ok(190, 500);
    let limits = Limits { sustained_recovery: seconds(5.0), hard_outage: seconds(5.0), ..Limits::default() };
    let found = evaluate(&limits, &[judged_once(unsteady, fault("f1", 100.0))], &[], None);
    assert_eq!((found[0].value.is_some(), found[0].ok), (true, None));
    assert_eq!(found[1].ok, Some(false), "an outage rests on no baseline");
    let found = evaluate(&limits, &[judged_once(none, fault("f1", 3.0))], &[], None);
    assert_eq!((found[0].value, found[0].ok, found[1].ok), (None, None, Some(false)));
}

#[test]
fn one_bad_fault_of_two_decides() {
    let load = Load::open("writers", 500).ok(100, 500).failing(5, 0).ok(195, 500).failing(20, 0).ok(180, 500);
    let faults = judged(load, vec![fault("f1", 100.0), fault("f2", 300.0)]);
    let found = one(&Limits { hard_outage: seconds(10.0), ..Limits::default() }, &faults);
    assert_eq!((found.ok, found.at.as_deref()), (Some(false), Some("f2")));
}

#[test]
fn without_an_effective_fault_nothing_is_measured() {
    let mut skipped = ten_seconds_down();
    skipped.outcome = FaultOutcome::Skipped;
    let found = one(&Limits { hard_outage: seconds(10.0), ..Limits::default() }, &[skipped.clone()]);
    assert_eq!((found.value, found.ok, found.at), (None, None, None));
    let enough = |limit| {
        one(
            &Limits { min_effective_faults: Some(limit), ..Limits::default() },
            &[ten_seconds_down(), skipped.clone()],
        )
    };
    assert_eq!((enough(1).ok, enough(2).ok, enough(2).value), (Some(true), None, Some(1.0)));
}

#[test]
fn lost_writes_are_few_enough_only_when_all_were_looked_up() {
    let limits =
        Limits { lost_majority_writes: Some(0), lost_permitted_writes: Some(3), ..Limits::default() };
    let with = |ledger: Option<&Ledger>| {
        let found = evaluate(&limits, &[], &[], ledger);
        [found[0].ok, found[1].ok]
    };
    let ledger = Ledger { acknowledged: 10, checked: 10, present: 7, lost_permitted: 3, ..Ledger::default() };
    assert_eq!(with(Some(&ledger)), [Some(true), Some(true)]);
    assert_eq!(with(None), [None, None]);
    assert_eq!(
        with(Some(&Ledger { lost: 1, lost_permitted: 4, ..ledger.clone() })),
        [Some(false), Some(false)]
    );
    let partly = Ledger { unchecked: 1, lost: 1, ..ledger };
    assert_eq!(with(Some(&partly)), [Some(false), None]);
}

#[test]
fn latency_and_errors_are_judged_by_workload() {
    let mut work = workload_report("readers", 999);
    work.failed = 1;
    work.response_us.p99 = Some(50_000);
    let limits = |p99_ms: u64, share: f64, of: &str| Limits {
        p99: [(of.to_owned(), Duration::from_millis(p99_ms))].into(),
        error_share: [(of.to_owned(), share)].into(),
        ..Limits::default()
    };
    let ok = |limits: &Limits| {
        let found = evaluate(limits, &[], std::slice::from_ref(&work), None);
        [found[0].ok, found[1].ok]
    };
    assert_eq!(ok(&limits(50, 0.001, "readers")), [Some(true), Some(true)]);
    assert_eq!(ok(&limits(49, 0.000_9, "readers")), [Some(false), Some(false)]);
    assert_eq!(ok(&limits(49, 0.1, "nobody")), [None, None]);
    let silent = workload_report("readers", 0);
    let found = evaluate(&limits(50, 0.1, "readers"), &[], &[silent], None);
    assert_eq!(found.iter().map(|l| l.ok).collect::<Vec<_>>(), [None, None]);
    assert_eq!(found[0].name, "p99.readers");
}

#[test]
fn without_planned_faults_the_longest_gap_of_the_run_counts() {
    let limits = Limits { longest_gap: seconds(5.0), ..Limits::default() };
    let run = |gap| {
        let mut writers = workload_report("writers", 1_000);
        writers.longest_gap_s = gap;
        evaluate(&limits, &[], &[workload_report("readers", 1_000), writers], None).remove(0)
    };
    let broken = run(Some(8.2));
    assert_eq!((broken.value, broken.ok, broken.at.as_deref()), (Some(8.2), Some(false), Some("writers")));
    assert_eq!((run(Some(5.0)).ok, run(None).ok), (Some(true), Some(true)));
    let nothing = evaluate(&limits, &[], &[workload_report("writers", 0)], None).remove(0);
    assert_eq!(nothing.ok, None, "nothing was served");
}

/// The limit on the longest gap of a run without faults: value and verdict.
fn of_run(load: Load, pace: Pace, limit_s: f64) -> (Option<f64>, Option<bool>) {
    let work = WorkloadRecording { pace, ..load.build() };
    let limits = Limits { longest_gap: seconds(limit_s), ..Limits::default() };
    let report = WorkloadReport { longest_gap_s: longest_gap(&work), ..workload_report("writers", 1_000) };
    let mut found = evaluate(&limits, &[], &[report], None);
    doubt_pauses(&mut found, &[work]);
    (found[0].value, found[0].ok)
}

#[test]
fn a_pause_of_the_rate_is_no_gap() {
    let paused = || Load::open("writers", 500).ok(60, 500).ok(60, 0).ok(60, 500);
    assert_eq!(of_run(paused(), Pace::Changed, 5.0), (Some(0.0), Some(true)));
    // Nobody changed the rate: then silence is what it looks like.
    assert_eq!(of_run(paused(), Pace::Constant, 5.0), (Some(60.0), Some(false)));
    // To the very end.
    let to_the_end = Load::open("writers", 500).ok(60, 500).ok(60, 0);
    assert_eq!(of_run(to_the_end, Pace::Changed, 5.0), (Some(0.0), Some(true)));
}

#[test]
fn a_pause_ends_with_the_first_arrival_whatever_becomes_of_it() {
    let slow_start = Load::open("writers", 500).ok(60, 500).ok(60, 0).failing(8, 0).ok(60, 500);
    assert_eq!(of_run(slow_start, Pace::Changed, 5.0), (Some(8.0), Some(false)));
}

#[test]
fn an_outage_counts_in_a_rate_that_changes_too() {
    let down = Load::open("writers", 500).ok(60, 500).failing(8, 0).ok(60, 100);
    assert_eq!(of_run(down, Pace::Changed, 5.0), (Some(8.0), Some(false)));
    // An arrival every five seconds: the silence between two of them is no pause.
    let rare = (0..60).map(|i| u64::from(i % 5 == 0));
    let work = Load::open("writers", 1).series(rare.clone());
    let down = rare
        .clone()
        .fold(work, |load, n| load.row(crate::recording::Second { failed: n, ..Default::default() }));
    let (value, ok) = of_run(down.series(rare), Pace::Changed, 30.0);
    assert_eq!((value.map(f64::round), ok), (Some(60.0), Some(false)));
}

#[test]
fn a_success_in_the_middle_of_a_piece_does_not_hide_a_gap() {
    // All of second 0 was answered within 1 s; from 1 s on nobody was, until 4 s.
    let load = Load::open("writers", 500).ok(1, 500).failing(3, 0).ok(1, 500);
    let mut work = WorkloadRecording { pace: Pace::Changed, ..load.build() };
    work.gaps[0].from_s = 0.7;
    assert_eq!(longest_gap(&work).map(|s| (s * 10.0).round()), Some(33.0));
    // A pause behind it is one.
    let load = Load::open("writers", 500).ok(1, 500).ok(3, 0).ok(1, 500);
    let mut work = WorkloadRecording { pace: Pace::Changed, ..load.build() };
    work.gaps[0] = Gap { from_s: 0.998, to_s: 4.25 };
    assert_eq!(longest_gap(&work), Some(0.25));
}

#[test]
fn an_outage_that_runs_into_a_pause_is_in_doubt() {
    let into =
        |down| Load::open("writers", 500).ok(60, 500).failing(down, 0).ok(60, 0).failing(2, 0).ok(60, 500);
    assert_eq!(of_run(into(3), Pace::Changed, 5.0), (Some(65.0), None));
    assert_eq!(of_run(into(6), Pace::Changed, 5.0), (Some(68.0), Some(false)), "the pause is not needed");
    assert_eq!(of_run(into(3), Pace::Changed, 65.0), (Some(65.0), Some(true)));
}
