//! From a run directory to its report: reads the recording, measures, judges. The same for a run that just
//! ended and for `report RUN_DIR` a year later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::analysis::verdict::{Goal, JudgeInput};
use crate::analysis::{self, limits, own_load, saturation, scaling, searching, verdict};
use crate::event::Phase;
use crate::exit::Outcome;
use crate::recorder::read::{self, ReadError, RunRecord, Totals, UnexpectedExit};
use crate::recording::{Pace, WorkloadRecording};
use crate::report::data::{
    ErrorClass, FaultReport, OpReport, Percentiles, Reason, Report, Run, SCHEMA, WorkloadReport,
};
use crate::scenario::{self, Problems, Scenario};

/// Said of every workload without a rate.
const CLOSED_LOOP: &str = "closed loop: nothing is sent while the workers wait, so the percentiles hide waiting; \
                           for latency as users see it, give it a rate";

/// The directory cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// A file is missing or damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its scenario does not parse.
    #[error("the scenario of the run is damaged:\n{0}")]
    Scenario(#[from] Problems),
}

/// Judges what a directory holds. `late` are findings that could not be recorded any more (a full disk).
///
/// # Errors
/// When it is no run directory, or a file is damaged.
pub fn directory(dir: &Path, late: &[Reason]) -> Result<Report, JudgeError> {
    let mut record = read::directory(dir)?;
    let (mut scenario, _) = scenario::read(&dir.join("scenario.toml"), &[])?;
    // A scenario without a name has that of its file, which is another one here.
    if let Some(name) = record.manifest["scenario"].as_str() {
        scenario.name = name.into();
    }
    align(&mut record, &scenario);
    Ok(judge(&record, &scenario, late))
}

/// One recording per workload of the scenario, in its order, with its rate.
fn align(record: &mut RunRecord, scenario: &Scenario) {
    let mut by_name: BTreeMap<String, WorkloadRecording> =
        record.recording.workloads.drain(..).map(|w| (w.name.clone(), w)).collect();
    let aligned = scenario.workloads.iter().map(|workload| WorkloadRecording {
        name: workload.name.clone(),
        rate_ops_s: workload.rate_ops_s,
        pace: pace(workload, &record.changed_rates),
        ..by_name.remove(&workload.name).unwrap_or_default()
    });
    record.recording.workloads = aligned.collect();
}

fn pace(workload: &scenario::Workload, by_hand: &BTreeSet<String>) -> Pace {
    let changed = workload.schedule.is_some() || by_hand.contains(&workload.name);
    if changed { Pace::Changed } else { Pace::Constant }
}

fn judge(record: &RunRecord, scenario: &Scenario, late: &[Reason]) -> Report {
    let recording = &record.recording;
    let faults = analysis::judge_faults(recording, &scenario.measures);
    let workloads: Vec<_> = recording.workloads.iter().map(|w| workload(w, record, scenario)).collect();
    let mut limits = limits::evaluate(&scenario.limits, &faults, &workloads, record.ledger.as_ref());
    if faults.is_empty() {
        limits::doubt_pauses(&mut limits, &recording.workloads);
    }
    // A load, or a run that broke before, has nothing to say about them.
    let drove = recording.duration_s > 0.0;
    let sweep = scenario.sweep.as_ref().filter(|_| drove).map(|planned| {
        let latency: Vec<_> = record.steps.iter().map(of_step).collect();
        scaling::sweep(recording, planned, &latency, cores(record))
    });
    let find_max =
        scenario.find_max.as_ref().filter(|_| drove).map(|search| searching::find_max(recording, search));
    let lost: Vec<_> = record.lost_workers.iter().map(|(name, n)| (name.clone(), saturating(*n))).collect();
    let measured = record.phase.is_some_and(|p| p >= Phase::Heal) && recording.duration_s > 0.0;
    let mut findings: Vec<Reason> =
        record.unexpected_exits.iter().map(exit_finding).chain(late.iter().cloned()).collect();
    if measured {
        findings
            .extend(sweep.iter().zip(&scenario.sweep).flat_map(|(s, planned)| scaling::reasons(s, planned)));
        findings.extend(find_max.iter().filter_map(searching::reason));
    }
    // Of a run that broke before anything was measured, why it broke is all there is to say.
    let began = record.phase.is_some_and(|p| p >= Phase::Measure);
    let loading = record.manifest["goal"] == "load";
    let goal = if loading { Goal::Load(record.load.as_ref()) } else { Goal::Run };
    let input = JudgeInput {
        goal,
        faults: if began { &faults } else { &[] },
        workloads: if began { &workloads } else { &[] },
        limits: if began { &limits } else { &[] },
        ledger: record.ledger.as_ref(),
        ledger_expected: record.manifest["verify"] == true && record.load.is_some()
            || measured && scenario.workloads.iter().any(has_writes),
        tester: &record.tester,
        workers_lost: &lost,
        saturated: if measured { saturated(record, scenario, &faults) } else { None },
        interrupted: interrupted(record),
        errors: &errors(record),
        findings: &findings,
    };
    let mut verdict = verdict::judge(&input);
    // These decide nothing, so they come last.
    let own = [own_load::starved(recording), own_load::behind(recording)];
    let note = |text| Reason { outcome: Outcome::Pass, text: format!("note: {text}") };
    verdict.reasons.extend(own.into_iter().flatten().map(note));
    Report {
        schema: SCHEMA.into(),
        run: run(record, scenario),
        manifest: record.manifest.clone(),
        verdict,
        workloads,
        load: record.load.clone(),
        faults,
        coverage: analysis::coverage::measure(&recording.faults),
        migrations: analysis::migrations::measure(recording),
        sweep,
        find_max,
        ledger: record.ledger.clone(),
        limits,
        tester: record.tester.clone(),
    }
}

/// Processors that the tester may use.
fn cores(record: &RunRecord) -> f64 {
    let host = &record.manifest["host"];
    // Runs of older versions know whole ones only.
    host["usable_cores"].as_f64().or(host["cores"].as_f64()).filter(|cores| *cores > 0.0).unwrap_or(1.0)
}

fn of_step(totals: &Totals) -> scaling::Latency {
    scaling::Latency { response: totals.response.clone(), service: totals.service.clone() }
}

/// Why the load generator was the limit. A workload that is stepped is meant to come to a limit: its steps and
/// probes are judged one by one.
fn saturated(record: &RunRecord, scenario: &Scenario, faults: &[FaultReport]) -> Option<String> {
    let cores = cores(record);
    let sweep = scenario.sweep.as_ref().map(|sweep| &sweep.workload);
    let Some(stepped) = sweep.or(scenario.find_max.as_ref().map(|search| &search.workload)) else {
        let used = saturation::Used { cpu_s: record.tester.cpu_s, cores };
        return saturation::check(&record.recording, faults, used)
            .or_else(|| own_load::check(&record.recording, cores));
    };
    let mut others = record.recording.clone();
    others.workloads.retain(|work| work.name != *stepped);
    saturation::check(&others, faults, saturation::Used { cpu_s: 0.0, cores })
}

fn has_writes(workload: &scenario::Workload) -> bool {
    workload.mix.iter().any(|(op, _)| op.kind().is_write())
}

fn saturating(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn interrupted(record: &RunRecord) -> Option<String> {
    let signal = record.interrupted.as_ref()?;
    let phase =
        record.phase.map_or("before the first phase".into(), |p| format!("at the phase \"{}\"", p.word()));
    let measured = record.recording.duration_s;
    Some(match record.phase {
        Some(phase) if phase >= Phase::Heal && measured > 0.0 => {
            format!("{signal} after {measured:.0} s of the measured phase")
        }
        _ => format!("{signal} {phase}"),
    })
}

fn errors(record: &RunRecord) -> Vec<String> {
    let mut all = record.failures.clone();
    if !record.finished && record.interrupted.is_none() {
        let phase = record.phase.map_or("start", Phase::word);
        all.push(format!("the tester did not end in order; the last phase that began is \"{phase}\""));
    }
    all
}

/// A server that ends by itself is a finding. SIGKILL comes from outside (out of memory, most likely), which
/// says nothing about the server.
fn exit_finding(exit: &UnexpectedExit) -> Reason {
    let how = faults::Exit { code: exit.code, signal: exit.signal };
    let text = format!("{} ended by itself ({how}); see nodes/{}/mongod.log", exit.node, exit.node);
    let outcome = if exit.signal == Some(9) { Outcome::Inconclusive } else { Outcome::Fail };
    Reason { outcome, text }
}

fn run(record: &RunRecord, scenario: &Scenario) -> Run {
    let text = |name: &str| record.manifest[name].as_str().unwrap_or_default().to_owned();
    Run {
        id: text("id"),
        scenario: scenario.name.clone(),
        seed: record.manifest["seed"].as_u64().unwrap_or_default(),
        started_at: text("started_at"),
        duration_s: record.recording.duration_s,
        tool_version: text("tool_version"),
    }
}

fn workload(recorded: &WorkloadRecording, record: &RunRecord, scenario: &Scenario) -> WorkloadReport {
    let sum = |f: &dyn Fn(&crate::recording::Second) -> u64| recorded.seconds.iter().map(f).sum::<u64>();
    let ok = sum(&|s| s.ok);
    let latency = record.latency.get(&recorded.name).cloned().unwrap_or_default();
    let mix = scenario.workloads.iter().find(|w| w.name == recorded.name);
    let busy_s = busy_s(recorded, mix.and_then(|w| w.operations), record.recording.duration_s);
    let mut report = WorkloadReport {
        name: recorded.name.clone(),
        op: mix.map(|w| crate::report::mix_in_words(&w.mix)).unwrap_or_default(),
        rate_ops_s: recorded.rate_ops_s,
        ok,
        failed: sum(&|s| s.failed),
        unknown: sum(&|s| s.unknown),
        missed: sum(&|s| s.missed),
        throughput_ops_s: per_second(ok, busy_s),
        longest_gap_s: limits::longest_gap(recorded),
        note: recorded.rate_ops_s.is_none().then(|| CLOSED_LOOP.into()),
        response_us: latency.response,
        service_us: latency.service,
        ops: Vec::new(),
        errors: error_classes(record, &recorded.name),
    };
    report.ops = match mix.map(|w| w.mix.as_slice()) {
        Some([_, _, ..]) => kinds(&report, &latency.kinds, busy_s, record),
        _ => vec![only_kind(&report)],
    };
    report
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn per_second(operations: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { operations as f64 / seconds } else { 0.0 }
}

/// The time until the last operation of a workload that has done its number, to the second or better; of any
/// other the whole duration, in seconds.
#[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
fn busy_s(recorded: &WorkloadRecording, operations: Option<u64>, duration_s: f64) -> f64 {
    let ended = |s: &crate::recording::Second| s.ok + s.failed + s.unknown;
    let done: u64 = recorded.seconds.iter().map(ended).sum();
    let Some(last) = recorded.seconds.iter().rposition(|s| ended(s) > 0) else { return duration_s };
    if operations.is_none_or(|operations| done < operations) {
        return duration_s;
    }
    // The gap that is open at the end begins with the last success.
    let open = recorded.gaps.last().map(|gap| gap.from_s).filter(|at| *at >= last as f64);
    let only_ok = recorded.seconds[last].ok == ended(&recorded.seconds[last]);
    open.filter(|_| only_ok).unwrap_or((last + 1) as f64).min(duration_s)
}

/// The kinds of a mix, in the order of their names.
fn kinds(
    workload: &WorkloadReport,
    latency: &BTreeMap<String, Percentiles>,
    busy_s: f64,
    record: &RunRecord,
) -> Vec<OpReport> {
    let of_it = record.operations.iter().filter(|((name, _), _)| *name == workload.name);
    of_it
        .map(|((_, op), counts)| OpReport {
            op: op.clone(),
            ok: counts.ok,
            failed: counts.failed,
            unknown: counts.unknown,
            throughput_ops_s: per_second(counts.ok, busy_s),
            response_us: latency.get(op).cloned().unwrap_or_default(),
        })
        .collect()
}

/// A workload with one kind of operation, as that kind.
fn only_kind(workload: &WorkloadReport) -> OpReport {
    OpReport {
        op: workload.op.clone(),
        ok: workload.ok,
        failed: workload.failed,
        unknown: workload.unknown,
        throughput_ops_s: workload.throughput_ops_s,
        response_us: workload.response_us.clone(),
    }
}

fn error_classes(record: &RunRecord, workload: &str) -> Vec<ErrorClass> {
    let of_it = record.errors.iter().filter(|line| line.workload == workload);
    let mut all: Vec<_> = of_it.map(|line| line.error.clone()).collect();
    all.sort_by_key(|e| std::cmp::Reverse(e.count));
    all
}
