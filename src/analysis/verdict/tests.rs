use super::*;
use crate::analysis::limits::evaluate;
use crate::analysis::testing::{Load, fault, judged_once, workload_report};
use crate::report::data::{Finding, OwnPause};
use crate::scenario::Limits;
use std::time::Duration;

/// The parts of a run, good in every respect until a test spoils one.
struct Case {
    faults: Vec<FaultReport>,
    workloads: Vec<WorkloadReport>,
    ledger: Option<Ledger>,
    ledger_expected: bool,
    limits: Limits,
    tester: Tester,
    workers_lost: Vec<(String, u32)>,
    saturated: Option<String>,
    interrupted: Option<String>,
    errors: Vec<String>,
    findings: Vec<Reason>,
}

impl Case {
    fn good() -> Self {
        let load = Load::open("writers", 500).ok(100, 500).failing(10, 0).ok(190, 500);
        Self {
            faults: vec![judged_once(load, fault("f1", 100.0))],
            workloads: vec![workload_report("writers", 145_000)],
            ledger: Some(Ledger { acknowledged: 1_000, checked: 1_000, present: 1_000, ..Ledger::default() }),
            ledger_expected: true,
            limits: Limits {
                sustained_recovery: Some(Duration::from_secs(30)),
                hard_outage: Some(Duration::from_secs(20)),
                lost_majority_writes: Some(0),
                min_effective_faults: Some(1),
                ..Limits::default()
            },
            tester: Tester::default(),
            workers_lost: vec![("writers".into(), 0)],
            saturated: None,
            interrupted: None,
            errors: vec![],
            findings: vec![],
        }
    }

    fn with(spoil: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self::good();
        spoil(&mut case);
        case
    }

    fn judge(&self) -> Verdict {
        let ledger = self.ledger.as_ref();
        judge(&JudgeInput {
            goal: Goal::Run,
            faults: &self.faults,
            workloads: &self.workloads,
            limits: &evaluate(&self.limits, &self.faults, &self.workloads, ledger),
            ledger,
            ledger_expected: self.ledger_expected,
            tester: &self.tester,
            workers_lost: &self.workers_lost,
            saturated: self.saturated.clone(),
            interrupted: self.interrupted.clone(),
            errors: &self.errors,
            findings: &self.findings,
        })
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.ledger.as_mut().unwrap()
    }

    fn impact(&mut self) -> &mut Impact {
        self.faults[0].workloads.get_mut("writers").unwrap()
    }
}

/// The outcome of a spoilt run, and its first reason.
fn spoilt(spoil: impl FnOnce(&mut Case)) -> (Outcome, String) {
    let verdict = Case::with(spoil).judge();
    assert_eq!(verdict.exit_code, verdict.outcome.code());
    assert_eq!(verdict.reasons[0].outcome, verdict.outcome, "the worst reason stands first");
    (verdict.outcome, verdict.reasons[0].text.clone())
}

#[test]
fn a_clean_run_passes_and_says_what_that_rests_on() {
    let verdict = Case::good().judge();
    assert_eq!((verdict.outcome, verdict.exit_code, verdict.reasons.len()), (Outcome::Pass, 0, 1));
    assert_eq!(
        verdict.reasons[0].text,
        "1 of 1 planned faults took effect, 1000 acknowledged writes were all found, all 4 limits held"
    );
}

#[test]
fn a_soak_without_faults_limits_or_writes_can_pass() {
    let (outcome, text) = spoilt(|c| {
        c.faults.clear();
        c.limits = Limits::default();
        (c.ledger, c.ledger_expected) = (None, false);
    });
    assert_eq!(outcome, Outcome::Pass);
    assert_eq!(text, "no fault was planned, no data was to be checked, no limit was set");
}

#[test]
fn each_kind_of_wrong_data_is_a_violation() {
    type Plant = fn(&mut Ledger);
    let plant: [(Plant, &str); 4] = [
        (|l| l.lost = 3, "3 acknowledged majority writes are lost (1000 checked)"),
        (|l| l.corrupt = 1, "1 documents do not hold what was written under their key (1000 checked)"),
        (|l| l.duplicates = 2, "2 second documents exist for a key (1000 checked)"),
        (|l| l.alien = 4, "4 documents were never sent by this run (1000 checked)"),
    ];
    for (plant, words) in plant {
        let (outcome, text) = spoilt(|c| plant(c.ledger()));
        assert_eq!((outcome.code(), text.as_str()), (3, words));
    }
}

#[test]
fn a_violation_shows_a_sample() {
    let (_, text) = spoilt(|c| {
        let detail = "version 1 of at least 2".into();
        c.ledger().lost = 1;
        c.ledger().samples = vec![Finding { kind: "lost".into(), key: "17".into(), detail }];
    });
    assert!(text.ends_with("; one is key 17: version 1 of at least 2"), "{text}");
}

#[test]
fn losses_that_the_write_concern_permits_are_a_note() {
    let verdict = Case::with(|c| c.ledger().lost_permitted = 7).judge();
    assert_eq!((verdict.outcome, verdict.reasons.len()), (Outcome::Pass, 2));
    assert_eq!(
        verdict.reasons[1].text,
        "note: 7 writes are lost that were acknowledged below majority: permitted at this write concern"
    );
    // Unless a limit forbids them.
    let (outcome, text) = spoilt(|c| {
        c.ledger().lost_permitted = 7;
        c.limits.lost_permitted_writes = Some(0);
    });
    assert_eq!(
        (outcome, text.as_str()),
        (Outcome::Fail, "limit lost_permitted_writes: 7 operations, allowed 0 operations")
    );
}

#[test]
fn a_broken_limit_names_fault_node_and_workload() {
    let (outcome, text) = spoilt(|c| c.limits.sustained_recovery = Some(Duration::from_secs(5)));
    assert_eq!(outcome.code(), 1);
    assert_eq!(
        text,
        "limit sustained_recovery: f1 (kill primary, node rs0-1), workload writers: sustained recovery 10.000 s, allowed 5.000 s"
    );
    let (outcome, text) = spoilt(|c| {
        let load = Load::open("writers", 500).ok(100, 500).failing(60, 0);
        c.faults = vec![judged_once(load, fault("f1", 100.0))];
    });
    assert_eq!(outcome.code(), 1);
    assert!(
        text.contains("no sustained recovery within 60.000 s (then came: end of run), allowed 30.000 s"),
        "{text}"
    );
}

#[test]
fn a_broken_workload_limit_names_the_workload() {
    let (outcome, text) = spoilt(|c| {
        c.workloads[0].response_us.p99 = Some(80_000);
        c.limits.p99 = [("writers".to_owned(), Duration::from_millis(50))].into();
    });
    assert_eq!(outcome, Outcome::Fail);
    assert_eq!(text, "limit p99.writers of workload writers: 0.080 s, allowed 0.050 s");
}

#[test]
fn a_limit_that_could_not_be_judged_is_inconclusive() {
    let (outcome, text) = spoilt(|c| c.limits.p99 = [("writers".to_owned(), Duration::from_secs(1))].into());
    assert_eq!((outcome.code(), text.as_str()), (4, "limit p99.writers (1.000 s) could not be measured"));
    let (outcome, text) = spoilt(|c| {
        let load = Load::open("writers", 500).ok(100, 500).failing(8, 0).ok(3, 500);
        c.faults = vec![judged_once(load, fault("f1", 100.0))];
    });
    assert_eq!(outcome.code(), 4);
    assert!(text.contains("sustained recovery was not over after 8.000 s (then came: end of run)"), "{text}");
}

#[test]
fn faults_that_proved_nothing_are_inconclusive() {
    let words = [
        (FaultOutcome::NotEffective, "took no effect: the node went on"),
        (FaultOutcome::Skipped, "was skipped: the node went on"),
        (FaultOutcome::Failed, "could not be injected or lifted: the node went on"),
    ];
    for (how, words) in words {
        let (outcome, text) = spoilt(|c| {
            c.limits = Limits::default();
            c.faults[0].outcome = how;
            c.faults[0].reason = Some("the node went on".into());
        });
        assert_eq!(outcome.code(), 4);
        assert_eq!(text, format!("f1 (kill primary, node rs0-1), planned at 100.0 s, {words}"));
    }
    let (outcome, text) = spoilt(|c| c.limits.min_effective_faults = Some(5));
    assert_eq!(
        (outcome.code(), text.as_str()),
        (4, "limit min_effective_faults: only 1 faults took effect, 5 faults are needed")
    );
}

#[test]
fn a_missing_or_unsteady_baseline_is_inconclusive_even_without_limits() {
    let (outcome, text) = spoilt(|c| {
        c.limits = Limits::default();
        let baseline = c.impact().baseline.as_mut().unwrap();
        (baseline.steady, baseline.unsteady_because) = (false, Some("throughput scattered by 30 %".into()));
    });
    assert_eq!(outcome.code(), 4);
    assert!(
        text.ends_with("workload writers: the baseline was not steady: throughput scattered by 30 %"),
        "{text}"
    );
    let (outcome, text) = spoilt(|c| {
        c.limits = Limits::default();
        let load = Load::open("writers", 500).ok(3, 500).failing(10, 0).ok(190, 500);
        c.faults = vec![judged_once(load, fault("f1", 3.0))];
    });
    assert_eq!(outcome.code(), 4);
    assert!(text.contains("no baseline: only 3 s before the fault"), "{text}");
}

#[test]
fn an_empty_run_is_inconclusive() {
    let (outcome, text) = spoilt(|c| {
        (c.workloads[0].ok, c.workloads[0].unknown) = (0, 12);
    });
    assert_eq!(outcome.code(), 4);
    assert!(text.contains("not one operation succeeded (12 failed or unknown, 0 missed)"), "{text}");
    assert_eq!(spoilt(|c| c.workloads.clear()).0.code(), 4);
}

#[test]
fn an_incomplete_data_check_is_inconclusive() {
    let (outcome, text) = spoilt(|c| {
        (c.ledger().checked, c.ledger().unchecked) = (990, 10);
        c.ledger().incomplete_because = Some("the deadline of 10 m passed".into());
        c.limits = Limits::default();
    });
    assert_eq!(outcome.code(), 4);
    assert_eq!(text, "10 of 1000 acknowledged writes were not verified: the deadline of 10 m passed");
    let (outcome, text) = spoilt(|c| {
        c.ledger().incomplete_because = Some("one node was down".into());
        c.limits = Limits::default();
    });
    assert_eq!(outcome.code(), 4);
    assert_eq!(text, "0 of 1000 acknowledged writes were not verified: one node was down");
    let (outcome, text) = spoilt(|c| (c.ledger, c.limits) = (None, Limits::default()));
    assert_eq!((outcome.code(), text.as_str()), (4, "the acknowledged writes were not verified"));
}

#[test]
fn books_that_do_not_add_up_are_an_error() {
    let (outcome, text) = spoilt(|c| c.ledger().checked = 999);
    assert_eq!(outcome.code(), 5);
    assert_eq!(text, "the books do not add up: 999 checked + 0 unchecked is not 1000 acknowledged");
}

#[test]
fn what_the_tester_did_wrong_is_never_blamed_on_the_database() {
    assert_eq!(spoilt(|c| c.errors.push("mongod rs0-1 did not start".into())).0.code(), 5);
    let (outcome, text) = spoilt(|c| c.workers_lost[0].1 = 2);
    assert_eq!(
        (outcome.code(), text.as_str()),
        (5, "workload writers ended with 2 workers fewer than it began with")
    );
    assert_eq!(spoilt(|c| c.saturated = Some("the tester used 99 % of its 2 cores".into())).0.code(), 4);
    let pause = |seconds| spoilt(move |c| c.tester.own_pauses.push(OwnPause { at_s: 33.0, seconds }));
    assert_eq!(pause(1.0).0, Outcome::Pass);
    let (outcome, text) = pause(2.5);
    assert_eq!(outcome.code(), 4);
    assert!(text.starts_with("the tester itself stood still 1 times, longest 2.5 s at 33.0 s"), "{text}");
}

#[test]
fn an_interruption_is_its_own_outcome() {
    let (outcome, text) = spoilt(|c| c.interrupted = Some("SIGINT after 34 s".into()));
    assert_eq!((outcome.code(), text.as_str()), (130, "interrupted: SIGINT after 34 s"));
}

#[test]
fn every_exit_code_and_the_order_when_several_hold() {
    // From the weakest to the strongest, each added to all before it.
    type Spoil = fn(&mut Case);
    let steps: [(u8, Spoil); 6] = [
        (0, |_| {}),
        (4, |c| c.saturated = Some("late".into())),
        (1, |c| c.limits.hard_outage = Some(Duration::from_secs(1))),
        (130, |c| c.interrupted = Some("SIGTERM".into())),
        (5, |c| c.errors.push("the disk is full".into())),
        (3, |c| c.ledger().lost = 1),
    ];
    let mut case = Case::good();
    for (i, (code, spoil)) in steps.into_iter().enumerate() {
        spoil(&mut case);
        let verdict = case.judge();
        assert_eq!(verdict.exit_code, code, "{verdict:?}");
        let bad = verdict.reasons.iter().filter(|r| r.outcome != Outcome::Pass).count();
        assert!(bad >= i, "no reason is dropped: {verdict:?}");
        let ranks = verdict.reasons.windows(2).all(|w| w[0].outcome.worse(w[1].outcome) == w[0].outcome);
        assert!(ranks, "worst first: {verdict:?}");
    }
    // A scenario that cannot be read never comes this far.
    assert_eq!(Outcome::Usage.code(), 2);
}

#[test]
fn a_recovery_that_no_limit_asks_for_is_at_least_noted() {
    let verdict = Case::with(|c| {
        let load = Load::open("writers", 500).ok(100, 500).failing(60, 300);
        c.faults = vec![judged_once(load, fault("f1", 100.0))];
        c.faults[0].lifted_s = None;
        c.limits = Limits::default();
    })
    .judge();
    let notes: Vec<&str> =
        verdict.reasons.iter().map(|r| r.text.as_str()).filter(|t| t.starts_with("note")).collect();
    assert_eq!(
        notes,
        [
            "note: f1 (kill primary, node rs0-1) was still in force at the end of the measured phase",
            "note: f1 (kill primary, node rs0-1), workload writers: no sustained recovery within 60.0 s (then came: end of run); no limit asks for it",
        ]
    );
    assert_eq!(verdict.outcome, Outcome::Pass);
}

#[test]
fn a_server_that_ends_by_itself_is_a_reason_like_any_other() {
    let crash = Reason { outcome: Outcome::Fail, text: "node2 ended by itself (signal 6)".into() };
    let verdict = Case::with(|case| case.findings.push(crash.clone())).judge();
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(verdict.reasons[0], crash);
}

#[test]
fn a_load_is_judged_by_what_is_loaded_and_nothing_else() {
    let tester = Tester::default();
    let judged = |load: Option<&crate::report::data::Load>, ledger: Option<&Ledger>, expected: bool| {
        let verdict = judge(&JudgeInput {
            goal: Goal::Load(load),
            faults: &[],
            workloads: &[],
            limits: &[],
            ledger,
            ledger_expected: expected,
            tester: &tester,
            workers_lost: &[],
            saturated: None,
            interrupted: None,
            errors: &[],
            findings: &[],
        });
        (verdict.outcome, verdict.reasons[0].text.clone())
    };
    let mut load = crate::report::data::Load::default();
    load.done.documents = 5;
    let whole = Ledger { acknowledged: 5, checked: 5, present: 5, ..Ledger::default() };
    let (outcome, text) = judged(Some(&load), Some(&whole), true);
    assert_eq!((outcome, text.contains("5 documents were found")), (Outcome::Pass, true), "{text}");
    let (outcome, text) = judged(Some(&load), None, false);
    assert_eq!((outcome, text.contains("--no-verify")), (Outcome::Pass, true), "{text}");
    assert_eq!(judged(Some(&load), None, true).0, Outcome::Inconclusive, "the check was not made");
    assert_eq!(judged(None, None, false).0, Outcome::Inconclusive);
    let hole = Ledger { lost: 1, present: 4, ..whole };
    assert_eq!(judged(Some(&load), Some(&hole), true).0, Outcome::Violation);
}
