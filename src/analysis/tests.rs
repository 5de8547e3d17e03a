//! Whole recordings: several faults, several workloads, and properties that always hold.

use std::time::Duration;

use proptest::prelude::*;

use super::testing::{
    Load, fault, judged, judged_once, ninety_percent_for_ten_seconds, recording, two_elections,
    workload_report,
};
use super::verdict::{JudgeInput, judge};
use super::*;
use crate::exit::Outcome;
use crate::recording::Second;
use crate::report::data::{Ledger, Tester};
use crate::scenario::Limits;

fn baseline_of(report: &FaultReport) -> (f64, bool) {
    let baseline = report.baseline.as_ref().unwrap();
    (baseline.window_s, baseline.steady)
}

#[test]
fn a_short_run_with_two_kills_is_judged() {
    // Kills at 12 s and 36 s of 60 s, each of them 4 s without service.
    let load = Load::open("writers", 500).ok(12, 500).failing(4, 0).ok(20, 500).failing(4, 0).ok(20, 500);
    let mut faults = vec![fault("f1", 12.0), fault("f2", 36.0)];
    (faults[0].lifted_s, faults[1].lifted_s) = (Some(20.0), Some(44.0));
    let found = judged(load, faults);
    assert_eq!(baseline_of(&found[0]), (7.0, true));
    assert_eq!(baseline_of(&found[1]), (11.0, true));
    for report in &found {
        let recovery = report.recovery.as_ref().unwrap();
        assert_eq!((recovery.sustained_s, recovery.hold_s), (Some(4.0), Some(10.0)), "{}", report.id);
        assert_eq!(recovery.from_lift_s, Some(-4.0));
    }
}

#[test]
fn two_workloads_are_measured_apart_and_the_worse_speaks_for_the_fault() {
    let readers = Load::closed("readers").ok(300, 5_000);
    let writers = Load::open("writers", 500).ok(100, 500).failing(10, 0).ok(190, 500);
    let recording = recording(vec![readers, writers], vec![fault("f1", 100.0)]);
    let found = judge_faults(&recording, &Measures::default()).remove(0);
    assert_eq!(found.workload.as_deref(), Some("writers"));
    assert_eq!(found.outage, found.workloads["writers"].outage);
    assert_eq!(found.recovery.as_ref().unwrap().sustained_s, Some(10.0));
    let readers = &found.workloads["readers"];
    assert!(readers.outage.as_ref().unwrap().masked);
    assert_eq!(readers.recovery.as_ref().unwrap().sustained_s, Some(0.0));
    assert_eq!(readers.dip.as_ref().unwrap().area_ops, 0.0);
}

#[test]
fn the_report_carries_what_the_recording_says_of_the_fault() {
    let mut f = fault("f1", 100.0);
    f.nodes.push("rs0-2".into());
    let found = judged_once(Load::open("writers", 500).ok(300, 500), f);
    assert_eq!((found.kind.as_str(), found.target.as_str()), ("kill", "primary"));
    assert_eq!(found.node.as_deref(), Some("rs0-1, rs0-2"));
}

#[test]
fn a_fault_without_effect_has_no_numbers() {
    for outcome in [FaultOutcome::NotEffective, FaultOutcome::Skipped, FaultOutcome::Failed] {
        let mut f = fault("f1", 100.0);
        f.outcome = outcome;
        if outcome == FaultOutcome::Skipped {
            (f.injected_s, f.effective_s, f.lifted_s) = (None, None, None);
        }
        let found = judged_once(Load::open("writers", 500).ok(300, 500), f);
        assert_eq!((found.workload, found.baseline, found.outage), (None, None, None));
        assert!(found.workloads.is_empty());
    }
}

#[test]
fn a_fault_without_effect_still_ends_the_one_before() {
    let mut second = fault("f2", 150.0);
    second.outcome = FaultOutcome::NotEffective;
    let load = Load::open("writers", 500).ok(100, 500).failing(60, 0).ok(140, 500);
    let found = judged(load, vec![fault("f1", 100.0), second]);
    let recovery = found[0].recovery.as_ref().unwrap();
    assert_eq!((recovery.censored_after_s, recovery.reason.as_deref()), (Some(50.0), Some("next fault")));
}

#[test]
fn the_tail_of_a_fault_is_no_baseline_for_the_next() {
    // f1 is over at 160 s; the baseline of f2 has 200 - 5 - 160 = 35 s.
    let load =
        Load::open("writers", 500).ok(100, 500).failing(60, 100).ok(40, 500).failing(10, 0).ok(190, 500);
    let found = judged(load, vec![fault("f1", 100.0), fault("f2", 200.0)]);
    assert_eq!(baseline_of(&found[1]), (35.0, true));
    assert_eq!(found[1].baseline.as_ref().unwrap().throughput_ops_s, 500.0);
}

#[test]
fn a_fault_that_is_lifted_late_holds_the_baseline_back() {
    let mut first = fault("f1", 100.0);
    first.lifted_s = Some(180.0);
    let load = Load::open("writers", 500).ok(400, 500);
    let found = judged(load.clone(), vec![first.clone(), fault("f2", 300.0)]);
    assert_eq!(baseline_of(&found[1]).0, 115.0, "from the lifting on, although nobody felt it");
    // Overlapping: f2 strikes while f1 still holds.
    first.lifted_s = Some(320.0);
    let found = judged(load, vec![first, fault("f2", 300.0)]);
    assert_eq!(found[1].baseline, None);
    assert!(found[1].recovery.as_ref().unwrap().reason.as_ref().unwrap().starts_with("no baseline"));
}

#[test]
fn after_a_fault_without_recovery_the_baseline_is_flagged() {
    // 300/s for ever after f1, which is steady, but not normal; the fault in between changes nothing.
    let mut skipped = fault("f2", 200.0);
    skipped.outcome = FaultOutcome::NotEffective;
    let load = Load::open("writers", 500).ok(100, 500).failing(100, 300).ok(300, 300);
    let found = judged(load, vec![fault("f1", 100.0), skipped, fault("f3", 400.0)]);
    let baseline = found[2].baseline.as_ref().unwrap();
    assert_eq!(baseline.throughput_ops_s, 300.0);
    assert_eq!(baseline.unsteady_because.as_deref(), Some("service had not recovered from f1"));
}

#[test]
fn a_recovery_ends_the_tail_of_an_earlier_fault() {
    // f1 leaves 300/s, f2 comes back to that, so it is the normal operation of f3.
    let load = Load::open("writers", 500).ok(100, 500).failing(100, 300).failing(5, 0).ok(195, 300);
    let found = judged(load, vec![fault("f1", 100.0), fault("f2", 200.0), fault("f3", 350.0)]);
    assert!(!baseline_of(&found[1]).1);
    assert_eq!(found[1].recovery.as_ref().unwrap().sustained_s, Some(5.0));
    assert_eq!(baseline_of(&found[2]), (140.0, true));
}

#[test]
fn of_overlapping_faults_the_later_end_counts() {
    let mut long = fault("f1", 100.0);
    long.lifted_s = Some(180.0);
    let load = Load::open("writers", 500).ok(400, 500);
    let found = judged(load, vec![long, fault("f2", 120.0), fault("f3", 300.0)]);
    assert_eq!(baseline_of(&found[2]).0, 115.0);
}

#[test]
fn an_outage_after_a_fault_without_baseline_is_no_baseline_for_the_next() {
    let load = Load::open("writers", 500).ok(3, 500).failing(27, 0).ok(270, 500);
    let found = judged(load, vec![fault("f1", 3.0), fault("f2", 100.0)]);
    assert_eq!(baseline_of(&found[1]), (65.0, true));
}

#[test]
fn adjacent_faults_do_not_share_their_outages() {
    let load = Load::open("writers", 500).ok(100, 500).failing(30, 0).ok(170, 500);
    let found = judged(load, vec![fault("f1", 100.0), fault("f2", 120.0)]);
    let hard = |i: usize| found[i].outage.as_ref().unwrap().hard_s;
    assert!((hard(0) - 20.0).abs() < 1e-6 && (hard(1) - 10.0).abs() < 1e-6, "{} {}", hard(0), hard(1));
    assert_eq!(found[1].outage.as_ref().unwrap().longest_gap_s, Some(30.0), "users waited all the while");
}

#[test]
fn an_open_loop_shows_two_elections_as_two_outages() {
    let series = two_elections(305, 100);
    let load = series.iter().fold(Load::open("writers", 500), |load, ok| load.failing(1, *ok));
    let recording = recording(vec![load], vec![fault("f1", 305.0)]);
    let found = judge_faults(&recording, &ninety_percent_for_ten_seconds()).remove(0);
    let outage = found.outage.unwrap();
    // 5 % good is degraded, not hard; 480 of 500 are degraded too.
    assert!((outage.hard_s - 2.0).abs() < 1e-6);
    assert_eq!(outage.longest_gap_s, Some(2.0));
    assert_eq!(found.dip.unwrap().count, 2);
}

#[test]
fn an_empty_recording_is_judged_without_a_fuss() {
    assert!(judge_faults(&Recording::default(), &Measures::default()).is_empty());
    let nothing = Recording { faults: vec![fault("f1", 10.0)], duration_s: 20.0, ..Recording::default() };
    let found = judge_faults(&nothing, &Measures::default());
    assert_eq!((found[0].workload.as_deref(), found[0].workloads.len()), (None, 0));
    // Rows that end before the fault: a tester that was killed.
    let mut cut = recording(vec![Load::open("writers", 500).ok(5, 500)], vec![fault("f1", 10.0)]);
    cut.duration_s = 20.0;
    assert_eq!(judge_faults(&cut, &Measures::default()).len(), 1);
}

/// One second of a random workload of 50 operations a second.
fn any_second() -> impl Strategy<Value = Second> {
    prop_oneof![
        4 => Just((50, 0, 0, 0)),
        1 => Just((0, 50, 0, 0)),
        1 => Just((0, 0, 0, 0)),
        2 => (0..=50u64, 0..=20u64, 0..=20u64, 0..=20u64),
    ]
    .prop_map(|(ok, failed, unknown, missed)| Second {
        ok,
        failed,
        unknown,
        missed,
        ..Second::default()
    })
}

fn load_of(open: bool, rows: &[Second]) -> Load {
    let start = if open { Load::open("writers", 50) } else { Load::closed("writers") };
    rows.iter().fold(start.ok(40, 50), |load, row| load.row(*row))
}

fn outcome_of(report: &FaultReport, rows: &[Second]) -> Outcome {
    let mut work = workload_report("writers", 2_000 + rows.iter().map(|s| s.ok).sum::<u64>());
    work.failed = rows.iter().map(|s| s.failed).sum();
    let limits = Limits {
        sustained_recovery: Some(Duration::from_secs(15)),
        hard_outage: Some(Duration::from_secs(5)),
        longest_gap: Some(Duration::from_secs(5)),
        error_share: [("writers".to_owned(), 0.1)].into(),
        ..Limits::default()
    };
    let (faults, workloads) = (std::slice::from_ref(report), std::slice::from_ref(&work));
    let ledger = Ledger::default();
    let limits = limits::evaluate(&limits, faults, workloads, Some(&ledger));
    judge(&JudgeInput {
        goal: super::verdict::Goal::Run,
        faults,
        workloads,
        limits: &limits,
        ledger: Some(&ledger),
        ledger_expected: true,
        tester: &Tester::default(),
        workers_lost: &[],
        saturated: None,
        interrupted: None,
        errors: &[],
        findings: &[],
    })
    .outcome
}

proptest! {
    #[test]
    fn the_numbers_of_any_recording_make_sense(
        rows in prop::collection::vec(any_second(), 1..90),
        open in any::<bool>(),
        at in 30.0..50.0f64,
    ) {
        let found = judged_once(load_of(open, &rows), fault("f1", at));
        let window = (40 + rows.len()) as f64 - at;
        let outage = found.outage.unwrap();
        prop_assert!(outage.hard_s <= outage.hard_total_s + 1e-9);
        prop_assert!(outage.hard_s <= outage.degraded_s + 1e-9, "{outage:?}");
        prop_assert!(outage.degraded_s <= window.max(0.0) + 1e-6, "{outage:?}");
        prop_assert!(outage.windows.iter().all(|w| w.from_s < w.to_s));
        let dip = found.dip.unwrap();
        prop_assert!(dip.area_ops >= 0.0 && dip.overshoot_ops >= 0.0);
        prop_assert!((0.0..=1.0).contains(&dip.depth), "{dip:?}");
        let recovery = found.recovery.unwrap();
        prop_assert_eq!(recovery.censored, recovery.sustained_s.is_none());
        prop_assert_eq!(recovery.censored, recovery.not_before_s.is_some());
        prop_assert_eq!(recovery.censored, recovery.reason.is_some());
        if let (Some(all), Some(one)) = (recovery.sustained_s, recovery.throughput_s) {
            prop_assert!(one <= all, "throughput alone cannot come later than all together");
        }
        if let (Some(bound), Some(seen)) = (recovery.not_before_s, recovery.censored_after_s) {
            prop_assert!(bound <= seen + 1e-9);
        }
    }

    #[test]
    fn more_failures_never_improve_the_verdict(
        rows in prop::collection::vec(any_second(), 20..60),
        more in prop::collection::vec(0..40u64, 60),
        open in any::<bool>(),
    ) {
        let worse: Vec<Second> = rows.iter().zip(&more).map(|(row, more)| {
            let turned = (*more).min(row.ok);
            Second { ok: row.ok - turned, failed: row.failed + more, ..*row }
        }).collect();
        let of = |rows: &[Second]| {
            let report = judged_once(load_of(open, rows), fault("f1", 40.0));
            outcome_of(&report, rows)
        };
        let (before, after) = (of(&rows), of(&worse));
        prop_assert_eq!(before.worse(after), after, "{:?} became {:?}", before, after);
    }
}
