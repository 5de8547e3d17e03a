//! Reads a run directory back. What a killed tester left half written (a torn last line) is passed over.

mod latency;
mod series;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ErrorLine, Line};
use crate::event::{Event, Phase};
use crate::plan::PlannedFault;
use crate::recording::{FaultOutcome, FaultRecord, Migration, Recording};
use crate::report::data::{Ledger, Load, OwnPause, Percentiles, Tester};

pub use latency::Totals;

/// Bytes that are looked through at a time for the last line end of a file.
const BLOCK: u64 = 64 * 1024;

/// A run as its directory tells it.
#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    /// What the measures need.
    pub recording: Recording,
    /// Whole-run latency by workload name.
    pub latency: BTreeMap<String, Totals>,
    /// Latency in the counted part of each step of a sweep, in the order of the recording.
    pub steps: Vec<Totals>,
    /// By workload and kind of operation; only of workloads that mix several.
    pub operations: BTreeMap<(String, String), Counts>,
    /// Errors by class.
    pub errors: Vec<ErrorLine>,
    /// `manifest.json`.
    pub manifest: Value,
    /// The load, if there was one.
    pub load: Option<Load>,
    /// The last phase that began.
    pub phase: Option<Phase>,
    /// The last event of an orderly end is there.
    pub finished: bool,
    /// Name of the signal that stopped it.
    pub interrupted: Option<String>,
    /// What broke in the tester or its infrastructure.
    pub failures: Vec<String>,
    /// Processes that ended though nobody of us wanted it.
    pub unexpected_exits: Vec<UnexpectedExit>,
    /// What the tester used.
    pub tester: Tester,
    /// Result of the last verification.
    pub ledger: Option<Ledger>,
    /// Workloads whose rate was changed by hand in the measured phase.
    pub changed_rates: BTreeSet<String>,
    /// Workers that were missing in some second, by workload.
    pub lost_workers: BTreeMap<String, u64>,
}

/// What became of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acknowledged.
    pub ok: u64,
    /// Surely not applied.
    pub failed: u64,
    /// May have been applied.
    pub unknown: u64,
}

/// A process that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnexpectedExit {
    /// Which node.
    pub node: String,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The directory cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read {path}: {why}")]
pub struct ReadError {
    path: PathBuf,
    why: String,
}

impl ReadError {
    fn new(path: &Path, why: impl ToString) -> Self {
        Self { path: path.into(), why: why.to_string() }
    }
}

#[derive(Deserialize)]
struct PlanFile {
    faults: Vec<PlannedFault>,
}

/// Reads everything that the judgement needs.
///
/// # Errors
/// When it is no run directory, or a file is damaged in its middle.
pub fn directory(dir: &Path) -> Result<RunRecord, ReadError> {
    let manifest: Value = json_file(&dir.join("manifest.json"))?;
    let plan: PlanFile = json_file(&dir.join("plan.json"))?;
    let mut record = RunRecord { manifest, ..RunRecord::default() };
    record.recording.faults = plan.faults.iter().map(planned).collect();
    for line in events(&dir.join("events.jsonl"))? {
        take(&mut record, line);
    }
    series::read(dir, &mut record)?;
    record.operations = series::read_operations(dir)?;
    record.recording.own = series::read_own(dir)?;
    if record.phase == Some(Phase::Measure) {
        // Nobody could say when it ended: the tester was killed. What was measured until then counts.
        let seconds = record.recording.workloads.iter().map(|w| w.seconds.len()).min();
        #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
        let known_s = seconds.unwrap_or_default() as f64;
        record.recording.duration_s = known_s;
    }
    (record.latency, record.steps) = latency::read(dir, &mut record.recording)?;
    record.errors = optional_json(&dir.join("errors.json"))?.unwrap_or_default();
    Ok(record)
}

fn json_file<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, ReadError> {
    optional_json(path)?.ok_or_else(|| ReadError::new(path, "no such file; is this a run directory?"))
}

fn optional_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, ReadError> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| ReadError::new(path, e)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReadError::new(path, error)),
    }
}

/// A file up to its last line end: a killed tester may have left a number, or a letter, half written, and half a
/// number reads like a whole one. `None`: there is no such file.
fn whole_lines(path: &Path) -> Result<Option<Take<File>>, ReadError> {
    let cut = |mut file: File| {
        let length = last_line_end(&mut file)?;
        file.rewind()?;
        Ok(file.take(length))
    };
    match File::open(path).and_then(cut) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReadError::new(path, error)),
    }
}

/// Length of a file up to and with its last line end; 0: it has none.
fn last_line_end(file: &mut File) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        file.by_ref().take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// All whole lines.
fn events(path: &Path) -> Result<Vec<Line>, ReadError> {
    let file = whole_lines(path)?.ok_or_else(|| ReadError::new(path, "no such file"))?;
    let mut lines = Vec::new();
    let mut torn: Option<serde_json::Error> = None;
    for line in BufReader::new(file).split(b'\n') {
        if let Some(error) = torn {
            return Err(ReadError::new(path, error));
        }
        match serde_json::from_slice(&line.map_err(|e| ReadError::new(path, e))?) {
            Ok(line) => {
                lines.push(line);
                torn = None;
            }
            Err(error) => torn = Some(error),
        }
    }
    Ok(lines)
}

fn planned(fault: &PlannedFault) -> FaultRecord {
    FaultRecord {
        id: fault.id.clone(),
        spec: fault.r#do.clone(),
        planned_s: fault.at_s,
        injected_s: None,
        effective_s: None,
        lifted_s: None,
        nodes: Vec::new(),
        roles: Vec::new(),
        outcome: FaultOutcome::Skipped,
        reason: Some("the run ended first".into()),
        evidence: faults::Evidence::new(),
    }
}

fn take(record: &mut RunRecord, line: Line) {
    let at = line.t_s;
    match line.event {
        Event::Phase { phase } => {
            record.phase = Some(phase);
            if phase == Phase::Heal {
                record.recording.duration_s = at.unwrap_or_default();
            }
        }
        Event::Loaded(done) => {
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let rate = done.inserted as f64 / done.seconds;
            let docs_per_s = (done.inserted > 0 && done.seconds > 0.0).then_some(rate);
            record.load = Some(Load { done: *done, docs_per_s, ..Load::default() });
        }
        Event::LoadChecked { complete, seconds } => {
            if let Some(load) = &mut record.load {
                (load.verified, load.verify_seconds) = (Some(complete), Some(seconds));
            }
        }
        Event::NodeExited { node, code, signal, expected: false } => {
            record.unexpected_exits.push(UnexpectedExit { node, code, signal });
        }
        Event::Verified { ledger } => record.ledger = Some(*ledger),
        Event::Interrupted { signal } => record.interrupted = Some(signal),
        Event::Failure { what } => record.failures.push(what),
        Event::TesterUsage { cpu_s, rss_max_bytes, dropped_log_lines, abandoned_operations } => {
            let own_pauses = std::mem::take(&mut record.tester.own_pauses);
            let late_starts = record.tester.late_starts;
            record.tester = Tester {
                cpu_s,
                rss_max_bytes,
                late_starts,
                dropped_log_lines,
                own_pauses,
                abandoned_operations,
            };
        }
        Event::OwnPause { seconds } => {
            if let Some(at_s) = at.filter(|t| *t >= 0.0) {
                record.tester.own_pauses.push(OwnPause { at_s, seconds });
            }
        }
        Event::Migration(migration) => {
            let started_s = at.unwrap_or_default();
            record.recording.migrations.push(Migration { started_s, ..*migration });
        }
        Event::SweepStep(step) => record.recording.steps.push(step),
        Event::Probe(probe) => record.recording.probes.push(*probe),
        Event::RateChanged { workload, .. } if at.is_some_and(|t| t >= 0.0) => {
            record.changed_rates.insert(workload);
        }
        Event::Finished => record.finished = true,
        event => take_fault(&mut record.recording.faults, at, event),
    }
}

fn take_fault(faults: &mut [FaultRecord], at: Option<f64>, event: Event) {
    let find = |faults: &mut [FaultRecord], id: &str| faults.iter().position(|f| f.id == id);
    match event {
        Event::FaultInjected { fault, nodes, roles } => {
            if let Some(i) = find(faults, &fault) {
                faults[i].injected_s = at;
                (faults[i].nodes, faults[i].roles) = (nodes, roles);
            }
        }
        Event::FaultStep { fault, node, step, evidence } => {
            if let Some(i) = find(faults, &fault) {
                let of_node = faults[i].evidence.entry(node).or_insert_with(|| json!({}));
                of_node[step] = Value::Object(evidence);
            }
        }
        Event::FaultEffective { fault } => {
            if let Some(i) = find(faults, &fault) {
                faults[i].effective_s = at;
                faults[i].outcome = FaultOutcome::Effective;
                faults[i].reason = None;
            }
        }
        Event::FaultLifted { fault } => {
            if let Some(i) = find(faults, &fault) {
                faults[i].lifted_s = at;
            }
        }
        Event::FaultEnded { fault, outcome, reason } => {
            if let Some(i) = find(faults, &fault) {
                faults[i].outcome = outcome;
                faults[i].reason = reason;
            }
        }
        _ => {}
    }
}

/// Percentiles of a histogram in microseconds, with the true maximum.
fn percentiles(histogram: &hdrhistogram::Histogram<u64>, max_us: Option<u64>) -> Percentiles {
    if histogram.is_empty() {
        return Percentiles::default();
    }
    let at = |q: f64| Some(histogram.value_at_quantile(q));
    Percentiles {
        min: Some(histogram.min()),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: Some(max_us.unwrap_or(0).max(histogram.max())),
        mean: Some((histogram.mean() * 10.0).round() / 10.0),
        count: histogram.len(),
    }
}

#[cfg(test)]
mod tests;
