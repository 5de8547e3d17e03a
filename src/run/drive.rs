//! Warm-up, measured phase and drain: the part of a run in which load flows.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::cores::Cores;
use super::steps::Stage;
use super::warmup;
use crate::clock::Moment;
use crate::control::{Controlled, Server};
use crate::dataset::Documents;
use crate::event::{Event, Events, Live, Phase};
use crate::ledger::Ledger;
use crate::monitor;
use crate::nemesis::{Ends, Nemesis};
use crate::scenario::{Scenario, Warmup};
use crate::signals::Stop;
use crate::workload::{Drive, DriveInput, Sample, Sampler, WorkerError};

/// Workers end within their deadline and a grace of two seconds; a loaded machine needs some more.
const DRAIN_SLACK: Duration = Duration::from_secs(15);
/// Healthy operations end in milliseconds; the processes must be gone 15 s after the signal.
const INTERRUPTED_DRAIN: Duration = Duration::from_secs(3);
/// From the making of the lanes to the first second.
const LEAD: Duration = Duration::from_millis(20);

/// How the drive ended.
#[derive(Debug)]
pub enum Ended {
    /// The measured phase took its whole time.
    Completed,
    /// The user stopped it.
    Interrupted,
    /// The tester broke; the text is for people.
    Broken(String),
}

/// What the drive needs beside the context.
pub struct Parts<'a> {
    /// The threads that drive load.
    pub cores: &'a Cores,
    /// As the faults see it; `None`: attached, and no fault is planned.
    pub deployment: Option<Arc<dyn faults::Deployment>>,
    /// Content of the documents.
    pub documents: Documents,
    /// What was acknowledged.
    pub ledger: &'a Arc<Ledger>,
    /// To the recorder.
    pub samples: mpsc::Sender<Sample>,
}

/// The tasks of a drive and the ways to end them.
struct Tasks {
    workers: JoinSet<Result<(), WorkerError>>,
    watchers: JoinSet<()>,
    sampler: JoinSet<()>,
    nemesis: JoinSet<()>,
    stop_workers: CancellationToken,
    stop_watchers: CancellationToken,
    drained: CancellationToken,
    last_second: watch::Sender<Option<u64>>,
    live: watch::Receiver<Live>,
    ends: Ends,
}

impl Tasks {
    fn new(last_second: watch::Sender<Option<u64>>, live: watch::Receiver<Live>, ends: Ends) -> Self {
        Self {
            workers: JoinSet::new(),
            watchers: JoinSet::new(),
            sampler: JoinSet::new(),
            nemesis: JoinSet::new(),
            stop_workers: CancellationToken::new(),
            stop_watchers: CancellationToken::new(),
            drained: CancellationToken::new(),
            last_second,
            live,
            ends,
        }
    }
}

/// Drives the workloads through warm-up and measured phase, with the faults of the plan, and returns when
/// every worker has ended and every fault was lifted.
pub async fn drive(ctx: &Context, parts: Parts<'_>) -> Ended {
    let epoch = ctx.clock.now() + LEAD;
    let input = DriveInput {
        cores: parts.cores.as_slice(),
        monitor: parts.cores.monitor(),
        dataset: &ctx.scenario.dataset,
        workloads: &ctx.scenario.workloads,
        documents: parts.documents.clone(),
        ledger: parts.ledger,
        epoch,
    };
    let drive = Drive::new(&input, ctx.clock);
    if ctx.scenario.warmup == Warmup::Fixed(Duration::ZERO) {
        drive.count_from(epoch);
    }
    let mut tasks = match start_tasks(ctx, &parts, &drive, epoch).await {
        Ok(tasks) => tasks,
        Err(error) => return Ended::Broken(error.to_string()),
    };
    let measured_from = Arc::new(OnceLock::new());
    start_control(ctx, &drive, &mut tasks, &measured_from).await;
    let mut live = tasks.live.clone();
    let start = tokio::select! {
        biased;
        ended = early_end(&ctx.stop, &ctx.broken, &mut tasks) => {
            let now = ctx.clock.now();
            return finish(ctx, &drive, tasks, now, ended).await;
        }
        start = warmup::run(ctx, &mut live, epoch) => start,
    };
    let planned_end = start + ctx.scenario.duration;
    drive.measure(start, planned_end);
    measured_from.get_or_init(|| start);
    tasks.last_second.send_replace(Some(drive.last_second(planned_end)));
    ctx.events.send_at(start, Event::Phase { phase: Phase::Measure }).await;
    ctx.clock.sleep_until(start).await;
    let usage_before = monitor::usage();
    start_nemesis(ctx, &parts, &mut tasks, start).await;
    let stage = Stage { ctx, drive: &drive, start, end: planned_end, live };
    let ended = tokio::select! {
        biased;
        ended = early_end(&ctx.stop, &ctx.broken, &mut tasks) => ended,
        () = drive.spent() => Ended::Completed,
        done = stage.run() => done.map_or_else(|error| Ended::Broken(error.to_string()), |()| Ended::Completed),
    };
    let end = planned_end.min(ctx.clock.now());
    report_usage(ctx, &drive, usage_before).await;
    finish(ctx, &drive, tasks, end, ended).await
}

async fn start_tasks(
    ctx: &Context,
    parts: &Parts<'_>,
    drive: &Drive,
    epoch: Moment,
) -> Result<Tasks, WorkerError> {
    let (last_second, last) = watch::channel(None);
    let (live_sender, live) = watch::channel(Live::default());
    let ends = Ends { measured: CancellationToken::new(), run: ctx.stop.orderly.clone() };
    let mut tasks = Tasks::new(last_second, live.clone(), ends);
    ctx.events.send_at(epoch, Event::Phase { phase: Phase::WarmUp }).await;
    drive.start(&mut tasks.workers, ctx.plan.seed, &tasks.stop_workers)?;
    let sampler = Sampler::new(drive.clone(), parts.samples.clone(), live_sender, tasks.stop_workers.clone());
    tasks.sampler.spawn(sampler.run(last, tasks.drained.clone()));
    tasks.watchers.spawn(monitor::tester(ctx.events.clone(), tasks.stop_watchers.clone()));
    let queues = queues(ctx.events.clone(), parts.samples.clone(), drive.clone());
    tasks.watchers.spawn(monitor::seconds(ctx.events.clone(), epoch, queues, tasks.stop_watchers.clone()));
    tasks.watchers.spawn(ctx.progress.clone().seconds(live, tasks.stop_watchers.clone()));
    if let Some(deployment) = &parts.deployment {
        let deployment = Arc::clone(deployment);
        tasks.watchers.spawn(monitor::topology(deployment, ctx.events.clone(), tasks.stop_watchers.clone()));
    }
    Ok(tasks)
}

/// Lets the user look and change rates. A test that cannot be talked to runs all the same.
async fn start_control(
    ctx: &Context,
    drive: &Drive,
    tasks: &mut Tasks,
    measured_from: &Arc<OnceLock<Moment>>,
) {
    let Scenario { sweep, find_max, duration, .. } = &ctx.scenario;
    let stepped = sweep.as_ref().map(|s| &s.workload).or(find_max.as_ref().map(|s| &s.workload));
    let test = Controlled {
        drive: drive.clone(),
        events: ctx.events.clone(),
        live: tasks.live.clone(),
        duration: *duration,
        stepped: stepped.cloned(),
        measured_from: Arc::clone(measured_from),
    };
    match Server::bind(&ctx.dir) {
        Ok(server) => {
            tasks.watchers.spawn(server.run(test, tasks.stop_watchers.clone()));
        }
        Err(error) => {
            let text = format!("`mongosoak ctl` cannot reach this test: {error}");
            ctx.events.send(Event::Note { text }).await;
        }
    }
}

/// What waits inside of the tester.
fn queues(events: Events, samples: mpsc::Sender<Sample>, drive: Drive) -> impl Fn() -> monitor::Queues {
    move || monitor::Queues {
        events: events.waiting() as u64,
        samples: (samples.max_capacity() - samples.capacity()) as u64,
        abandoned: drive.abandoned(),
    }
}

async fn start_nemesis(ctx: &Context, parts: &Parts<'_>, tasks: &mut Tasks, start: Moment) {
    let Some(deployment) = parts.deployment.clone().filter(|_| !ctx.plan.faults.is_empty()) else {
        return;
    };
    match Nemesis::new(deployment, ctx.events.clone(), &ctx.dir, start, tasks.ends.clone()) {
        Ok(nemesis) => {
            tasks.nemesis.spawn(nemesis.run(ctx.plan.faults.clone(), tasks.live.clone()));
        }
        Err(error) => {
            let what = format!("no fault can be injected: make the undo journal: {error}");
            ctx.events.send(Event::Failure { what }).await;
        }
    }
}

/// Waits for what ends the drive before its time. Nothing goes on for hours when a part of it is gone.
async fn early_end(stop: &Stop, recorder_gone: &CancellationToken, tasks: &mut Tasks) -> Ended {
    let gone = |what: &str, how: Result<(), JoinError>| {
        Ended::Broken(match how {
            Ok(()) => format!("{what} ended early"),
            Err(panic) => format!("{what} panicked: {panic}"),
        })
    };
    tokio::select! {
        biased;
        () = stop.orderly.cancelled() => Ended::Interrupted,
        () = recorder_gone.cancelled() => Ended::Broken("the recorder ended early".into()),
        Some(early) = tasks.workers.join_next() => match early {
            Ok(Err(error)) => Ended::Broken(error.to_string()),
            early => gone("a worker", early.map(drop)),
        },
        Some(early) = tasks.sampler.join_next() => gone("the sampler", early),
        Some(early) = tasks.watchers.join_next() => gone("a watcher", early),
    }
}

async fn report_usage(ctx: &Context, drive: &Drive, before: monitor::Usage) {
    let now = monitor::usage();
    ctx.events
        .send(Event::TesterUsage {
            cpu_s: now.cpu_s - before.cpu_s,
            rss_max_bytes: now.rss_max_bytes,
            dropped_log_lines: ctx.log.dropped_lines(),
            abandoned_operations: drive.abandoned(),
        })
        .await;
}

async fn report_connections(ctx: &Context, drive: &Drive) {
    for lane in drive.lanes() {
        if let Some((opened, lost)) = lane.connections() {
            let workload = lane.workload.name.clone();
            ctx.events.send(Event::Connections { workload, opened, lost }).await;
        }
    }
}

/// Ends everything in order: workers, seconds, faults, watchers.
async fn finish(ctx: &Context, drive: &Drive, mut tasks: Tasks, end: Moment, ended: Ended) -> Ended {
    drive.close(end);
    tasks.last_second.send_replace(Some(drive.last_second(end)));
    tasks.stop_workers.cancel();
    tasks.ends.measured.cancel();
    ctx.events.send_at(end, Event::Phase { phase: Phase::Heal }).await;
    let drained = drain(ctx, &mut tasks.workers).await;
    tasks.drained.cancel();
    report_connections(ctx, drive).await;
    // Each of these ends by itself now; a second signal drops them.
    let rest = async {
        join_all(ctx, &mut tasks.sampler).await;
        join_all(ctx, &mut tasks.nemesis).await;
        tasks.stop_watchers.cancel();
        join_all(ctx, &mut tasks.watchers).await;
    };
    tokio::select! {
        biased;
        () = ctx.stop.now.cancelled() => {}
        () = rest => {}
    }
    match (ended, drained) {
        (Ended::Completed, Err(why)) => Ended::Broken(why),
        (Ended::Completed, Ok(())) if ctx.stop.orderly.is_cancelled() => Ended::Interrupted,
        (ended, _) => ended,
    }
}

/// Waits until every worker has finished the operation it was at.
async fn drain(ctx: &Context, workers: &mut JoinSet<Result<(), WorkerError>>) -> Result<(), String> {
    let longest = ctx.scenario.workloads.iter().map(|w| w.deadline).max().unwrap_or_default();
    let all = async {
        while let Some(ended) = workers.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(error.to_string()),
                Err(panic) => return Err(format!("a worker panicked: {panic}")),
            }
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = ctx.stop.now.cancelled() => Ok(()),
        result = tokio::time::timeout(longest + DRAIN_SLACK, all) => {
            result.unwrap_or_else(|_| Err("workers did not end after their deadline".into()))
        }
        () = patience_of_an_interruption(ctx) => Ok(()),
    }
}

/// An interrupted run does not wait for operations that a dead server may never answer.
async fn patience_of_an_interruption(ctx: &Context) {
    ctx.stop.orderly.cancelled().await;
    tokio::time::sleep(INTERRUPTED_DRAIN).await;
}

async fn join_all(ctx: &Context, tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(panic) = ended {
            ctx.events.send(Event::Failure { what: format!("a task panicked: {panic}") }).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn tasks() -> Tasks {
        let ends = Ends { measured: CancellationToken::new(), run: CancellationToken::new() };
        let mut tasks = Tasks::new(watch::channel(None).0, watch::channel(Live::default()).1, ends);
        tasks.workers.spawn(std::future::pending());
        tasks.sampler.spawn(std::future::pending());
        tasks.watchers.spawn(std::future::pending());
        tasks
    }

    async fn end(tasks: &mut Tasks) -> String {
        let (stop, recorder_gone) = (Stop::default(), CancellationToken::new());
        let ended = tokio::time::timeout(SOON, early_end(&stop, &recorder_gone, tasks)).await;
        match ended.expect("it waits for the end of the phase") {
            Ended::Broken(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_part_ends_the_drive_at_once() {
        let mut broken = tasks();
        broken.workers.spawn(async { panic!("of a worker") });
        assert!(end(&mut broken).await.starts_with("a worker panicked"));
        let mut broken = tasks();
        broken.sampler.spawn(async { panic!("of the sampler") });
        assert!(end(&mut broken).await.starts_with("the sampler panicked"));
        let mut broken = tasks();
        broken.watchers.spawn(async { panic!("of a watcher") });
        assert!(end(&mut broken).await.starts_with("a watcher panicked"));
    }

    #[tokio::test]
    async fn a_worker_that_ends_by_itself_ends_the_drive() {
        let mut broken = tasks();
        broken.workers.spawn(async { Ok(()) });
        assert_eq!(end(&mut broken).await, "a worker ended early");
        let mut broken = tasks();
        broken.workers.spawn(async { Err(WorkerError::Timer(std::io::Error::other("gone"))) });
        assert_eq!(end(&mut broken).await, "a worker's timer failed: gone");
    }
}
