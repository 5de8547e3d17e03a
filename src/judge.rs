//! From a run directory to its report: reads the recording, measures, judges. The same for a run that just
//! ended and for `report RUN_DIR` a year later.

use std::collections::BTreeMap;
use std::path::Path;

use crate::analysis::verdict::{Goal, JudgeInput};
use crate::analysis::{self, limits, own_load, saturation, scaling, searching, verdict};
use crate::event::Phase;
use crate::exit::Outcome;
use crate::recorder::read::{self, ReadError, RunRecord, Totals, UnexpectedExit};
use crate::recording::WorkloadRecording;
use crate::report::data::{ErrorClass, FaultReport, Reason, Report, Run, SCHEMA, WorkloadReport};
use crate::scenario::{self, Problems, Scenario};

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
        ..by_name.remove(&workload.name).unwrap_or_default()
    });
    record.recording.workloads = aligned.collect();
}

fn judge(record: &RunRecord, scenario: &Scenario, late: &[Reason]) -> Report {
    let recording = &record.recording;
    let faults = analysis::judge_faults(recording, &scenario.measures);
    let workloads: Vec<_> = recording.workloads.iter().map(|w| workload(w, record, scenario)).collect();
    let limits = limits::evaluate(&scenario.limits, &faults, &workloads, record.ledger.as_ref());
    let sweep = scenario.sweep.as_ref().map(|planned| {
        let latency: Vec<_> = record.steps.iter().map(of_step).collect();
        scaling::sweep(recording, planned, &latency, cores(record))
    });
    let find_max = scenario.find_max.as_ref().map(|search| searching::find_max(recording, search));
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
    // It decides nothing, so it comes last.
    let starved = own_load::starved(recording).map(|text| format!("note: {text}"));
    verdict.reasons.extend(starved.map(|text| Reason { outcome: Outcome::Pass, text }));
    Report {
        schema: SCHEMA.into(),
        run: run(record, scenario),
        manifest: record.manifest.clone(),
        verdict,
        workloads,
        load: record.load.clone(),
        faults,
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
    let duration_s = record.recording.duration_s;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let throughput_ops_s = if duration_s > 0.0 { ok as f64 / duration_s } else { 0.0 };
    WorkloadReport {
        name: recorded.name.clone(),
        op: mix.map(|w| crate::report::mix_in_words(&w.mix)).unwrap_or_default(),
        rate_ops_s: recorded.rate_ops_s,
        ok,
        failed: sum(&|s| s.failed),
        unknown: sum(&|s| s.unknown),
        missed: sum(&|s| s.missed),
        throughput_ops_s,
        longest_gap_s: recorded.gaps.iter().map(|g| g.to_s - g.from_s).max_by(f64::total_cmp),
        response_us: latency.response,
        service_us: latency.service,
        errors: error_classes(record, &recorded.name),
    }
}

fn error_classes(record: &RunRecord, workload: &str) -> Vec<ErrorClass> {
    let of_it = record.errors.iter().filter(|line| line.workload == workload);
    let mut all: Vec<_> = of_it.map(|line| line.error.clone()).collect();
    all.sort_by_key(|e| std::cmp::Reverse(e.count));
    all
}
