//! One worker: takes arrivals, sends operations, keeps to the deadline. It never dies of an error.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::choice::Choice;
use super::pacing::{Arrival, Pacer, Ticket, Turn};
use super::stats::Finished;
use super::store::{Outcomes, Request, Session};
use super::{Lane, WorkerError};
use crate::clock::{Alarm, Clock, Moment};

/// Operations of one worker that outlived their deadline and are not resolved. Each is a task of some
/// 10 kB and a connection. Of more than this many the oldest is dropped: it stays unknown, and the driver
/// closes a connection that waits for an answer. Nothing else would ever end it on a connection that
/// stays silent for good, and the worker must go on.
const MAX_ABANDONED: u32 = 64;
/// Connections that one worker may need at the same time: with fewer, its operations would wait for those
/// that it gave up, and that would look like a slow server.
pub const CONNECTIONS_PER_WORKER: u32 = MAX_ABANDONED + 1;
/// How long a worker waits for abandoned operations at the end.
const GRACE: Duration = Duration::from_secs(2);

/// What others may see of a worker: nanoseconds on the run clock since which its operation is in
/// flight, plus one; 0 while it waits.
#[derive(Debug, Default)]
pub struct Busy(AtomicU64);

impl Busy {
    /// Since when an operation is in flight.
    pub fn since(&self) -> Option<Moment> {
        self.0.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }

    fn set(&self, since: Option<Moment>) {
        let value = since.map_or(0, |at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX - 1) + 1);
        self.0.store(value, Ordering::Relaxed);
    }
}

/// What a worker does next.
enum Start {
    /// Send an operation, now.
    At { intended: Moment, worker_was_free: bool },
    /// Nothing yet: the arrival had waited too long for a worker, or the rate changed.
    Again,
    /// Nothing more ever.
    Over,
}

/// Which worker this is, and where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of its core, and of its store and shard there.
    pub core: usize,
    /// Number within its lane.
    pub index: usize,
}

/// One worker of a lane.
pub struct Worker {
    lane: Arc<Lane>,
    place: Place,
    clock: Clock,
    alarm: Alarm,
    choice: Choice,
    rate_changes: watch::Receiver<()>,
    /// `None`: the driver sends.
    session: Option<Session>,
    in_flight: JoinSet<()>,
    /// The same tasks, oldest first.
    oldest: VecDeque<AbortHandle>,
}

impl Worker {
    /// A worker of a lane; to be called within the runtime that it will run on.
    ///
    /// # Errors
    /// When the process has no descriptor left for its alarm.
    pub fn new(lane: Arc<Lane>, place: Place, clock: Clock, seed: [u8; 32]) -> std::io::Result<Self> {
        let alarm = Alarm::new(clock)?;
        let rate_changes = lane.rate_changes();
        let (in_flight, oldest) = (JoinSet::new(), VecDeque::new());
        let session = lane.wire.as_ref().map(|wire| wire.session(place.index, clock));
        let choice = Choice::new(seed);
        Ok(Self { lane, place, clock, alarm, choice, rate_changes, session, in_flight, oldest })
    }

    /// Works until told to stop; the operation in flight is finished, or given up at its deadline, and
    /// arrivals that were intended before the end are sent or missed.
    ///
    /// # Errors
    /// Only when the tester itself is broken: an abandoned operation panicked, or the timer failed.
    ///
    /// # Panics
    /// When an operation does.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), WorkerError> {
        let _alive = Alive::new(Arc::clone(&self.lane));
        // What is sent before second 0 would count in it.
        self.clock.sleep_until(self.lane.epoch).await;
        loop {
            // Whoever never has to wait must let the others of this thread run.
            tokio::task::consume_budget().await;
            self.reap().await?;
            self.park(&stop).await;
            let (intended, worker_was_free) = match self.next_start(&stop).await? {
                Start::At { intended, worker_was_free } => (intended, worker_was_free),
                Start::Again => continue,
                Start::Over => break,
            };
            let Some(ticket) = self.lane.take_operation(self.clock.now()) else {
                stop.cancelled().await;
                break;
            };
            match self.choice.next(&self.lane) {
                Some(request) => {
                    self.perform(request, intended, worker_was_free).await;
                    self.lane.operation_ended(&ticket);
                }
                None => {
                    self.lane.operation_not_sent(&ticket);
                    self.nothing_to_read(intended).await;
                }
            }
        }
        self.finish().await
    }

    /// Waits while the workload has fewer active workers than this one's number.
    async fn park(&self, stop: &CancellationToken) {
        if self.lane.gate.is_open(self.place.index) {
            return;
        }
        tokio::select! {
            () = self.lane.gate.wait(self.place.index) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Waits for the start of the next operation.
    async fn next_start(&mut self, stop: &CancellationToken) -> Result<Start, WorkerError> {
        let lane = Arc::clone(&self.lane);
        let now = self.clock.now();
        let Some(pacer) = &lane.pacer else {
            if now < lane.end() && !stop.is_cancelled() {
                return Ok(Start::At { intended: now, worker_was_free: false });
            }
            stop.cancelled().await;
            return Ok(Start::Over);
        };
        self.rate_changes.mark_unchanged();
        let intended = match pacer.take(now) {
            Arrival::Wait(ticket) => return self.wait_for(pacer, ticket, stop).await,
            Arrival::Never => return Ok(self.wait_for_a_rate(stop).await),
            Arrival::Send(intended) if intended < lane.end() => {
                return Ok(Start::At { intended, worker_was_free: false });
            }
            Arrival::Missed(intended) if intended < lane.end() => intended,
            Arrival::Send(_) | Arrival::Missed(_) => {
                stop.cancelled().await;
                return Ok(Start::Over);
            }
        };
        if lane.is_exhausted(now) {
            stop.cancelled().await;
            return Ok(Start::Over);
        }
        lane.book_missed(self.place.core, intended, now);
        Ok(Start::Again)
    }

    /// Waits for the time of an arrival, or for the change of the rate that withdraws it.
    async fn wait_for(
        &mut self,
        pacer: &Pacer,
        mut ticket: Ticket,
        stop: &CancellationToken,
    ) -> Result<Start, WorkerError> {
        let intended = ticket.intended;
        loop {
            let ahead = ticket.at < self.lane.end();
            tokio::select! {
                biased;
                woken = self.alarm.wait_until(ticket.at), if ahead => woken.map_err(WorkerError::Timer)?,
                Ok(()) = self.rate_changes.changed() => {}
                // An interruption brings the end forward.
                () = stop.cancelled() => if ticket.at >= self.lane.end() {
                    return Ok(self.end_before(pacer, &ticket));
                },
            }
            match pacer.start(&mut ticket, self.clock.now()) {
                Turn::Withdrawn => return Ok(Start::Again),
                Turn::Send if intended < self.lane.end() => {
                    // What is caught up is late because no worker was free.
                    return Ok(Start::At { intended, worker_was_free: ticket.at == intended });
                }
                Turn::Send | Turn::Early => {}
            }
        }
    }

    /// The end came before the time of this arrival. One that was being caught up is missed.
    fn end_before(&self, pacer: &Pacer, ticket: &Ticket) -> Start {
        let end = self.lane.end();
        if ticket.intended >= end {
            return Start::Over;
        }
        pacer.give_up(ticket);
        self.lane.book_missed(self.place.core, ticket.intended, end);
        Start::Again
    }

    /// Waits until there is a rate at all.
    async fn wait_for_a_rate(&mut self, stop: &CancellationToken) -> Start {
        tokio::select! {
            biased;
            () = stop.cancelled() => Start::Over,
            Ok(()) = self.rate_changes.changed() => Start::Again,
        }
    }

    /// Nothing was acknowledged yet that could be read. An arrival is then missed.
    async fn nothing_to_read(&self, intended: Moment) {
        if self.lane.pacer.is_some() {
            self.lane.book_missed(self.place.core, intended, self.clock.now());
        } else {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends one operation, waits for it until the deadline, and books it.
    async fn perform(&mut self, request: Request, intended: Moment, free: bool) {
        let core = self.place.core;
        let sent = self.clock.now();
        self.busy().set(Some(sent));
        let outcomes = match &mut self.session {
            Some(session) => session.execute(request, sent).await,
            None => self.execute_by_driver(request).await,
        };
        let finished = self.clock.now();
        self.busy().set(None);
        self.lane.stores[core].book(request, &outcomes);
        let outcome = outcomes.worst();
        self.lane.stats.record(
            core,
            &Finished {
                intended,
                sent: Some(sent),
                finished,
                worker_was_free: free,
                outcome: Some(&outcome),
                kind: self.lane.kind_of(request),
            },
        );
    }

    /// The driver's future is not dropped at the deadline: it goes on in a task of its own, and its late
    /// result is booked.
    async fn execute_by_driver(&mut self, request: Request) -> Outcomes {
        let (lane, core) = (Arc::clone(&self.lane), self.place.core);
        let mut operation = Box::pin(async move { lane.stores[core].execute(request).await });
        let deadline = self.lane.workload.deadline;
        match tokio::time::timeout(deadline, operation.as_mut()).await {
            Ok(outcomes) => outcomes,
            Err(_) => {
                self.abandon(request, operation);
                request.given_up(deadline)
            }
        }
    }

    /// Lets an operation go on without its worker.
    fn abandon(&mut self, request: Request, operation: impl Future<Output = Outcomes> + Send + 'static) {
        let (lane, core) = (Arc::clone(&self.lane), self.place.core);
        lane.abandoned.fetch_add(1, Ordering::Relaxed);
        let task = self.in_flight.spawn(async move {
            let late = operation.await;
            lane.stores[core].book(request, &late);
            lane.abandoned.fetch_sub(1, Ordering::Relaxed);
        });
        self.oldest.push_back(task);
    }

    /// Clears the tasks that ended, and drops the oldest when too many did not.
    async fn reap(&mut self) -> Result<(), WorkerError> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        while let Some(ended) = self.in_flight.try_join_next() {
            self.ended(ended)?;
        }
        self.oldest.retain(|task| !task.is_finished());
        while self.in_flight.len() > MAX_ABANDONED as usize {
            if let Some(task) = self.oldest.pop_front() {
                tracing::warn!("an operation was dropped: too many of this worker got no answer");
                task.abort();
            }
            if let Some(ended) = self.in_flight.join_next().await {
                self.ended(ended)?;
            }
        }
        Ok(())
    }

    fn ended(&self, ended: Result<(), JoinError>) -> Result<(), WorkerError> {
        match ended {
            Err(error) if error.is_cancelled() => {
                self.lane.abandoned.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }
            ended => ended.map_err(WorkerError::Panicked),
        }
    }

    /// Gives abandoned operations a last chance to say what became of them.
    async fn finish(mut self) -> Result<(), WorkerError> {
        let drained = tokio::time::timeout(GRACE, async {
            while let Some(ended) = self.in_flight.join_next().await {
                self.ended(ended)?;
            }
            Ok(())
        });
        drained.await.unwrap_or(Ok(()))
    }

    fn busy(&self) -> &Busy {
        &self.lane.busy[self.place.index]
    }
}

/// Counts a worker as alive for as long as it exists, panics included.
struct Alive(Arc<Lane>);

impl Alive {
    fn new(lane: Arc<Lane>) -> Self {
        lane.alive.fetch_add(1, Ordering::Relaxed);
        Self(lane)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
