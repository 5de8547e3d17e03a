//! The phases before and after the drive: filling the collection, and reading back what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mongodb::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Context, Early, or_stop};
use crate::dataset::Documents;
use crate::event::{Event, Phase};
use crate::ledger::{self, Ledger};
use crate::scenario::Cluster;
use crate::workload;

/// Fills the collection. Every document is acknowledged by a majority when it returns.
pub async fn load(ctx: &Context, client: &Client, documents: Documents) -> Result<(), Early> {
    let dataset = &ctx.scenario.dataset;
    ctx.events.send(Event::Phase { phase: Phase::Load }).await;
    let progress = Arc::new(AtomicU64::new(0));
    let shown = CancellationToken::new();
    let mut display = JoinSet::new();
    display.spawn(ctx.progress.clone().counting(
        "documents loaded",
        Arc::clone(&progress),
        dataset.documents,
        shown.clone(),
    ));
    let loading = workload::load(client, dataset, documents, ctx.clock, &progress, &ctx.stop.orderly);
    let loaded = or_stop(ctx, loading).await;
    shown.cancel();
    while display.join_next().await.is_some() {}
    let loaded = loaded?.map_err(|error| match error {
        workload::LoadError::Stopped => Early::Interrupted,
        error => Early::Broken(error.to_string()),
    })?;
    // A checkpoint makes the sizes true, but is not ours to ask of somebody else's servers.
    let flush = matches!(ctx.scenario.cluster, Cluster::Managed(_));
    let workload::Sizes { storage_bytes, data_bytes } =
        or_stop(ctx, workload::sizes(client, dataset, flush)).await?;
    let (documents, seconds) = (dataset.documents, loaded.as_secs_f64());
    ctx.events.send(Event::Loaded { documents, seconds, storage_bytes, data_bytes }).await;
    Ok(())
}

/// Reads back what was acknowledged.
pub async fn verify(
    ctx: &Context,
    client: &Client,
    documents: Documents,
    ledger: &Ledger,
) -> Result<(), Early> {
    ctx.events.send(Event::Phase { phase: Phase::Verify }).await;
    let dataset = &ctx.scenario.dataset;
    let at = ledger::Deployment {
        client: client.clone(),
        namespace: (dataset.database.clone(), dataset.collection.clone()),
        documents,
        clock: ctx.clock,
    };
    let progress = Arc::new(AtomicU64::new(0));
    let shown = CancellationToken::new();
    let mut display = JoinSet::new();
    display.spawn(ctx.progress.clone().counting(
        "keys checked",
        Arc::clone(&progress),
        ledger.end(),
        shown.clone(),
    ));
    let books = ledger::verify(ledger, &at, &progress, &ctx.stop.orderly).await;
    shown.cancel();
    while display.join_next().await.is_some() {}
    ctx.events.send(Event::Verified { ledger: Box::new(books) }).await;
    if ctx.stop.orderly.is_cancelled() { Err(Early::Interrupted) } else { Ok(()) }
}
