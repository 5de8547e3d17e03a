//! The only writer of a run directory: takes events and seconds from bounded queues, appends them as
//! they come, and flushes at least once a second. A killed tester leaves a readable directory.

mod availability;
mod files;
mod latency;
mod operations;
mod own;
pub mod read;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::clock::{self, Moment};
use crate::event::{Event, Phase, Stamped};
use crate::file;
use crate::recording::LoadSecond;
use crate::report::data::ErrorClass;
use crate::workload::Sample;
use availability::Availability;
use files::{Appender, Timeline};
use latency::LatencyLog;
use operations::OperationsLog;
use own::OwnLog;

/// Gaps between two successes from this length on are written down.
const SHORTEST_GAP: Duration = Duration::from_millis(100);

const LOAD_COLUMNS: &str = "t_s,documents,batches,failed_tries,bytes\n";

/// One line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Seconds since the start of the run.
    pub run_s: f64,
    /// Seconds since the start of the measured phase; `None` before it is known.
    pub t_s: Option<f64>,
    /// Wall clock, RFC 3339, UTC.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What the recorder must know of a workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// After this time from its intended start, nothing changes any more about an operation.
    pub settled_after: Duration,
}

/// The task that writes.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    lanes: Vec<Lane>,
    events: Appender,
    warmup: Timeline,
    timeline: Timeline,
    availability: Appender,
    gaps: Appender,
    latency: LatencyLog,
    load: Appender,
    operations: OperationsLog,
    own: OwnLog,
    /// Start of second 0 of the drive.
    epoch: Option<Moment>,
    /// Second of the drive with which the measured phase begins.
    measured_from: Option<u64>,
    /// End of the measured phase.
    measured_to: Option<Moment>,
}

#[derive(Debug)]
struct Lane {
    name: String,
    availability: Availability,
    last_success: Option<Moment>,
    errors: Vec<ErrorLine>,
}

/// One line of `errors.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// Workload.
    pub workload: String,
    /// What failed, how often, when.
    #[serde(flatten)]
    pub error: ErrorClass,
}

impl Recorder {
    /// Makes the files of a run directory that exists.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn new(dir: &Path, workloads: &[Workload]) -> io::Result<Self> {
        let lane = |w: &Workload| Lane {
            name: w.name.clone(),
            availability: Availability::new(w.settled_after),
            last_success: None,
            errors: Vec::new(),
        };
        Ok(Self {
            dir: dir.into(),
            lanes: workloads.iter().map(lane).collect(),
            events: Appender::create(&dir.join("events.jsonl"), "")?,
            warmup: Timeline::create(&dir.join("warmup.csv"))?,
            timeline: Timeline::create(&dir.join("timeline.csv"))?,
            availability: Appender::create(&dir.join("availability.csv"), availability::HEADER)?,
            gaps: Appender::create(&dir.join("gaps.csv"), "workload,from_s,to_s\n")?,
            latency: LatencyLog::create(&dir.join("latency.hlog"))?,
            load: Appender::create(&dir.join("load.csv"), LOAD_COLUMNS)?,
            operations: OperationsLog::create(dir)?,
            own: OwnLog::create(dir)?,
            epoch: None,
            measured_from: None,
            measured_to: None,
        })
    }

    /// Writes until all producers are gone.
    ///
    /// # Errors
    /// When a file cannot be written: the disk is full, or gone.
    pub async fn run(
        mut self,
        mut events: mpsc::Receiver<Stamped>,
        mut samples: mpsc::Receiver<Sample>,
    ) -> io::Result<()> {
        let mut samples_open = true;
        loop {
            tokio::select! {
                // Events first: a phase is announced before its first second comes.
                biased;
                event = events.recv() => match event {
                    Some(event) => self.event(&event)?,
                    None => break,
                },
                sample = samples.recv(), if samples_open => match sample {
                    Some(sample) => self.sample(&sample)?,
                    None => samples_open = false,
                },
            }
        }
        // The last seconds may still be queued when the last event is through.
        while let Ok(sample) = samples.try_recv() {
            self.sample(&sample)?;
        }
        self.finish()
    }

    fn event(&mut self, stamped: &Stamped) -> io::Result<()> {
        match stamped.event {
            Event::LoadSecond(LoadSecond { t_s, documents, batches, failed_tries, bytes }) => {
                self.load.write_line(&format!("{t_s},{documents},{batches},{failed_tries},{bytes}"))?;
                return self.load.flush();
            }
            Event::OwnSecond(ref own) => {
                // Those of the warm-up decide nothing.
                let t_s = self.measured_from.and_then(|from| own.t_s.checked_sub(from));
                return t_s.map_or(Ok(()), |t_s| self.own.row(t_s, own));
            }
            Event::Phase { phase: Phase::WarmUp } => self.epoch = Some(stamped.at),
            Event::Phase { phase: Phase::Measure } => {
                self.measured_from =
                    Some(stamped.at.saturating_sub(self.epoch.unwrap_or_default()).as_secs());
            }
            Event::Phase { phase: Phase::Heal } if self.measured_from.is_some() => {
                self.measured_to = Some(stamped.at);
            }
            _ => {}
        }
        let line = Line {
            run_s: millis(stamped.at.as_secs_f64()),
            t_s: self.zero().map(|zero| millis(stamped.at.as_secs_f64() - zero.as_secs_f64())),
            at: clock::rfc3339(stamped.wall),
            event: stamped.event.clone(),
        };
        self.events.write_line(&serde_json::to_string(&line)?)?;
        self.events.flush()
    }

    /// Start of the measured phase on the run clock.
    fn zero(&self) -> Option<Moment> {
        Some(self.epoch? + Duration::from_secs(self.measured_from?))
    }

    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        let second = sample.taken.cell.second;
        match self.measured_from {
            Some(from) if second >= from => self.measured_sample(sample, from)?,
            from => {
                let lane = &mut self.lanes[sample.workload];
                self.warmup.row(second, &lane.name, sample)?;
                // A second is taken a little late: with the last one of the warm-up come the first
                // operations that were intended in the measured phase.
                if let Some(from) = from {
                    lane.availability.add(&sample.taken.pieces, from * 10);
                }
            }
        }
        if sample.workload + 1 == self.lanes.len() {
            self.flush()?;
        }
        Ok(())
    }

    fn measured_sample(&mut self, sample: &Sample, from: u64) -> io::Result<()> {
        let t_s = sample.taken.cell.second - from;
        let zero = self.zero().unwrap_or_default();
        let lane = &mut self.lanes[sample.workload];
        self.timeline.row(t_s, &lane.name, sample)?;
        self.latency.second(t_s, &lane.name, &sample.taken.cell)?;
        self.operations.rows(t_s, &lane.name, &sample.taken.cell.kinds)?;
        lane.availability.add(&sample.taken.pieces, from * 10);
        lane.availability.write_settled(t_s, sample.waited, &lane.name, &mut self.availability)?;
        for (first, last) in sample.taken.cell.successes() {
            let before = lane.last_success.unwrap_or(zero).max(zero);
            // What finishes after the end ends no gap: it is open there.
            let until = self.measured_to.map_or(first, |end| first.min(end));
            write_gap(&mut self.gaps, &lane.name, before, until, zero)?;
            lane.last_success = Some(last);
        }
        if let Some(errors) = &sample.errors {
            let offset = |at: Moment| millis(at.as_secs_f64() - zero.as_secs_f64());
            let line = |((class, code), cell): (&crate::workload::ErrorKey, &crate::workload::ErrorCell)| {
                let error = ErrorClass {
                    class: (*class).into(),
                    code: *code,
                    count: cell.count,
                    first_s: offset(cell.first),
                    last_s: offset(cell.last),
                    sample: cell.sample.clone(),
                };
                ErrorLine { workload: lane.name.clone(), error }
            };
            lane.errors = errors.iter().map(line).collect();
            self.write_errors()?;
        }
        Ok(())
    }

    fn write_errors(&self) -> io::Result<()> {
        let all: Vec<_> = self.lanes.iter().flat_map(|lane| &lane.errors).collect();
        file::replace(&self.dir.join("errors.json"), &serde_json::to_string_pretty(&all)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.warmup.flush()?;
        self.timeline.flush()?;
        self.availability.flush()?;
        self.gaps.flush()?;
        self.operations.flush()?;
        self.own.flush()?;
        self.latency.flush()
    }

    fn finish(mut self) -> io::Result<()> {
        if let (Some(zero), Some(end)) = (self.zero(), self.measured_to) {
            for lane in &mut self.lanes {
                lane.availability.write_rest(&lane.name, &mut self.availability)?;
                let last = lane.last_success.unwrap_or(zero).max(zero);
                write_gap(&mut self.gaps, &lane.name, last, end, zero)?;
            }
        }
        self.flush()?;
        self.events.sync()
    }
}

/// A gap is written to the microsecond; whoever shows it rounds.
fn write_gap(to: &mut Appender, lane: &str, from: Moment, until: Moment, zero: Moment) -> io::Result<()> {
    if until.saturating_sub(from) < SHORTEST_GAP {
        return Ok(());
    }
    let seconds = |at: Moment| at.saturating_sub(zero).as_secs_f64();
    to.write_line(&format!("{},{:.6},{:.6}", files::csv_text(lane), seconds(from), seconds(until)))
}

/// Rounded to a millisecond.
fn millis(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}
