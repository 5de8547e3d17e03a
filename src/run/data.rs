//! The phases before and after the drive: filling the collection, and reading back what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongodb::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Context, Early, Goal, directory, or_stop};
use crate::clock::Clock;
use crate::dataset::Documents;
use crate::event::{Event, Events, Phase};
use crate::ledger::{self, Ledger};
use crate::recording::{Ledger as Books, Load, LoadSecond};
use crate::scenario::{Cluster, Op, Scenario};
use crate::workload::{self, Counters, LoadError, Loaded, Loading, Unfinished};

/// A checkpoint after a large load may write gigabytes.
const SIZES_WITHIN: Duration = Duration::from_secs(600);
/// A key that is still missing after so many passes does not stay when it is written.
const MENDS: u32 = 2;

/// Fills the collection, or takes what is in it. Every document is acknowledged by a majority when it returns.
pub async fn load(ctx: &Context, client: &Client, documents: Documents) -> Result<(), Early> {
    ctx.events.send(Event::Phase { phase: Phase::Load }).await;
    let at = Loading {
        client: client.clone(),
        dataset: ctx.scenario.dataset.clone(),
        documents,
        seed: ctx.data_seed(),
        clock: ctx.clock,
        stall: workload::STALL,
        stop: ctx.stop.orderly.clone(),
        counters: Arc::default(),
    };
    if ctx.drop && or_stop(ctx, workload::drop_ours(&at)).await?.map_err(early)? {
        ctx.events.send(Event::Note { text: "the collection of an earlier load was dropped".into() }).await;
    }
    let unfinished = if ctx.goal == Goal::Run { Unfinished::Refuse } else { Unfinished::Continue };
    let loaded = shown(ctx, &at, workload::load(&at, unfinished)).await?;
    report(ctx, &at, &loaded).await?;
    check(ctx, &at, loaded).await?;
    if ctx.goal == Goal::Run && deletes(&ctx.scenario) {
        or_stop(ctx, at.expect_deletes()).await?.map_err(early)?;
    }
    Ok(())
}

fn deletes(scenario: &Scenario) -> bool {
    scenario.workloads.iter().flat_map(|workload| &workload.mix).any(|(op, _)| *op == Op::Delete)
}

fn early(error: LoadError) -> Early {
    match error {
        LoadError::Stopped => Early::Interrupted,
        error => Early::Broken(error.to_string()),
    }
}

/// Shows and records how far a pass of the load is, second by second.
async fn shown(
    ctx: &Context,
    at: &Loading,
    work: impl Future<Output = Result<Loaded, LoadError>>,
) -> Result<Loaded, Early> {
    let ended = CancellationToken::new();
    let mut display = JoinSet::new();
    let counters = Arc::clone(&at.counters);
    let done = move || counters.found.load(Ordering::Relaxed) + counters.documents.load(Ordering::Relaxed);
    let total = at.dataset.documents;
    display.spawn(ctx.progress.clone().counting("documents loaded", done, total, ended.clone()));
    display.spawn(seconds(ctx.events.clone(), Arc::clone(&at.counters), ctx.clock, ended.clone()));
    let loaded = or_stop(ctx, work).await;
    ended.cancel();
    while display.join_next().await.is_some() {}
    loaded?.map_err(early)
}

/// Sends one row a second until `ended`; the last one is the rest of a second.
async fn seconds(events: Events, counters: Arc<Counters>, clock: Clock, ended: CancellationToken) {
    let (started, mut before) = (clock.now(), count(&counters));
    for t_s in 0.. {
        let last = tokio::select! {
            () = clock.sleep_until(started + Duration::from_secs(t_s + 1)) => false,
            () = ended.cancelled() => true,
        };
        let now = count(&counters);
        let second = LoadSecond {
            t_s,
            documents: now.documents - before.documents,
            batches: now.batches - before.batches,
            failed_tries: now.failed_tries - before.failed_tries,
            bytes: now.bytes - before.bytes,
        };
        before = now;
        events.send(Event::LoadSecond(second)).await;
        if last {
            return;
        }
    }
}

fn count(counters: &Counters) -> LoadSecond {
    LoadSecond {
        t_s: 0,
        documents: counters.documents.load(Ordering::Relaxed),
        batches: counters.batches.load(Ordering::Relaxed),
        failed_tries: counters.failed_tries.load(Ordering::Relaxed),
        bytes: counters.bytes.load(Ordering::Relaxed),
    }
}

/// Says what was loaded, and how large it is.
async fn report(ctx: &Context, at: &Loading, loaded: &Loaded) -> Result<(), Early> {
    // A checkpoint makes the sizes true, but is not ours to ask of somebody else's servers.
    let managed = matches!(ctx.scenario.cluster, Cluster::Managed(_));
    let sizes = tokio::time::timeout(SIZES_WITHIN, workload::sizes(&at.client, &at.dataset, managed));
    let sizes = or_stop(ctx, sizes).await?.map_err(|_| {
        let seconds = SIZES_WITHIN.as_secs();
        Early::Broken(format!("after the load, the server did not answer within {seconds} s"))
    })?;
    let load = Load {
        documents: at.dataset.documents,
        // What was lost and written again counts once.
        inserted: at.counters.documents.load(Ordering::Relaxed).min(at.dataset.documents),
        resumed: loaded.resumed,
        removed: loaded.removed,
        seconds: loaded.filling.as_secs_f64(),
        index_seconds: loaded.indexing.as_secs_f64(),
        storage_bytes: sizes.storage_bytes,
        data_bytes: sizes.data_bytes,
        index_bytes: sizes.index_bytes,
        disk_bytes: managed.then(|| directory::data_bytes(&ctx.dir.join("nodes"))),
    };
    ctx.events.send(Event::Loaded(Box::new(load))).await;
    Ok(())
}

/// Looks up every key where that is asked for, or where anything is in doubt; what is missing is written, if
/// loading is what this run is for.
async fn check(ctx: &Context, at: &Loading, mut loaded: Loaded) -> Result<(), Early> {
    let asked = ctx.goal == Goal::Load { verify: true };
    let may_mend = ctx.goal != Goal::Run || !loaded.resumed;
    if asked {
        ctx.events.send(Event::Phase { phase: Phase::Verify }).await;
    }
    for round in 0..=MENDS {
        if let Some(why) = &loaded.doubt {
            let text = format!("{why}: every key is looked up");
            ctx.events.send(Event::Note { text }).await;
        } else if !asked && round == 0 {
            return Ok(());
        }
        let started = ctx.clock.now();
        let ledger = Arc::new(Ledger::new(at.dataset.documents).shown_from(at.dataset.first));
        let books = look_up(ctx, &at.client, at.documents.clone(), &ledger).await;
        if ctx.stop.orderly.is_cancelled() {
            return Err(Early::Interrupted);
        }
        if books.lost == 0 || books.incomplete_because.is_some() || !may_mend || round == MENDS {
            return checked(ctx, at, books, (ctx.clock.now() - started, loaded.doubt.is_some())).await;
        }
        let text = format!("{} keys are missing: they are written again", books.lost);
        ctx.events.send(Event::Note { text }).await;
        let mended = shown(ctx, at, workload::mend(at)).await?;
        loaded.filling += mended.filling;
        loaded.doubt = mended.doubt;
        report(ctx, at, &loaded).await?;
    }
    Ok(())
}

/// Says what the last look came to. A run does not begin on data that is not right.
async fn checked(
    ctx: &Context,
    at: &Loading,
    books: Books,
    (took, in_doubt): (Duration, bool),
) -> Result<(), Early> {
    let wrong = books.lost + books.corrupt + books.alien + books.duplicates;
    let complete = wrong == 0 && books.incomplete_because.is_none();
    ctx.events.send(Event::LoadChecked { complete, seconds: took.as_secs_f64() }).await;
    if complete && in_doubt {
        or_stop(ctx, workload::seal(at)).await?.map_err(early)?;
    }
    if ctx.goal != Goal::Run {
        ctx.events.send(Event::Verified { ledger: Box::new(books) }).await;
        return Ok(());
    }
    if complete {
        return Ok(());
    }
    let why = books.incomplete_because.clone().unwrap_or_else(|| {
        format!("{} keys are missing, {} documents are not as loaded", books.lost, wrong - books.lost)
    });
    let text = format!(
        "the loaded documents cannot be used: {why}. `mongosoak load` writes what is missing; --drop starts anew"
    );
    Err(Early::Broken(text))
}

/// Reads back what was acknowledged.
pub async fn verify(
    ctx: &Context,
    client: &Client,
    documents: Documents,
    ledger: &Arc<Ledger>,
) -> Result<(), Early> {
    ctx.events.send(Event::Phase { phase: Phase::Verify }).await;
    let books = look_up(ctx, client, documents, ledger).await;
    ctx.events.send(Event::Verified { ledger: Box::new(books) }).await;
    if ctx.stop.orderly.is_cancelled() { Err(Early::Interrupted) } else { Ok(()) }
}

async fn look_up(ctx: &Context, client: &Client, documents: Documents, ledger: &Arc<Ledger>) -> Books {
    let dataset = &ctx.scenario.dataset;
    let at = ledger::Deployment {
        client: client.clone(),
        namespace: (dataset.database.clone(), dataset.collection.clone()),
        documents,
        clock: ctx.clock,
    };
    let progress = Arc::new(AtomicU64::new(0));
    let ended = CancellationToken::new();
    let mut display = JoinSet::new();
    let checked = Arc::clone(&progress);
    let done = move || checked.load(Ordering::Relaxed);
    display.spawn(ctx.progress.clone().counting("keys checked", done, ledger.end(), ended.clone()));
    let books = ledger::verify(ledger, &at, &progress, &ctx.stop.orderly).await;
    ended.cancel();
    while display.join_next().await.is_some() {}
    books
}
