//! Takes the statistics once a second, also when every worker is stuck.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::stats::{ErrorCell, ErrorKey};
use super::{Drive, Lane, Taken};
use crate::event::{Live, LiveRow};

/// How long after the end of a second it is taken: workers that just finished still have to book.
const SETTLE: Duration = Duration::from_millis(60);

/// One second of one workload, on its way to the recorder.
#[derive(Debug)]
pub struct Sample {
    /// Index of the workload in the scenario.
    pub workload: usize,
    /// Counts and latencies.
    pub taken: Taken,
    /// Operations in flight when the second was taken, abandoned ones included.
    pub in_flight: u64,
    /// Age of the oldest one that a worker waits for.
    pub oldest: Option<Duration>,
    /// Workers that exist.
    pub workers_alive: u32,
    /// All errors so far, once every ten seconds and at the end.
    pub errors: Option<BTreeMap<ErrorKey, ErrorCell>>,
}

/// The task that takes the seconds.
#[derive(Debug)]
pub struct Sampler {
    drive: Drive,
    samples: mpsc::Sender<Sample>,
    live: watch::Sender<Live>,
    /// Set when the workers were told to end: from then on they are not missed.
    stopped: CancellationToken,
    /// Workers alive when a second was taken last, by lane.
    alive: Vec<u32>,
}

impl Sampler {
    /// A sampler of these lanes; `stopped` is the token that ends the workers.
    #[must_use]
    pub fn new(
        drive: Drive,
        samples: mpsc::Sender<Sample>,
        live: watch::Sender<Live>,
        stopped: CancellationToken,
    ) -> Self {
        let alive = drive.lanes.iter().map(|lane| lane.workload.workers).collect();
        Self { drive, samples, live, stopped, alive }
    }

    /// Takes each second when it is over, until `drained`; then takes the rest up to `last` and ends.
    pub async fn run(mut self, last: watch::Receiver<Option<u64>>, drained: CancellationToken) {
        let mut second = 0;
        loop {
            let over = self.drive.epoch + Duration::from_secs(second + 1) + SETTLE;
            tokio::select! {
                () = self.drive.clock.sleep_until(over) => {}
                () = drained.cancelled() => break,
            }
            // The last second stays open until everything in flight has been booked.
            let ended = last.borrow().is_some_and(|end| second >= end);
            if ended {
                drained.cancelled().await;
                break;
            }
            self.take(second, second.is_multiple_of(10)).await;
            second += 1;
        }
        let end = last.borrow().unwrap_or(second);
        while second <= end {
            // The workers have ended in order; what counts is that they were there until then.
            self.take(second, second == end).await;
            second += 1;
        }
    }

    async fn take(&mut self, second: u64, with_errors: bool) {
        let mut live = Live { second: Some(second), rows: Vec::new() };
        for (index, lane) in self.drive.lanes.iter().enumerate() {
            if !self.stopped.is_cancelled() {
                self.alive[index] = lane.alive.load(Ordering::Relaxed);
            }
            let sample = self.sample(index, lane, with_errors);
            let cell = &sample.taken.cell;
            lane.meter.add(cell);
            live.rows.push(LiveRow {
                ok: cell.ok,
                not_ok: cell.failed + cell.unknown + cell.missed,
                p99_us: (cell.ok > 0).then(|| cell.response.value_at_quantile(0.99)),
            });
            if self.samples.send(sample).await.is_err() {
                tracing::error!("a second was lost: the recorder is gone");
            }
        }
        self.live.send_replace(live);
    }

    fn sample(&self, workload: usize, lane: &Arc<Lane>, with_errors: bool) -> Sample {
        let now = self.drive.clock.now();
        let since: Vec<_> = lane.busy.iter().filter_map(super::worker::Busy::since).collect();
        Sample {
            workload,
            taken: lane.stats.take(),
            in_flight: since.len() as u64 + lane.abandoned(),
            oldest: since.iter().min().map(|at| now.saturating_sub(*at)),
            workers_alive: self.alive[workload],
            errors: with_errors.then(|| lane.stats.errors()),
        }
    }
}
