//! Fills the collection before the run: parallel bulk inserts of consecutive keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, WriteConcern};
use mongodb::{Client, Collection, IndexModel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::dataset::Documents;
use crate::outcome::{self, Outcome};
use crate::scenario::Dataset;

/// Inserts at the same time; more gain nothing on one mongod.
const TASKS: usize = 4;
/// Documents per insert: 400 kB of `row`.
const BATCH: u64 = 1_000;
/// A batch that cannot be written for this long ends the load.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Why the collection could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Somebody's data is there already.
    #[error(
        "collection {namespace} is not empty; nothing was written. Drop it, or name another one in [dataset]"
    )]
    NotEmpty {
        /// Database and collection.
        namespace: String,
    },
    /// The server did not take it.
    #[error("load {namespace}: {why}")]
    Refused {
        /// Database and collection.
        namespace: String,
        /// What the driver said.
        why: String,
    },
    /// The user asked to stop.
    #[error("the load was stopped")]
    Stopped,
    /// A task of ours panicked.
    #[error("a loading task panicked: {0}")]
    Panicked(tokio::task::JoinError),
}

/// How large the collection is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// `collStats.storageSize`; `None`: the server did not say.
    pub storage_bytes: Option<u64>,
    /// `collStats.size`.
    pub data_bytes: Option<u64>,
}

#[derive(Clone)]
struct Loader {
    collection: Collection<RawDocumentBuf>,
    documents: Documents,
    total: u64,
    next: Arc<AtomicU64>,
    progress: Arc<AtomicU64>,
    clock: Clock,
    stop: CancellationToken,
}

/// Writes documents 0 to `dataset.documents` - 1 (version 0), then a majority barrier, then the indexes.
/// When it returns, every document is acknowledged by a majority. `progress` counts them. Gives the time from
/// the first batch to the barrier, without the indexes.
///
/// # Errors
/// When the collection is not empty, the server refuses, or `stop` is cancelled.
pub async fn load(
    client: &Client,
    dataset: &Dataset,
    documents: Documents,
    clock: Clock,
    progress: &Arc<AtomicU64>,
    stop: &CancellationToken,
) -> Result<Duration, LoadError> {
    let namespace = format!("{}.{}", dataset.database, dataset.collection);
    let refused = |error: mongodb::error::Error| LoadError::Refused {
        namespace: namespace.clone(),
        why: outcome::text(&error),
    };
    let collection = client.database(&dataset.database).collection::<RawDocumentBuf>(&dataset.collection);
    if collection.find_one(doc! {}).await.map_err(refused)?.is_some() {
        return Err(LoadError::NotEmpty { namespace });
    }
    let started = clock.now();
    let loader = Loader {
        collection: with_concern(client, dataset, WriteConcern::nodes(1)),
        documents,
        total: dataset.documents,
        next: Arc::default(),
        progress: Arc::clone(progress),
        clock,
        stop: stop.clone(),
    };
    run_tasks(&loader, &namespace).await?;
    // Wait for everything before it to reach a majority: a write that changes nothing does.
    let strong = with_concern(client, dataset, WriteConcern::majority());
    let nothing = doc! { "$setOnInsert": { "v": 0 } };
    strong.update_one(doc! { "_id": 0_i64 }, nothing).await.map_err(refused)?;
    let took = clock.now() - started;
    for field in &dataset.indexes {
        let model = IndexModel::builder().keys(doc! { field.as_str(): 1 }).build();
        strong.create_index(model).await.map_err(refused)?;
    }
    Ok(took)
}

/// Asks for the sizes; `flush` makes a checkpoint first, before which the server knows only the past.
pub async fn sizes(client: &Client, dataset: &Dataset, flush: bool) -> Sizes {
    if flush && let Err(error) = client.database("admin").run_command(doc! { "fsync": 1 }).await {
        tracing::info!(error = outcome::text(&error), "no checkpoint after the load");
    }
    let command = doc! { "collStats": &dataset.collection };
    let stats = client.database(&dataset.database).run_command(command).await.unwrap_or_default();
    Sizes { storage_bytes: number(&stats, "storageSize"), data_bytes: number(&stats, "size") }
}

fn with_concern(client: &Client, dataset: &Dataset, concern: WriteConcern) -> Collection<RawDocumentBuf> {
    let options = CollectionOptions::builder().write_concern(concern).build();
    client.database(&dataset.database).collection_with_options(&dataset.collection, options)
}

async fn run_tasks(loader: &Loader, namespace: &str) -> Result<(), LoadError> {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(loader.clone().run());
    }
    let mut first_error = None;
    while let Some(ended) = tasks.join_next().await {
        let problem = match ended {
            Ok(Ok(())) => continue,
            Ok(Err(TaskError::Stopped)) => LoadError::Stopped,
            Ok(Err(TaskError::Refused(why))) => LoadError::Refused { namespace: namespace.into(), why },
            Err(panic) => LoadError::Panicked(panic),
        };
        loader.next.store(loader.total, Ordering::Relaxed);
        first_error.get_or_insert(problem);
    }
    first_error.map_or(Ok(()), Err)
}

enum TaskError {
    Stopped,
    Refused(String),
}

impl Loader {
    async fn run(self) -> Result<(), TaskError> {
        loop {
            let from = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= self.total {
                return Ok(());
            }
            let count = BATCH.min(self.total - from);
            self.write(from, count).await?;
            self.progress.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// One batch, again and again until each of its documents is there.
    async fn write(&self, from: u64, count: u64) -> Result<(), TaskError> {
        let give_up = self.clock.now() + GIVE_UP_AFTER;
        loop {
            if self.stop.is_cancelled() {
                return Err(TaskError::Stopped);
            }
            let batch = (from..from + count).map(|key| self.documents.document(key, 0));
            let Err(error) = self.collection.insert_many(batch).ordered(false).await else {
                return Ok(());
            };
            let outcomes = outcome::of_batch(&error, usize::try_from(count).unwrap_or(usize::MAX), false);
            // After a lost reply the documents of the first try are duplicates of our own.
            if outcomes.iter().all(is_there) {
                return Ok(());
            }
            if self.clock.now() > give_up {
                return Err(TaskError::Refused(outcome::text(&error)));
            }
            tracing::info!(from, error = outcome::text(&error), "load batch failed, trying again");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// The collection was empty when the load began, so a duplicate can only be our own.
fn is_there(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ok => true,
        Outcome::Failed(cause) => cause.class == "duplicate_key",
        Outcome::Unknown(_) => false,
    }
}

fn number(stats: &Document, name: &str) -> Option<u64> {
    let value = stats.get(name)?;
    let signed = value.as_i64().or_else(|| value.as_i32().map(i64::from));
    let float = || value.as_f64().map(|f| f as i64);
    signed.or_else(float).and_then(|n| u64::try_from(n).ok())
}
