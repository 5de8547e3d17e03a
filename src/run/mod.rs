//! The conductor: the phases of a run in order, and the only module that knows all the others.

mod client;
mod cores;
mod data;
mod directory;
mod drive;
mod migrations;
mod request;
mod servers;
mod steps;
mod warmup;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, Clock};
use crate::cluster::{self, Binary, Lifetime, ManagedCluster, Passage, Routing, Start};
use crate::dataset::Documents;
use crate::event::{Event, Events, Phase};
use crate::exit::Outcome;
use crate::heal;
use crate::judge;
use crate::ledger::Ledger;
use crate::live::Progress;
use crate::logging::{self, LogGuard};
use crate::plan::Plan;
use crate::recorder::{self, Recorder};
use crate::report::data::Reason;
use crate::report::{json, scaling};
use crate::scenario::{Cluster, Managed, Scenario, Topology};
use crate::signals::Stop;
use crate::workload::{self, Sample};
use cores::Cores;
use drive::{Ended, Parts};
use servers::Servers;

pub use request::{CannotRun, Finished, Goal, Request};

/// Seconds of the load that may wait for the recorder.
const SAMPLE_QUEUE: usize = 256;
/// A server is asked to shut down, then killed.
const STOP_GRACE: Duration = Duration::from_secs(20);
/// After an interruption everything must be gone within 15 s.
const INTERRUPTED_GRACE: Duration = Duration::from_secs(5);
/// Restarts after the last fault may replay minutes of load.
const HEAL_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// What all phases share.
pub(crate) struct Context {
    clock: Clock,
    events: Events,
    stop: Stop,
    /// Cancelled when the recorder ended early.
    broken: CancellationToken,
    dir: PathBuf,
    scenario: Scenario,
    plan: Plan,
    progress: Progress,
    log: LogGuard,
    goal: Goal,
    drop: bool,
}

impl Context {
    /// Seed of the documents: that of the run, unless the dataset has one of its own.
    fn data_seed(&self) -> u64 {
        self.scenario.dataset.seed.unwrap_or(self.plan.seed)
    }
}

/// Why the phases ended before the last one.
enum Early {
    Interrupted,
    Broken(String),
}

/// Runs the scenario from start to verdict.
///
/// # Errors
/// Only when it could not begin, or the recording cannot be read back. Everything else is in the report.
pub async fn run(request: Request, stop: Stop) -> Result<Finished, CannotRun> {
    let clock = Clock::start();
    let binary = find_binary(&request).await?;
    let name = &request.scenario.name;
    let now = clock.wall(clock.now());
    let dir = directory::make(request.out.as_deref(), name, request.plan.seed, now)?;
    let data_seed = request.scenario.dataset.seed.unwrap_or(request.plan.seed);
    let documents = Documents::new(&request.scenario.dataset.shape, data_seed)
        .starting_at(request.scenario.dataset.first);
    if binary.is_some() {
        directory::place_data(&dir, request.data.as_deref())?;
    }
    directory::check_space(&dir, &request.scenario, documents.len_bytes() as u64)?;
    directory::write_inputs(&dir, &request.source, &request.scenario, &request.plan)?;
    let (events, event_queue) = Events::channel(clock);
    let (samples, sample_queue) = mpsc::channel(SAMPLE_QUEUE);
    let ctx = Context {
        clock,
        events,
        stop,
        broken: CancellationToken::new(),
        log: logging::start(&dir)?,
        progress: progress(&request),
        dir,
        scenario: request.scenario.clone(),
        plan: request.plan.clone(),
        goal: request.goal,
        drop: request.drop,
    };
    write_manifest(&ctx, binary.as_ref(), &Value::Null, None)?;
    ctx.progress.say(&format!("{}: seed {}, {}", ctx.scenario.name, ctx.plan.seed, ctx.dir.display()));
    let mut tasks = JoinSet::new();
    let recorder = Recorder::new(&ctx.dir, &recorded_workloads(&ctx.scenario))?;
    let broken = ctx.broken.clone();
    tasks.spawn(async move {
        let ended = recorder.run(event_queue, sample_queue).await;
        broken.cancel();
        ended
    });
    let mut display = JoinSet::new();
    display.spawn(ctx.progress.clone().events(ctx.events.watch()));
    // Ends with this function, signalled or not.
    let mut announcer = JoinSet::new();
    announcer.spawn(announce(ctx.progress.clone(), ctx.stop.clone()));
    phases(&ctx, binary.as_ref(), documents, samples).await;
    ctx.events.send(Event::Finished).await;
    let keep_data = request.keep_data || request.data.is_some() || request.goal != Goal::Run;
    finish(ctx, tasks, display, keep_data).await
}

/// Says at once that a signal was heard: the orderly end takes its time.
async fn announce(progress: Progress, stop: Stop) {
    stop.orderly.cancelled().await;
    let signal = stop.signal().unwrap_or("signal");
    progress.say(&format!("            {signal}: stopping in order; once more to stop at once"));
}

async fn find_binary(request: &Request) -> Result<Option<Binary>, CannotRun> {
    let Cluster::Managed(managed) = &request.scenario.cluster else {
        return Ok(None);
    };
    let choice = request.mongod.as_deref().or(managed.mongod.as_deref());
    Ok(Some(cluster::binary::find(choice).await?))
}

fn progress(request: &Request) -> Progress {
    let names = request.scenario.workloads.iter().map(|w| w.name.clone());
    Progress { quiet: request.quiet, workloads: names.collect() }
}

fn recorded_workloads(scenario: &Scenario) -> Vec<recorder::Workload> {
    let settled = |w: &crate::scenario::Workload| w.deadline + workload::PATIENCE + Duration::from_secs(1);
    let recorded =
        |w| recorder::Workload { name: crate::scenario::Workload::clone(w).name, settled_after: settled(w) };
    scenario.workloads.iter().map(recorded).collect()
}

fn write_manifest(
    ctx: &Context,
    binary: Option<&Binary>,
    servers: &Value,
    passage: Option<Passage>,
) -> io::Result<()> {
    let mut manifest = directory::manifest(&ctx.dir, &ctx.scenario, ctx.plan.seed, binary, servers);
    manifest["goal"] = if ctx.goal == Goal::Run { "run" } else { "load" }.into();
    manifest["verify"] = (ctx.goal == Goal::Load { verify: true }).into();
    manifest["dataset"]["seed"] = ctx.data_seed().into();
    if let Some(passage) = passage {
        manifest["proxies"] = serde_json::to_value(passage)?;
    }
    manifest["started_at"] = clock::rfc3339(ctx.clock.wall(Duration::ZERO)).into();
    directory::write_manifest(&ctx.dir, &manifest)
}

/// Waits for the recorder, judges, reports.
async fn finish(
    ctx: Context,
    mut recorder: JoinSet<io::Result<()>>,
    mut display: JoinSet<()>,
    keep_data: bool,
) -> Result<Finished, CannotRun> {
    let Context { events, dir, log, .. } = ctx;
    // The last producer: without it the recorder comes to its end.
    drop(events);
    let mut late = Vec::new();
    while let Some(ended) = recorder.join_next().await {
        late.extend(recorder_finding(ended));
    }
    while display.join_next().await.is_some() {}
    drop(log);
    let judged = judge::directory(&dir, &late);
    let report = judged.map_err(|e| CannotRun::Judge { dir: dir.clone(), why: e.to_string() })?;
    json::write(&dir, &report)?;
    scaling::csv::write(&dir, &report)?;
    if report.verdict.outcome == Outcome::Pass && !keep_data {
        directory::remove_data(&dir)?;
    }
    Ok(Finished { dir, report })
}

/// Our own disk being full says nothing about the database; anything else broke the tester.
fn recorder_finding(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Option<Reason> {
    let (outcome, text) = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(e)) if e.kind() == io::ErrorKind::StorageFull => (
            Outcome::Inconclusive,
            format!("the disk of the run directory is full, the recording is cut: {e}"),
        ),
        Ok(Err(e)) => (Outcome::Error, format!("the recording is cut: {e}")),
        Err(panic) => (Outcome::Error, format!("the recorder panicked: {panic}")),
    };
    Some(Reason { outcome, text })
}

/// All phases from start to stop. The cluster is stopped whatever happens in between.
async fn phases(ctx: &Context, binary: Option<&Binary>, documents: Documents, samples: mpsc::Sender<Sample>) {
    ctx.events.send(Event::Phase { phase: Phase::Start }).await;
    let cluster = match start_cluster(ctx, binary).await {
        Ok(cluster) => cluster,
        Err(early) => return ended_early(ctx, early).await,
    };
    let result = with_cluster(ctx, binary, cluster.as_ref(), documents, samples).await;
    if let Err(early) = result {
        ended_early(ctx, early).await;
    }
    if let Some(cluster) = cluster {
        ctx.events.send(Event::Phase { phase: Phase::Stop }).await;
        let grace = if ctx.stop.orderly.is_cancelled() { INTERRUPTED_GRACE } else { STOP_GRACE };
        tokio::select! {
            biased;
            () = ctx.stop.now.cancelled() => cluster.stop_all(Duration::ZERO).await,
            () = cluster.stop_all(grace) => {}
        }
        servers::settle(ctx, heal::Servers::Ended).await;
    } else {
        servers::settle(ctx, heal::Servers::GoOn).await;
    }
}

async fn ended_early(ctx: &Context, early: Early) {
    match early {
        Early::Interrupted => {
            let signal = ctx.stop.signal().unwrap_or("a signal").to_owned();
            ctx.events.send(Event::Interrupted { signal }).await;
        }
        Early::Broken(what) => {
            ctx.events.send(Event::Failure { what }).await;
        }
    }
}

async fn start_cluster(ctx: &Context, binary: Option<&Binary>) -> Result<Option<Arc<ManagedCluster>>, Early> {
    let (Cluster::Managed(settings), Some(binary)) = (&ctx.scenario.cluster, binary) else {
        return Ok(None);
    };
    ctx.progress.say(&format!(
        "            mongod {} ({}, found by {})",
        binary.version,
        binary.path.display(),
        binary.found_by
    ));
    let routing = routing(ctx, settings, binary).await?;
    let routing = routing.as_ref();
    let start =
        Start { settings, binary, routing, dir: ctx.dir.join("nodes"), lifetime: Lifetime::WithTester };
    match ManagedCluster::start(&start, &ctx.events, &ctx.stop.orderly).await {
        Ok(cluster) => Ok(Some(Arc::new(cluster))),
        Err(_) if ctx.stop.orderly.is_cancelled() => Err(Early::Interrupted),
        Err(error) => Err(Early::Broken(error.to_string())),
    }
}

/// Who routes; `None`: nobody has to.
async fn routing(ctx: &Context, settings: &Managed, binary: &Binary) -> Result<Option<Routing>, Early> {
    if settings.topology != Topology::Sharded {
        return Ok(None);
    }
    let broken = |why: String| Early::Broken(why);
    let program = std::env::current_exe().map_err(|e| broken(format!("where is this program: {e}")))?;
    let found = Routing::find(settings.mongos.as_deref(), binary, program).await;
    let routing = found.map_err(|error| broken(error.to_string()))?;
    let text = format!("routed by {}", routing.describe(binary));
    ctx.progress.say(&format!("            {text}"));
    ctx.events.send(Event::Note { text }).await;
    Ok(Some(routing))
}

/// From the first ping to the last check.
async fn with_cluster(
    ctx: &Context,
    binary: Option<&Binary>,
    cluster: Option<&Arc<ManagedCluster>>,
    documents: Documents,
    samples: mpsc::Sender<Sample>,
) -> Result<(), Early> {
    let uri = match (&ctx.scenario.cluster, cluster) {
        (Cluster::Attached(attached), _) => attached.uri.reveal().to_owned(),
        (_, Some(cluster)) => cluster.uri(),
        (Cluster::Managed(_), None) => return Err(Early::Broken("no cluster was started".into())),
    };
    let connecting = client::connect(&uri, &ctx.scenario.workloads);
    let connected = or_stop(ctx, connecting).await?.map_err(Early::Broken)?;
    let servers = or_stop(ctx, client::describe(&connected)).await?;
    let client = connected.client;
    let passage = check_proxies(ctx, cluster, &client).await?;
    write_manifest(ctx, binary, &servers, passage).map_err(|e| Early::Broken(e.to_string()))?;
    let loaded = data::load(ctx, &client, documents.clone()).await;
    client::shut_down(client).await;
    if ctx.goal != Goal::Run {
        return loaded;
    }
    loaded?;
    let ledger = Arc::new(Ledger::new(ctx.scenario.dataset.documents).shown_from(ctx.scenario.dataset.first));
    let cores = or_stop(ctx, Cores::start(&uri, &ctx.scenario)).await?.map_err(Early::Broken)?;
    let servers = or_stop(ctx, Servers::of(ctx, cluster)).await?.map_err(Early::Broken)?;
    let deployment = servers.deployment();
    let parts = Parts { cores: &cores, deployment, documents: documents.clone(), ledger: &ledger, samples };
    let driven = drive::drive(ctx, parts).await;
    // Operations without an answer may be left, and are given up here: clients in which that happened are used
    // for nothing more.
    cores.shut_down().await;
    let back = after_drive(ctx, &servers, driven).await;
    servers.leave().await;
    back?;
    let connecting = client::connect(&uri, &ctx.scenario.workloads);
    let client = or_stop(ctx, connecting).await?.map_err(Early::Broken)?.client;
    migrations::record(ctx, &client).await;
    let verified = data::verify(ctx, &client, documents, &ledger).await;
    client::shut_down(client).await;
    verified
}

/// Waits until the servers are back.
async fn after_drive(ctx: &Context, servers: &Servers, driven: Ended) -> Result<(), Early> {
    match driven {
        Ended::Completed => {}
        Ended::Interrupted => return Err(Early::Interrupted),
        Ended::Broken(why) => return Err(Early::Broken(why)),
    }
    let healed = or_stop(ctx, servers.heal(HEAL_DEADLINE)).await?;
    healed.map_err(|e| Early::Broken(format!("put the cluster back before the data is checked: {e}")))
}

/// Proves that the faults of the network will reach what this client does, and says what the proxies cost.
async fn check_proxies(
    ctx: &Context,
    cluster: Option<&Arc<ManagedCluster>>,
    client: &mongodb::Client,
) -> Result<Option<Passage>, Early> {
    let Some(cluster) = cluster else { return Ok(None) };
    let admin = client.database("admin");
    let ask = async || admin.run_command(bson::doc! { "ping": 1 }).await.is_ok();
    let checked = or_stop(ctx, cluster.check_proxies(ask)).await?;
    let passage = checked.map_err(|error| Early::Broken(error.to_string()))?;
    if let Some(Passage { direct_us, through_us, .. }) = passage {
        let text = format!(
            "proxies carry all connections; a round trip takes {through_us:.0} us through them, {direct_us:.0} us \
             past them (medians)"
        );
        ctx.events.send(Event::Note { text }).await;
    }
    Ok(passage)
}

/// Runs a future of ours until it ends or the user asks to stop. Driver calls inside go on in their tasks
/// or die with the client.
async fn or_stop<T>(ctx: &Context, work: impl Future<Output = T>) -> Result<T, Early> {
    tokio::select! {
        biased;
        () = ctx.stop.orderly.cancelled() => Err(Early::Interrupted),
        done = work => Ok(done),
    }
}

/// A run directory as the user may type it.
#[must_use]
pub fn shown(dir: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    dir.strip_prefix(here).unwrap_or(dir).display().to_string()
}
