//! Fills the collection before the run: parallel bulk inserts of consecutive keys, which go on where an earlier
//! load was cut off. `marker` is the note in the database that says how far it came, `fill` writes, `window` says
//! which key is next, `batch` builds the commands, `existing` looks at what is there before.

mod batch;
mod existing;
mod fill;
mod marker;
mod sizes;
mod spread;
mod window;

use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{Client, Collection, IndexModel};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::dataset::Documents;
use crate::outcome;
use crate::scenario::Dataset;
use existing::There;
use fill::Fill;
use marker::{Marker, Note};

pub use existing::drop_ours;
pub use fill::Counters;
pub use sizes::{Sizes, sizes};

/// Nothing went in, or no command was answered, for this long: the load ends.
pub const STALL: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// While an index is built, the server is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Not allowed, validation failed, document too large, namespace not possible, no router, sharded by another key: no
/// second try helps.
const PERMANENT: [i32; 8] = [13, 18, 23, 59, 73, 121, 10334, 17280];

/// Why the collection could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Somebody's data is there already.
    #[error(
        "collection {namespace} is not empty, and nothing says that this tool loaded it; nothing was written. Drop \
         it, or name another one in [dataset]"
    )]
    NotEmpty {
        /// Database and collection.
        namespace: String,
    },
    /// An earlier load was cut off, and nobody asked to continue it.
    #[error(
        "collection {namespace} is loaded in part: {loaded_to} of {documents} documents for sure. Continue with \
         `mongosoak load` and the same scenario, seed and deployment, or start anew with --drop; nothing was written"
    )]
    Partial {
        /// Database and collection.
        namespace: String,
        /// Every key below is there.
        loaded_to: u64,
        /// Keys that were to be loaded.
        documents: u64,
    },
    /// Other documents are loaded than the scenario asks for.
    #[error(
        "collection {namespace} holds other documents: {difference}. Give the same, name another collection in \
         [dataset], or start anew with --drop; nothing was written"
    )]
    Mismatch {
        /// Database and collection.
        namespace: String,
        /// Both values.
        difference: String,
    },
    /// The collection holds something that this tool did not write.
    #[error(
        "collection {namespace} holds what this tool did not write there: {what}. It was left alone; drop it yourself, or name another collection in [dataset]"
    )]
    Foreign {
        /// Database and collection.
        namespace: String,
        /// What is there.
        what: String,
    },
    /// The server did not take it.
    #[error("load {namespace}: {why}")]
    Refused {
        /// Database and collection.
        namespace: String,
        /// What the driver said.
        why: String,
    },
    /// Nothing moves any more.
    #[error(
        "load {namespace}: no progress for {seconds} s; the last error was: {why}. What is loaded stays: continue with `mongosoak load`"
    )]
    Stalled {
        /// Database and collection.
        namespace: String,
        /// How long.
        seconds: u64,
        /// The last error, or that there was none.
        why: String,
    },
    /// The user asked to stop.
    #[error("the load was stopped")]
    Stopped,
    /// A task of ours panicked.
    #[error("a loading task panicked: {0}")]
    Panicked(tokio::task::JoinError),
}

/// Where to load, and what.
#[derive(Clone, Debug)]
pub struct Loading {
    /// The run's client. After a failure it is to be used for nothing more but its shutdown.
    pub client: Client,
    /// Names and number.
    pub dataset: Dataset,
    /// Content.
    pub documents: Documents,
    /// Seed of the content, for people.
    pub seed: u64,
    /// The run clock.
    pub clock: Clock,
    /// Without any progress for this long it fails; [`STALL`].
    pub stall: Duration,
    /// Ends it at once.
    pub stop: CancellationToken,
    /// How far it is.
    pub counters: Arc<Counters>,
}

/// What to do with a load that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Go on with it.
    Continue,
    /// Refuse to work on partial data.
    Refuse,
}

/// A collection that holds the documents, all of them unless `doubt` says why that is not sure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// Something was there before.
    pub resumed: bool,
    /// From the first batch to the majority's confirmation, without the indexes.
    pub filling: Duration,
    /// For the indexes.
    pub indexing: Duration,
    /// Fresh documents of earlier runs that were removed.
    pub removed: u64,
    /// Why every key has to be looked up before anybody relies on it.
    pub doubt: Option<String>,
}

impl Loading {
    /// To be called before a workload deletes documents: whatever the server counts from then on proves nothing,
    /// and a crash may even bring the old count back. The next use looks up every key.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub async fn expect_deletes(&self) -> Result<(), LoadError> {
        existing::uncount(self).await
    }

    fn namespace(&self) -> String {
        format!("{}.{}", self.dataset.database, self.dataset.collection)
    }

    fn refused(&self, error: &mongodb::error::Error) -> LoadError {
        LoadError::Refused { namespace: self.namespace(), why: outcome::text(error) }
    }

    fn stalled(&self, after: Duration, why: &str) -> LoadError {
        let why = if why.is_empty() { "none, no command is answered" } else { why };
        LoadError::Stalled { namespace: self.namespace(), seconds: after.as_secs(), why: why.into() }
    }

    /// On the primary and with the majority, whatever the URI says.
    fn collection(&self) -> Collection<RawDocumentBuf> {
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .write_concern(WriteConcern::majority())
            .build();
        self.client
            .database(&self.dataset.database)
            .collection_with_options(&self.dataset.collection, options)
    }

    /// Runs one command until it succeeds, cannot succeed, or takes longer than anything may stand still.
    async fn patiently<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, LoadError>
    where
        F: Future<Output = mongodb::error::Result<T>>,
    {
        let until = self.clock.now() + self.stall;
        let mut why = String::new();
        loop {
            let answer = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(LoadError::Stopped),
                answer = call() => answer,
                () = self.clock.sleep_until(until) => return Err(self.stalled(self.stall, &why)),
            };
            match answer {
                Ok(value) => return Ok(value),
                Err(error) if permanent(&error) => return Err(self.refused(&error)),
                Err(error) => why = outcome::text(&error),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

fn permanent(error: &mongodb::error::Error) -> bool {
    outcome::cause(error).code.is_some_and(|code| PERMANENT.contains(&code))
}

/// Sees to it that the collection holds documents 0 to `dataset.documents` - 1 and nothing else: uses what is
/// there, goes on with what was cut off, or begins. When it returns without a doubt, every document is
/// acknowledged by a majority.
///
/// # Errors
/// When the collection holds anything else, the server refuses or stands still, or the load is stopped.
pub async fn load(at: &Loading, unfinished: Unfinished) -> Result<Loaded, LoadError> {
    match existing::look(at, unfinished).await? {
        There::Nothing(note) => fill(at, note, 0, false).await,
        There::Part(note, doubtful_below) => fill(at, note, doubtful_below, true).await,
        There::All { removed, doubt } => {
            at.counters.found.store(at.dataset.documents, std::sync::atomic::Ordering::Relaxed);
            let indexing = indexes(at).await?;
            Ok(Loaded { resumed: true, removed, doubt, indexing, ..Loaded::default() })
        }
    }
}

/// Looks for every key, and writes those that are missing.
///
/// # Errors
/// As [`load`].
pub async fn mend(at: &Loading) -> Result<Loaded, LoadError> {
    at.counters.found.store(0, std::sync::atomic::Ordering::Relaxed);
    let note = existing::fresh_note(at).await?;
    at.patiently(|| Marker::new(&at.client, &at.dataset).write_owned(note.clone())).await?;
    fill(at, note, at.dataset.documents, true).await
}

/// Every key was looked up and found: nothing is in doubt any more.
///
/// # Errors
/// When the note cannot be written.
pub async fn seal(at: &Loading) -> Result<(), LoadError> {
    existing::complete(at, existing::fresh_note(at).await?).await
}

async fn fill(at: &Loading, mut note: Note, doubtful_below: u64, resumed: bool) -> Result<Loaded, LoadError> {
    spread::spread(at).await?;
    let started = at.clock.now();
    let edge = note.edge();
    at.counters.found.fetch_add(edge, std::sync::atomic::Ordering::Relaxed);
    let pass = Fill::new(at, edge..at.dataset.documents, doubtful_below);
    let filled = pass.run(at, &mut note).await?;
    let filling = at.clock.now() - started;
    let indexing = indexes(at).await?;
    let doubt = (filled.sure_to < at.dataset.documents).then(|| {
        "another process took writes during the load (behind a router there is no telling), and may not have all of it"
            .to_owned()
    });
    if doubt.is_none() {
        existing::complete(at, note).await?;
    }
    Ok(Loaded { resumed, filling, indexing, removed: 0, doubt })
}

/// Builds the indexes, one after the other; one that is there costs nothing.
async fn indexes(at: &Loading) -> Result<Duration, LoadError> {
    let started = at.clock.now();
    for field in &at.dataset.indexes {
        let model = IndexModel::builder().keys(doc! { field.as_str(): 1 }).build();
        let collection = at.collection();
        // A server that is restarted meanwhile is asked again; the build goes on there.
        loop {
            let built = tokio::select! {
                biased;
                () = at.stop.cancelled() => return Err(LoadError::Stopped),
                built = collection.create_index(model.clone()) => built,
                error = silent(at) => return Err(error),
            };
            match built {
                Ok(_) => break,
                Err(error) if permanent(&error) => return Err(at.refused(&error)),
                Err(error) => tracing::info!(%error, "an index was not built, trying again"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
            let admin = at.client.database("admin");
            at.patiently(|| async { admin.run_command(doc! { "ping": 1 }).await }).await?;
        }
    }
    Ok(at.clock.now() - started)
}

/// Returns when the server does not answer any more. An index may take hours, a ping may not.
async fn silent(at: &Loading) -> LoadError {
    loop {
        tokio::time::sleep(PING_EVERY).await;
        let admin = at.client.database("admin");
        if let Err(error) = at.patiently(|| async { admin.run_command(doc! { "ping": 1 }).await }).await {
            return error;
        }
    }
}
