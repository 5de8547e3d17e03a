//! Writes the documents: several writers side by side, and one task that keeps the note in the database up to
//! date. A chunk of which anything is in doubt is read, compared and completed until nothing is missing.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{Client, Collection, Database};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::batch::{self, Batch};
use super::marker::{self, Marker, Note};
use super::window::Window;
use super::{LoadError, Loading, permanent};
use crate::dataset::Documents;
use crate::outcome;

/// Writers at the same time; more gain nothing on one mongod.
const WRITERS: usize = 4;
/// Keys per chunk, at most: 400 kB of `row`.
const CHUNK_KEYS: u64 = 1_000;
/// Between two updates of the note: twice as much is looked at again after a kill.
const NOTE_EVERY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Secondaries may be that far behind when everything is written.
const LAST_NOTE_WITHIN: Duration = Duration::from_secs(600);

/// What a load did so far. Read by whoever shows it.
#[derive(Debug, Default)]
pub struct Counters {
    /// Documents written by this load.
    pub documents: AtomicU64,
    /// Documents that were there already.
    pub found: AtomicU64,
    /// Insert commands that were answered without any complaint.
    pub batches: AtomicU64,
    /// Commands that failed and were tried again.
    pub failed_tries: AtomicU64,
    /// Bytes of the documents of these batches.
    pub bytes: AtomicU64,
}

impl Counters {
    /// Changes with whatever comes forward; batches, because a chunk may be several.
    fn moved(&self) -> [u64; 3] {
        [&self.documents, &self.found, &self.batches].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Keys per chunk: what one command holds, so that large documents on a slow server move the counters, too.
fn chunk_keys(most_bytes: usize) -> u64 {
    let fit = batch::MOST_BYTES / most_bytes.max(1);
    CHUNK_KEYS.min(fit as u64).max(1)
}

/// One pass over a range of keys.
#[derive(Clone, Debug)]
pub struct Fill {
    client: Client,
    database: Database,
    collection: Collection<RawDocumentBuf>,
    name: String,
    content: Documents,
    window: Arc<Window>,
    /// Keys below may be there already.
    doubtful_below: u64,
    counters: Arc<Counters>,
    last_error: Arc<Mutex<String>>,
    marker: Marker,
}

/// How a pass went.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Up to here every key is acknowledged by a majority: the end, unless the primary changed meanwhile.
    pub sure_to: u64,
}

impl Fill {
    /// The keys of `keys`; below `doubtful_below` they are looked for first.
    pub fn new(at: &Loading, keys: Range<u64>, doubtful_below: u64) -> Self {
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::local())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let database = at.client.database(&at.dataset.database);
        Self {
            client: at.client.clone(),
            collection: database.collection_with_options(&at.dataset.collection, options),
            database,
            name: at.dataset.collection.clone(),
            content: at.documents.clone(),
            window: Arc::new(Window::new(keys, chunk_keys(at.documents.most_bytes()))),
            doubtful_below,
            counters: Arc::clone(&at.counters),
            last_error: Arc::default(),
            marker: Marker::new(&at.client, &at.dataset),
        }
    }

    /// Runs the pass to its end; `note` is kept up to date in the database. Fails when nothing goes in any more
    /// for `at.stall`; the tasks, and what they wait for, are dropped then: use the client for nothing more.
    pub async fn run(self, at: &Loading, note: &mut Note) -> Result<Filled, LoadError> {
        let (mut writers, mut keeper) = (JoinSet::new(), JoinSet::new());
        // Before the first write: a change of primary must not be missed.
        let primary = at.patiently(|| primary(&self.client)).await?;
        for _ in 0..WRITERS {
            writers.spawn(self.clone().write_all());
        }
        let written = CancellationToken::new();
        keeper.spawn(self.clone().keep_note(note.clone(), primary, written.clone()));
        self.watch(at, &mut writers, at.stall).await?;
        written.cancel();
        let kept = self.watch(at, &mut keeper, LAST_NOTE_WITHIN).await?;
        *note = kept.ok_or(LoadError::Stopped)?;
        Ok(Filled { sure_to: note.edge() })
    }

    /// Waits for all tasks, for the first failure, for a stop, or until nothing has moved for `stall`. Gives
    /// what the last task returned.
    async fn watch<T: 'static>(
        &self,
        at: &Loading,
        tasks: &mut JoinSet<Result<T, LoadError>>,
        stall: Duration,
    ) -> Result<Option<T>, LoadError> {
        let (mut seen, mut since, mut last) = (self.counters.moved(), at.clock.now(), None);
        loop {
            tokio::select! {
                biased;
                () = at.stop.cancelled() => return Err(LoadError::Stopped),
                ended = tasks.join_next() => match ended {
                    Some(ended) => last = Some(ended.map_err(LoadError::Panicked)??),
                    None => return Ok(last),
                },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = self.counters.moved();
            if now != seen {
                (seen, since) = (now, at.clock.now());
            } else if at.clock.now() - since > stall {
                let error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
                return Err(at.stalled(stall, &error));
            }
        }
    }

    async fn write_all(self) -> Result<(), LoadError> {
        while let Some(chunk) = self.window.claim().await {
            let in_doubt = chunk.start < self.doubtful_below;
            if in_doubt || !self.insert(chunk.clone()).await? {
                self.complete(chunk.clone(), in_doubt).await?;
            } else {
                self.counters.documents.fetch_add(chunk.end - chunk.start, Ordering::Relaxed);
            }
            self.window.finish(chunk);
        }
        Ok(())
    }

    /// Writes keys of which none is there; whether all went in without any complaint.
    async fn insert(&self, keys: impl IntoIterator<Item = u64>) -> Result<bool, LoadError> {
        let mut keys = keys.into_iter();
        while let Some(batch) = batch::insert(&self.name, &self.content, &mut keys) {
            let Batch { command, documents, bytes } = batch;
            let problem = match self.database.run_raw_command(command).await {
                Ok(reply) => batch::complaint(&reply, documents),
                Err(error) => {
                    self.give_up_if_permanent(&error)?;
                    Some(outcome::text(&error))
                }
            };
            if let Some(why) = problem {
                self.failed(why);
                return Ok(false);
            }
            self.counters.batches.fetch_add(1, Ordering::Relaxed);
            self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Looks which keys of a chunk are missing, and writes those, until none is.
    async fn complete(&self, chunk: Range<u64>, in_doubt: bool) -> Result<(), LoadError> {
        let keys = chunk.end - chunk.start;
        let mut there_before = None;
        loop {
            match self.missing(&chunk).await {
                Ok(missing) => {
                    let there = keys - missing.len() as u64;
                    // What is found in a chunk that was just written is our own.
                    let before = *there_before.get_or_insert(if in_doubt { there } else { 0 });
                    if missing.is_empty() {
                        self.counters.found.fetch_add(before, Ordering::Relaxed);
                        self.counters.documents.fetch_add(keys - before, Ordering::Relaxed);
                        return Ok(());
                    }
                    if self.insert(missing).await? {
                        continue;
                    }
                }
                Err(Look::Failed(error)) => {
                    self.give_up_if_permanent(&error)?;
                    self.failed(outcome::text(&error));
                }
                Err(Look::Foreign(error)) => return Err(error),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// The keys of a chunk that are not there; whatever is there must be a document of ours.
    async fn missing(&self, chunk: &Range<u64>) -> Result<Vec<u64>, Look> {
        let id = |key| self.content.id(key);
        let filter = doc! { "_id": { "$gte": id(chunk.start), "$lt": id(chunk.end) } };
        let mut cursor = self.collection.find(filter).sort(doc! { "_id": 1 }).await?;
        let (mut missing, mut next) = (Vec::new(), chunk.start);
        while cursor.advance().await? {
            let (key, _) = self.content.check(cursor.current()).map_err(|error| {
                let namespace = format!("{}.{}", self.database.name(), self.name);
                Look::Foreign(LoadError::Foreign { namespace, what: error.to_string() })
            })?;
            missing.extend(next..key);
            next = key + 1;
        }
        missing.extend(next..chunk.end);
        Ok(missing)
    }

    /// Tells the database how far everything is written, again and again, until the end is reached. Returns the
    /// note as it is there then.
    ///
    /// Each write of the note waits for a majority to have everything before it, as long as one primary took it
    /// all. What was proven so is noted with the next write: the note never says more than is true.
    async fn keep_note(
        self,
        mut note: Note,
        mut first: Option<String>,
        written: CancellationToken,
    ) -> Result<Note, LoadError> {
        let mut proven = note.loaded_to;
        while first.is_some() {
            let ended = tokio::select! {
                biased;
                () = written.cancelled() => true,
                () = tokio::time::sleep(NOTE_EVERY) => false,
            };
            let edge = marker::number(self.window.written_to());
            note.loaded_to = proven;
            let kept = match self.marker.write(&note).await {
                Ok(()) => primary(&self.client).await,
                Err(error) => Err(error),
            };
            match kept {
                Ok(now) if now == first && ended && proven == edge => return Ok(note),
                Ok(now) if now == first => proven = edge,
                // What an old primary took alone may be gone with it: nothing more is sure in this pass.
                Ok(_) => first = None,
                Err(error) => {
                    self.give_up_if_permanent(&error)?;
                    self.failed(outcome::text(&error));
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        written.cancelled().await;
        Ok(note)
    }

    fn failed(&self, why: String) {
        tracing::info!(error = why, "a command of the load failed, trying again");
        self.counters.failed_tries.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn give_up_if_permanent(&self, error: &mongodb::error::Error) -> Result<(), LoadError> {
        if !permanent(error) {
            return Ok(());
        }
        let namespace = format!("{}.{}", self.database.name(), self.name);
        Err(LoadError::Refused { namespace, why: outcome::text(error) })
    }
}

/// Which process takes writes, in which term: the same answer before and after says that nothing was rolled
/// back. `None`: there is no telling (a mongos, behind which are many).
async fn primary(client: &Client) -> mongodb::error::Result<Option<String>> {
    let hello = client.database("admin").run_command(doc! { "hello": 1 }).await?;
    if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        return Ok(None);
    }
    let process = hello.get_document("topologyVersion").ok().and_then(|v| v.get("processId").cloned());
    Ok(Some(format!("{:?} {process:?}", hello.get("electionId"))))
}

/// Why a look at a chunk gave nothing.
enum Look {
    Failed(mongodb::error::Error),
    Foreign(LoadError),
}

impl From<mongodb::error::Error> for Look {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_one_command_at_most_and_one_document_at_least() {
        assert_eq!(chunk_keys(400), CHUNK_KEYS);
        assert_eq!(chunk_keys(100 << 10), 40);
        assert_eq!(chunk_keys(16 << 20), 1);
    }

    #[test]
    fn a_batch_within_a_chunk_is_progress_and_a_failed_try_is_none() {
        let counters = Counters::default();
        let before = counters.moved();
        counters.failed_tries.fetch_add(1, Ordering::Relaxed);
        assert_eq!(counters.moved(), before);
        counters.batches.fetch_add(1, Ordering::Relaxed);
        assert_ne!(counters.moved(), before);
    }
}
