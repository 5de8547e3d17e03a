//! What a run came to, with every reason in a sentence for people.
//!
//! Each check looks at one kind of evidence and adds reasons; the worst of them is the outcome. A pass
//! is what is left when nothing speaks against it, and it says what it rests on.

use std::cmp::Ordering;

use super::limits::{self, FaultMeasure, Measured};
use crate::exit::Outcome;
use crate::recording::FaultOutcome;
use crate::report::data::{
    FaultReport, Impact, Ledger, LimitResult, Load, Reason, Tester, Verdict, WorkloadReport,
};

/// Longest that the tester may stand still, in seconds: nothing was measured meanwhile.
const OWN_PAUSE_S: f64 = 1.0;

/// Everything that a verdict rests on.
#[derive(Clone, Debug)]
pub struct JudgeInput<'a> {
    /// Every planned fault, from [`super::judge_faults`].
    pub faults: &'a [FaultReport],
    /// Every workload.
    pub workloads: &'a [WorkloadReport],
    /// From [`limits::evaluate`].
    pub limits: &'a [LimitResult],
    /// Result of the data check; `None`: not made.
    pub ledger: Option<&'a Ledger>,
    /// Whether the run had writes whose data was to be checked.
    pub ledger_expected: bool,
    /// What the tester used and did.
    pub tester: &'a Tester,
    /// Workloads that ended with fewer workers than they began with, and how many are missing.
    pub workers_lost: &'a [(String, u32)],
    /// From [`super::saturation::check`].
    pub saturated: Option<String>,
    /// What stopped the run early: "SIGINT after 34 s".
    pub interrupted: Option<String>,
    /// What broke in the tester or its infrastructure, each a sentence.
    pub errors: &'a [String],
    /// What the run was for.
    pub goal: Goal<'a>,
    /// Findings that were judged where they were seen: a server that ended by itself, a full disk.
    pub findings: &'a [Reason],
}

/// What a run was for.
#[derive(Clone, Copy, Debug)]
pub enum Goal<'a> {
    /// To drive and judge.
    Run,
    /// To fill the collection; what came of it, if anything.
    Load(Option<&'a Load>),
}

/// Judges a run.
#[must_use]
pub fn judge(input: &JudgeInput<'_>) -> Verdict {
    let mut reasons = input.findings.to_vec();
    data(input, &mut reasons);
    tester(input, &mut reasons);
    broken_limits(input, &mut reasons);
    evidence(input, &mut reasons);
    for fault in input.faults {
        fault_evidence(fault, &mut reasons);
    }
    if reasons.is_empty() {
        reasons.push(Reason { outcome: Outcome::Pass, text: pass(input) });
    }
    notes(input, &mut reasons);
    reasons.sort_by(|a, b| worst_first(a.outcome, b.outcome));
    let outcome = reasons.iter().fold(Outcome::Pass, |worst, r| worst.worse(r.outcome));
    Verdict { outcome, exit_code: outcome.code(), reasons }
}

fn worst_first(a: Outcome, b: Outcome) -> Ordering {
    match a.worse(b) {
        _ if a == b => Ordering::Equal,
        worse if worse == a => Ordering::Less,
        _ => Ordering::Greater,
    }
}

fn add(reasons: &mut Vec<Reason>, outcome: Outcome, text: impl Into<String>) {
    reasons.push(Reason { outcome, text: text.into() });
}

/// Findings of the data check, and whether it was complete.
fn data(input: &JudgeInput<'_>, reasons: &mut Vec<Reason>) {
    let Some(ledger) = input.ledger else {
        if input.ledger_expected {
            add(reasons, Outcome::Inconclusive, "the acknowledged writes were not verified");
        }
        return;
    };
    let found = [
        (ledger.lost, "lost", "acknowledged majority writes are lost"),
        (ledger.corrupt, "corrupt", "documents do not hold what was written under their key"),
        (ledger.duplicates, "duplicate", "second documents exist for a key"),
        (ledger.alien, "alien", "documents were never sent by this run"),
    ];
    for (count, kind, words) in found.into_iter().filter(|(count, ..)| *count > 0) {
        let sample = ledger.samples.iter().find(|s| s.kind == kind);
        let sample = sample.map_or(String::new(), |s| format!("; one is key {}: {}", s.key, s.detail));
        add(reasons, Outcome::Violation, format!("{count} {words} ({} checked){sample}", ledger.checked));
    }
    if ledger.checked + ledger.unchecked != ledger.acknowledged {
        let Ledger { checked, unchecked, acknowledged, .. } = ledger;
        let text = format!(
            "the books do not add up: {checked} checked + {unchecked} unchecked is not {acknowledged} acknowledged"
        );
        add(reasons, Outcome::Error, text);
    }
    if ledger.unchecked > 0 || ledger.incomplete_because.is_some() {
        let why = ledger.incomplete_because.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let text = format!(
            "{} of {} acknowledged writes were not verified{why}",
            ledger.unchecked, ledger.acknowledged
        );
        add(reasons, Outcome::Inconclusive, text);
    }
}

/// Whether the tester itself worked.
fn tester(input: &JudgeInput<'_>, reasons: &mut Vec<Reason>) {
    for error in input.errors {
        add(reasons, Outcome::Error, error.as_str());
    }
    for (workload, lost) in input.workers_lost.iter().filter(|(_, lost)| *lost > 0) {
        let text = format!("workload {workload} ended with {lost} workers fewer than it began with");
        add(reasons, Outcome::Error, text);
    }
    if let Some(what) = &input.interrupted {
        add(reasons, Outcome::Interrupted, format!("interrupted: {what}"));
    }
    let pauses = input.tester.own_pauses.iter().filter(|p| p.seconds > OWN_PAUSE_S);
    if let Some(longest) = pauses.clone().max_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
        let text = format!(
            "the tester itself stood still {} times, longest {:.1} s at {:.1} s: nothing was measured meanwhile",
            pauses.count(),
            longest.seconds,
            longest.at_s
        );
        add(reasons, Outcome::Inconclusive, text);
    }
    if let Some(why) = &input.saturated {
        add(reasons, Outcome::Inconclusive, format!("the load generator was saturated: {why}"));
    }
}

/// Limits that were broken or could not be judged.
fn broken_limits(input: &JudgeInput<'_>, reasons: &mut Vec<Reason>) {
    for limit in input.limits {
        match limit.ok {
            Some(true) => {}
            Some(false) => add(reasons, Outcome::Fail, broken(limit, input.faults)),
            None => add(reasons, Outcome::Inconclusive, unjudged(limit, input.faults)),
        }
    }
}

fn broken(limit: &LimitResult, faults: &[FaultReport]) -> String {
    let asked = with_unit(limit.limit, &limit.unit);
    let value = limit.value.map_or_else(|| "unknown".into(), |v| with_unit(v, &limit.unit));
    let Some((measure, worst)) = worst_of(limit, faults) else {
        let whose = limit.at.as_ref().map_or(String::new(), |at| format!(" of workload {at}"));
        return format!("limit {}{whose}: {value}, allowed {asked}", limit.name);
    };
    let who = format!("{}, workload {}", describe(worst.fault), worst.workload);
    let words = measure.words();
    match worst.measured {
        Measured::AtLeast(_) if measure == FaultMeasure::SustainedRecovery => {
            let ended = ended_by(worst.impact);
            format!("limit {}: {who}: no {words} within {value} ({ended}), allowed {asked}", limit.name)
        }
        Measured::AtLeast(_) => {
            format!("limit {}: {who}: {words} of at least {value}, allowed {asked}", limit.name)
        }
        _ => format!("limit {}: {who}: {words} {value}, allowed {asked}", limit.name),
    }
}

fn unjudged(limit: &LimitResult, faults: &[FaultReport]) -> String {
    let asked = with_unit(limit.limit, &limit.unit);
    let value = limit.value.map_or_else(|| "unknown".into(), |v| with_unit(v, &limit.unit));
    let name = &limit.name;
    if name == "min_effective_faults" {
        return format!("limit {name}: only {value} took effect, {asked} are needed");
    }
    let Some((measure, worst)) = worst_of(limit, faults) else {
        return format!("limit {name} ({asked}) could not be measured");
    };
    let who = format!("{}, workload {}", describe(worst.fault), worst.workload);
    let why = match worst.measured {
        Measured::AtLeast(_) => {
            format!("{} was not over after {value} ({})", measure.words(), ended_by(worst.impact))
        }
        Measured::Unsure(_) => format!("{value}, but the baseline was not steady"),
        Measured::Missing | Measured::Value(_) => match recovery_reason(worst.impact) {
            Some(reason) => format!("it could not be measured ({reason})"),
            None => "it could not be measured".into(),
        },
    };
    format!("limit {name} ({asked}) could not be judged: {who}: {why}")
}

/// The fault and workload that a limit on faults was decided by.
fn worst_of<'a>(limit: &LimitResult, faults: &'a [FaultReport]) -> Option<(FaultMeasure, limits::Worst<'a>)> {
    let measure = FaultMeasure::ALL.into_iter().find(|m| m.name() == limit.name)?;
    Some((measure, limits::worst(faults, measure, limit.limit)?))
}

fn recovery_reason(impact: &Impact) -> Option<&str> {
    impact.recovery.as_ref().and_then(|r| r.reason.as_deref())
}

fn ended_by(impact: &Impact) -> String {
    recovery_reason(impact).map_or_else(|| "observed no longer".into(), |r| format!("then came: {r}"))
}

/// `f1 (kill primary, node rs0-1)`.
fn describe(fault: &FaultReport) -> String {
    let node = fault.node.as_ref().map_or(String::new(), |n| format!(", node {n}"));
    format!("{} ({} {}{node})", fault.id, fault.kind, fault.target)
}

fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "s" => format!("{value:.3} s"),
        "share" => format!("{:.3} %", 100.0 * value),
        _ => format!("{value} {unit}"),
    }
}

/// Whether anything was measured at all.
fn evidence(input: &JudgeInput<'_>, reasons: &mut Vec<Reason>) {
    if let Goal::Load(load) = input.goal {
        if load.is_none() {
            add(reasons, Outcome::Inconclusive, "the collection was not filled");
        }
        return;
    }
    if input.workloads.is_empty() {
        add(reasons, Outcome::Inconclusive, "nothing was measured: there is no workload");
    }
    for work in input.workloads.iter().filter(|w| w.ok == 0) {
        let bad = work.failed + work.unknown;
        let text = format!(
            "workload {}: nothing was measured: not one operation succeeded ({bad} failed or unknown, {} missed)",
            work.name, work.missed
        );
        add(reasons, Outcome::Inconclusive, text);
    }
}

/// Whether a planned fault proved anything.
fn fault_evidence(fault: &FaultReport, reasons: &mut Vec<Reason>) {
    let what = match fault.outcome {
        FaultOutcome::Effective => return baselines(fault, reasons),
        FaultOutcome::NotEffective => "took no effect",
        FaultOutcome::Skipped => "was skipped",
        FaultOutcome::Failed => "could not be injected or lifted",
    };
    let why = fault.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let planned =
        fault.planned_s.map_or_else(|| "to be triggered".into(), |at| format!("planned at {at:.1} s"));
    let text = format!("{}, {planned}, {what}{why}", describe(fault));
    add(reasons, Outcome::Inconclusive, text);
}

fn baselines(fault: &FaultReport, reasons: &mut Vec<Reason>) {
    for (workload, impact) in &fault.workloads {
        let why = match &impact.baseline {
            None => recovery_reason(impact).unwrap_or("no baseline").to_owned(),
            Some(b) if b.steady => continue,
            Some(b) => {
                let why = b.unsteady_because.as_deref().unwrap_or("no reason was recorded");
                format!("the baseline was not steady: {why}")
            }
        };
        let text = format!("{}, workload {workload}: {why}", describe(fault));
        add(reasons, Outcome::Inconclusive, text);
    }
}

/// What a pass rests on.
fn pass(input: &JudgeInput<'_>) -> String {
    if let Goal::Load(load) = input.goal {
        let documents = load.map_or(0, |load| load.done.documents);
        let looked_up = match input.ledger {
            Some(ledger) => {
                format!("every key was looked up: {} documents were found as written", ledger.present)
            }
            None => "no key was looked up (--no-verify)".into(),
        };
        return format!("{documents} documents are loaded, {looked_up}");
    }
    let faults = match input.faults.len() {
        0 => "no fault was planned".into(),
        n => format!("{n} of {n} planned faults took effect"),
    };
    let data = match input.ledger {
        None => "no data was to be checked".into(),
        Some(l) => {
            let deleted = if l.deleted + l.delete_unknown > 0 { " or deleted" } else { "" };
            let lost = if l.lost_permitted > 0 { " or permitted to be lost" } else { "" };
            format!("{} acknowledged writes were all found{deleted}{lost}", l.checked)
        }
    };
    let limits = match input.limits.len() {
        0 => "no limit was set".into(),
        1 => "the one limit held".into(),
        n => format!("all {n} limits held"),
    };
    format!("{faults}, {data}, {limits}")
}

/// What a reader should know although it decides nothing.
fn notes(input: &JudgeInput<'_>, reasons: &mut Vec<Reason>) {
    let mut note = |text: String| add(reasons, Outcome::Pass, format!("note: {text}"));
    if let Some(ledger) = input.ledger {
        let found = [
            (
                ledger.lost_permitted,
                "writes are lost that were acknowledged below majority: permitted at this write concern",
            ),
            (ledger.refused_present, "writes are present although the server had refused them"),
            (
                ledger.read_back,
                "inserts were acknowledged by reading them back: the driver had lost the answer to its first try",
            ),
            (ledger.stale_reads, "reads during the run returned something older than was acknowledged"),
        ];
        for (count, words) in found.into_iter().filter(|(count, _)| *count > 0) {
            note(format!("{count} {words}"));
        }
    }
    let limited = input.limits.iter().any(|l| l.name == FaultMeasure::SustainedRecovery.name());
    for fault in input.faults {
        if fault.outcome == FaultOutcome::Effective && fault.lifted_s.is_none() {
            note(format!("{} was still in force at the end of the measured phase", describe(fault)));
        }
        for (workload, impact) in fault.workloads.iter().filter(|_| !limited) {
            let censored = impact.recovery.as_ref().filter(|r| r.censored);
            if let Some(after) = censored.and_then(|r| r.censored_after_s) {
                let ended = ended_by(impact);
                let who = format!("{}, workload {workload}", describe(fault));
                note(format!(
                    "{who}: no sustained recovery within {after:.1} s ({ended}); no limit asks for it"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
