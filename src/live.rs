//! What a person sees while a run goes on: plain lines on standard error, one per phase, fault and change
//! of primary, and a status every ten seconds. No control codes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Live, Phase, Stamped};
use crate::recording::FaultOutcome;
use crate::report::{count, duration_s, per_second};

const STATUS_EVERY: Duration = Duration::from_secs(10);
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Prints progress, or nothing when it is quiet.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Print nothing.
    pub quiet: bool,
    /// Names of the workloads, in the order of the scenario.
    pub workloads: Arc<[String]>,
}

impl Progress {
    /// One line.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            eprintln!("{line}");
        }
    }

    /// Prints events until the run is over.
    pub async fn events(self, mut events: broadcast::Receiver<Stamped>) {
        // As in the report: seconds of the measured phase, once that has begun.
        let mut zero = Duration::ZERO;
        loop {
            match events.recv().await {
                Ok(stamped) => {
                    if stamped.event == (Event::Phase { phase: Phase::Measure }) {
                        zero = stamped.at;
                    }
                    if let Some(line) = words(&stamped.event) {
                        let seconds = stamped.at.as_secs_f64() - zero.as_secs_f64();
                        self.say(&format!("{seconds:>8.1} s  {line}"));
                    }
                    if stamped.event == Event::Finished {
                        return;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(n)) => {
                    self.say(&format!("            ({n} lines left out)"))
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    /// Prints the last second now and then, until `stop`.
    pub async fn seconds(self, live: watch::Receiver<Live>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(STATUS_EVERY) => {}
                () = stop.cancelled() => return,
            }
            let rows: Vec<String> = live
                .borrow()
                .rows
                .iter()
                .zip(self.workloads.iter())
                .map(|(row, name)| {
                    let p99 = row.p99_us.map_or("-".into(), crate::report::duration_us);
                    let trouble =
                        if row.not_ok > 0 { format!(", {} not ok", row.not_ok) } else { String::new() };
                    format!("{name} {}/s p99 {p99}{trouble}", count(row.ok))
                })
                .collect();
            self.say(&format!("            {}", rows.join("; ")));
        }
    }

    /// Prints how far something long is (`what`: "documents loaded"), until `stop`.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub async fn counting(
        self,
        what: &str,
        done: impl Fn() -> u64 + Send,
        total: u64,
        stop: CancellationToken,
    ) {
        let mut before = done();
        loop {
            tokio::select! {
                () = tokio::time::sleep(PROGRESS_EVERY) => {}
                () = stop.cancelled() => return,
            }
            let now = done();
            let rate = now.saturating_sub(before) as f64 / PROGRESS_EVERY.as_secs_f64();
            before = now;
            let percent = 100.0 * now as f64 / total.max(1) as f64;
            let left = total.saturating_sub(now) as f64 / rate;
            let left = if left.is_finite() { format!(", {} left", duration_s(left)) } else { String::new() };
            let (now, total) = (count(now), count(total));
            self.say(&format!("            {now} of {total} {what} ({percent:.0} %, {rate:.0}/s{left})"));
        }
    }
}

fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Phase { phase: Phase::Measure } => "== measure (times are of this phase from here on)".into(),
        Event::Phase { phase } => format!("== {}", phase.word()),
        Event::NodeStarted { node, pid, port } => format!("{node} started (pid {pid}, port {port})"),
        Event::NodeExited { node, code, signal, expected } => {
            let how = faults::Exit { code: *code, signal: *signal };
            let blame = if *expected { "" } else { " BY ITSELF" };
            format!("{node} ended{blame} ({how})")
        }
        Event::PrimaryChanged { from, to, term } => {
            let name = |n: &Option<String>| n.clone().unwrap_or_else(|| "none".into());
            let term = term.map(|t| format!(", term {t}")).unwrap_or_default();
            format!("primary: {} -> {}{term}", name(from), name(to))
        }
        Event::Loaded(load) if load.inserted == 0 && load.resumed => {
            format!("{} documents are loaded already", count(load.documents))
        }
        Event::Loaded(load) => {
            let (inserted, all) = (count(load.inserted), count(load.documents));
            format!("{inserted} documents loaded in {}, {all} in all", duration_s(load.seconds))
        }
        Event::LoadChecked { complete, seconds } => {
            let result = if *complete { "all are there" } else { "NOT as loaded" };
            format!("every loaded key looked up in {}: {result}", duration_s(*seconds))
        }
        Event::FaultWaits { fault, reason } => format!("{fault} waits: {reason}"),
        Event::FaultInjected { fault, nodes, .. } => format!("{fault} injected on {}", nodes.join(", ")),
        Event::FaultEffective { fault } => format!("{fault} took effect"),
        Event::FaultLifted { fault } => format!("{fault} lifted"),
        Event::FaultEnded { outcome: FaultOutcome::Effective, .. } | Event::FaultStep { .. } => return None,
        Event::FaultEnded { fault, reason, .. } => {
            format!("{fault} did not come about: {}", reason.as_deref().unwrap_or("no reason given"))
        }
        Event::Verified { ledger } => {
            let found = count(ledger.present);
            format!("{found} of {} acknowledged documents found", count(ledger.acknowledged))
        }
        Event::Interrupted { signal } => format!("stopped by {signal}"),
        Event::Failure { what } => format!("ERROR {what}"),
        Event::Note { text } => text.clone(),
        Event::OwnPause { seconds } => format!("the tester stood still for {}", duration_s(*seconds)),
        Event::RateChanged { workload, rate_ops_s, by } => {
            format!("rate of {workload} from now on: {rate_ops_s} operations/s (by {by})")
        }
        Event::Migration(moved) => {
            let how = if moved.committed { "moved" } else { "did not move" };
            format!("a chunk of {} {how} from {} to {}", moved.ns, moved.from, moved.to)
        }
        Event::SweepStep(step) => {
            let rate = step.rate_ops_s.map(|rate| format!(", {}", per_second(rate))).unwrap_or_default();
            let s = if step.workers == 1 { "" } else { "s" };
            format!("step {}: {} with {} worker{s}{rate}", step.index + 1, step.workload, step.workers)
        }
        Event::ProbeStarted { workload, rate_ops_s } => format!("{workload} at {}", per_second(*rate_ops_s)),
        Event::Probe(probe) => {
            let p99 = probe.p99_us.map_or("-".into(), crate::report::duration_us);
            let trouble = probe.missed + probe.not_ok;
            let trouble =
                if trouble > 0 { format!(", {} missed or not ok", count(trouble)) } else { String::new() };
            format!("{}: p99 {p99}{trouble}", per_second(probe.rate_ops_s))
        }
        Event::TesterUsage { .. }
        | Event::LoadSecond(_)
        | Event::Connections { .. }
        | Event::OwnSecond(_)
        | Event::Finished => {
            return None;
        }
    })
}
