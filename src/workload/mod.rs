//! The load: what is sent, when, by whom, and what became of it. It does not know that faults exist.

mod budget;
mod choice;
mod gate;
mod kinds;
mod latency;
mod load;
mod meter;
mod pacing;
mod sampler;
mod stats;
mod store;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use kinds::{KindCell, Kinds};
pub use latency::{histogram, merge};
pub use load::{
    Counters, LoadError, Loaded, Loading, STALL, Sizes, Unfinished, drop_ours, load, mend, seal, sizes,
};
pub use meter::Tally;
pub use sampler::{Sample, Sampler};
pub use stats::{Cell, ErrorCell, ErrorKey, PieceCell, Taken};
pub use store::{Monitor, Outcomes, Request, Session, Store, Traffic, Wire};

use crate::clock::{Clock, Moment};
use crate::dataset::{Documents, Sequence};
use crate::ledger::{KeySource, Ledger};
use crate::plan;
use crate::scenario::{Dataset, Engine, Workload};
use budget::Budget;
use choice::Mix;
use gate::Gate;
use meter::Meter;
use pacing::{Curve, Pacer};
pub use pacing::{PATIENCE, TooManyChanges};
use stats::{Finished, Stats};
pub use worker::CONNECTIONS_PER_WORKER;
use worker::{Busy, Place, Worker};

/// The tester itself broke. Errors of the database never come here.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// An operation panicked, and its worker with it unless it was abandoned.
    #[error("a worker panicked: {0}")]
    Panicked(JoinError),
    /// The kernel's timer failed.
    #[error("a worker's timer failed: {0}")]
    Timer(std::io::Error),
    /// No descriptor left.
    #[error("start a worker: {0} (more workers than file descriptors? try `ulimit -n`)")]
    Start(std::io::Error),
}

/// One thread of the tester that drives load: a single-threaded runtime with a driver client of its own, so
/// that an operation never moves between threads and no lock is shared.
#[derive(Clone, Debug)]
pub struct Core {
    /// Where the workers run.
    pub runtime: tokio::runtime::Handle,
    /// A client that lives there.
    pub client: mongodb::Client,
}

/// More than one workload can send; each missed arrival is booked, so this also bounds the work after an outage.
const MOST_OPS_S: f64 = 1e6;

/// Why the rate of a workload stays as it is.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum RateError {
    /// It sends as fast as answers come.
    #[error("it has no rate: its workers send as fast as answers come (a closed loop)")]
    ClosedLoop,
    /// Negative, not a number, or beyond what one workload can send.
    #[error("{0} is no rate: give 0 to 1,000,000 operations per second")]
    NotARate(f64),
    /// See there.
    #[error(transparent)]
    TooMany(#[from] TooManyChanges),
}

/// What the workers of one workload share.
#[derive(Debug)]
pub struct Lane {
    /// Settings.
    pub workload: Workload,
    /// One for each core.
    stores: Vec<Store>,
    /// Our own client, if the workload wants it.
    wire: Option<Wire>,
    ledger: Arc<Ledger>,
    pacer: Option<Pacer>,
    /// By [`Drive::set_rate`]: that holds until the end, whatever the scenario says.
    rate_was_set: AtomicBool,
    /// Of all workers together: with a block for each, most keys of a young collection would be holes.
    keys: Mutex<KeySource>,
    stats: Stats,
    busy: Vec<Busy>,
    gate: Gate,
    meter: Meter,
    alive: AtomicU32,
    /// Signed: an operation may end in the instant before it is counted.
    abandoned: AtomicI64,
    version: AtomicU32,
    /// Operations of the measured phase; `None`: as many as come.
    budget: Option<Budget>,
    /// Start of second 0.
    epoch: Moment,
    /// Where a sequential choice stands.
    sequence: Sequence,
    /// In nanoseconds on the run clock.
    end: AtomicU64,
    mix: Mix,
}

impl Lane {
    /// A version that no other update of this lane writes (it wraps after 2^32 updates).
    fn next_version(&self) -> u32 {
        self.version.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    fn fresh_keys(&self, count: u64) -> u64 {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).take(&self.ledger, count)
    }

    /// From the start of the measured phase on the rate changes as the scenario says, unless somebody set
    /// another one before.
    fn follow_schedule(&self, start: Moment) {
        let (Some(pacer), Some(schedule)) = (&self.pacer, &self.workload.schedule) else { return };
        if !self.rate_was_set.load(Ordering::Relaxed)
            && let Err(error) = pacer.change(start, Curve::of(schedule))
        {
            tracing::error!("the schedule of workload {} does not begin: {error}", self.workload.name);
        }
    }

    /// A closed loop has none: nothing ever comes.
    fn rate_changes(&self) -> watch::Receiver<()> {
        self.pacer.as_ref().map_or_else(|| watch::channel(()).1, Pacer::changes)
    }

    /// Connections that our own client made and lost; `None`: the driver sends.
    #[must_use]
    pub fn connections(&self) -> Option<(u64, u64)> {
        self.wire.as_ref().map(|wire| wire.traffic().counts())
    }

    fn abandoned(&self) -> u64 {
        u64::try_from(self.abandoned.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Nothing is intended from this moment on.
    fn end(&self) -> Moment {
        Duration::from_nanos(self.end.load(Ordering::Relaxed))
    }

    fn book_missed(&self, core: usize, intended: Moment, now: Moment) {
        let (sent, outcome, worker_was_free, kind) = (None, None, false, None);
        self.stats.record(core, &Finished { intended, sent, finished: now, worker_was_free, outcome, kind });
    }
}

/// All workloads of a run.
#[derive(Clone, Debug)]
pub struct Drive {
    lanes: Vec<Arc<Lane>>,
    runtimes: Vec<tokio::runtime::Handle>,
    clock: Clock,
    epoch: Moment,
}

/// What a drive needs.
#[derive(Debug)]
pub struct DriveInput<'a> {
    /// The threads that drive the load, at least one.
    pub cores: &'a [Core],
    /// Watches the deployment for the workloads that do not use the driver; there must be one if there are
    /// any.
    pub monitor: Option<&'a Monitor>,
    /// Where.
    pub dataset: &'a Dataset,
    /// What, how fast, by how many.
    pub workloads: &'a [Workload],
    /// The content of the documents.
    pub documents: Documents,
    /// What was acknowledged.
    pub ledger: &'a Arc<Ledger>,
    /// Start of second 0.
    pub epoch: Moment,
}

impl Drive {
    /// Sets the lanes up; nothing is sent before [`Drive::start`].
    #[must_use]
    pub fn new(input: &DriveInput<'_>, clock: Clock) -> Self {
        let lane = |workload: &Workload| {
            let store = |core: &Core| {
                let (documents, ledger) = (input.documents.clone(), Arc::clone(input.ledger));
                Store::new(&core.client, input.dataset, workload, documents, ledger)
            };
            let stores: Vec<_> = input.cores.iter().map(store).collect();
            let monitor = input.monitor.filter(|_| workload.engine == Engine::Wire);
            let wire = monitor.zip(stores.first());
            Arc::new(Lane {
                wire: wire.map(|(monitor, store)| store.wire(monitor, input.dataset, workload)),
                stores,
                ledger: Arc::clone(input.ledger),
                pacer: workload
                    .rate_ops_s
                    .map(|rate| Pacer::new(input.epoch, Curve::Constant(rate), workload.after_outage)),
                rate_was_set: AtomicBool::new(false),
                keys: Mutex::new(KeySource::new(workload.write_concern.is_majority())),
                stats: Stats::new(input.epoch, input.cores.len()),
                busy: (0..workload.workers).map(|_| Busy::default()).collect(),
                gate: Gate::new(workload.workers),
                meter: Meter::default(),
                alive: AtomicU32::new(0),
                abandoned: AtomicI64::new(0),
                version: AtomicU32::new(0),
                budget: workload.operations.map(Budget::new),
                epoch: input.epoch,
                sequence: Sequence::default(),
                end: AtomicU64::new(u64::MAX),
                mix: Mix::new(&workload.mix),
                workload: workload.clone(),
            })
        };
        let runtimes = input.cores.iter().map(|core| core.runtime.clone()).collect();
        Self { lanes: input.workloads.iter().map(lane).collect(), runtimes, clock, epoch: input.epoch }
    }

    /// Starts all workers, spread over the cores; the caller's set joins them, and dropping it ends them.
    /// They run until `stop`.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn start(
        &self,
        tasks: &mut JoinSet<Result<(), WorkerError>>,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<(), WorkerError> {
        for (l, lane) in self.lanes.iter().enumerate() {
            for w in 0..lane.busy.len() {
                let seed = plan::stream_seed(seed, "worker", ((l as u64) << 32) | w as u64);
                let place = Place { core: (l + w) % self.runtimes.len(), index: w };
                let runtime = &self.runtimes[place.core];
                // The worker's alarm belongs to the runtime that it will run on.
                let worker = {
                    let _entered = runtime.enter();
                    Worker::new(Arc::clone(lane), place, self.clock, seed).map_err(WorkerError::Start)?
                };
                let running = AbortOnDropHandle::new(runtime.spawn(worker.run(stop.clone())));
                tasks
                    .spawn(async { running.await.unwrap_or_else(|error| Err(WorkerError::Panicked(error))) });
            }
        }
        Ok(())
    }

    /// From now on the first `active` workers of a workload work and the others park (at most as many work as
    /// there are). It acts at once in both directions; an operation in flight, and an arrival that a worker
    /// waits for, come to their end first.
    pub fn set_workers(&self, workload: usize, active: u32) {
        self.lanes[workload].gate.set(active);
    }

    /// Sums up the seconds of a workload from `from` to before `to` (counted from the epoch; both lie ahead),
    /// until they are taken with [`Drive::window`].
    pub fn open_window(&self, workload: usize, from: u64, to: u64) {
        self.lanes[workload].meter.open(from, to);
    }

    /// Ends the window of a workload: what its seconds held so far. `None`: there was no window.
    #[must_use]
    pub fn window(&self, workload: usize) -> Option<Tally> {
        self.lanes[workload].meter.close()
    }

    /// Number of the second, counted from the epoch, that a moment lies in.
    #[must_use]
    pub fn second_of(&self, at: Moment) -> u64 {
        at.saturating_sub(self.epoch).as_secs()
    }

    /// When the measured phase begins and will end. Everybody must know it beforehand: whoever begins or
    /// ends it comes a little late, and by then operations would be in the wrong phase.
    pub fn measure(&self, start: Moment, end: Moment) {
        let first = self.second_of(start);
        for lane in &self.lanes {
            lane.stats.open(first);
            lane.follow_schedule(start);
        }
        self.count_from(start);
        self.ends_at(end);
    }

    /// Number of the last second of a drive that ends at `end`.
    #[must_use]
    pub fn last_second(&self, end: Moment) -> u64 {
        let last = end.saturating_sub(self.epoch).as_nanos().saturating_sub(1) / 1_000_000_000;
        u64::try_from(last).unwrap_or(u64::MAX)
    }

    /// Changes the rate of a workload (its index in the scenario) from now on, in operations per second; 0
    /// pauses it. Arrivals intended before now keep their times. Acts at once, however low the rate was, and
    /// replaces the schedule of the scenario for good.
    ///
    /// # Errors
    /// When it has no rate, when this is none, or when too many changes wait for stuck workers.
    ///
    /// # Panics
    /// When there is no such workload.
    pub fn set_rate(&self, workload: usize, rate_ops_s: f64) -> Result<(), RateError> {
        let pacer = self.pacer_for(workload, rate_ops_s)?;
        pacer.change(self.clock.now(), Curve::Constant(rate_ops_s))?;
        self.lanes[workload].rate_was_set.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this may be the rate of a workload; nothing is changed.
    ///
    /// # Errors
    /// As [`Drive::set_rate`].
    ///
    /// # Panics
    /// When there is no such workload.
    pub fn check_rate(&self, workload: usize, rate_ops_s: f64) -> Result<(), RateError> {
        self.pacer_for(workload, rate_ops_s).map(drop)
    }

    fn pacer_for(&self, workload: usize, rate_ops_s: f64) -> Result<&Pacer, RateError> {
        if !(0.0..=MOST_OPS_S).contains(&rate_ops_s) {
            return Err(RateError::NotARate(rate_ops_s));
        }
        self.lanes[workload].pacer.as_ref().ok_or(RateError::ClosedLoop)
    }

    /// Intended operations per second of a workload now; `None`: a closed loop.
    #[must_use]
    pub fn rate(&self, workload: usize) -> Option<f64> {
        let pacer = self.lanes.get(workload)?.pacer.as_ref()?;
        Some(pacer.rate(self.clock.now()))
    }

    fn ends_at(&self, end: Moment) {
        let last = self.last_second(end);
        for lane in &self.lanes {
            lane.end.store(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            lane.stats.close(last);
        }
    }

    /// Ends the measured phase at `end`: what is still in flight is booked in its last second, and
    /// arrivals that stuck workers never took are missed. What waits for a worker no longer than the
    /// patience is still sent.
    pub fn close(&self, end: Moment) {
        // A warm-up that was interrupted ends with its second; nothing more is sent in it.
        self.ends_at(end.min(self.clock.now()));
        // Beyond its number of operations nothing was intended.
        for lane in self.lanes.iter().filter(|lane| !lane.is_exhausted(end)) {
            let Some(pacer) = &lane.pacer else { continue };
            loop {
                let overdue = pacer.take_overdue(end);
                if overdue.is_empty() {
                    break;
                }
                overdue.into_iter().for_each(|intended| lane.book_missed(0, intended, end));
            }
        }
    }

    /// The lanes, in the order of the scenario.
    #[must_use]
    pub fn lanes(&self) -> &[Arc<Lane>] {
        &self.lanes
    }

    /// Operations that outlived their deadline and are not resolved.
    #[must_use]
    pub fn abandoned(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.abandoned()).sum()
    }
}
