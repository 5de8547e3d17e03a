//! Reads back what was acknowledged, key by key, and judges it.
//!
//! The scan walks the key space in ranges, several at the same time, on the primary with majority read
//! concern. A range that fails is asked again from its start, so a restart or an election in the middle counts
//! nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{Client, Collection};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Ledger;
use super::findings::{self, add, sample};
use crate::clock::Clock;
use crate::dataset::Documents;
use crate::recording::Ledger as Books;

/// Keys per range, at most: large enough that the round trip costs nothing.
const RANGE_KEYS: u64 = 20_000;
/// Bytes per range, on average: small enough to repeat, and to read before anybody gives up.
const RANGE_BYTES: usize = 8_000_000;
/// Ranges that are read at the same time; more gain nothing on one mongod.
const READERS: usize = 4;
/// No range could be read for this long: the check stays incomplete.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// A read under way may still end when the user asks to stop; a server that hangs must not hold the end up.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// Documents outside the key space that are looked at.
const MAX_STRANGERS: i64 = 10_000;

/// Where the documents are.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// A client of its own, or the run's.
    pub client: Client,
    /// Database and collection.
    pub namespace: (String, String),
    /// What the documents must be.
    pub documents: Documents,
    /// The run clock.
    pub clock: Clock,
}

/// Checks every key that may exist; `progress` counts them. Never fails: what could not be read is `unchecked`, with the
/// reason. A cancelled check is incomplete, too.
pub async fn verify(
    ledger: &Arc<Ledger>,
    at: &Deployment,
    progress: &Arc<AtomicU64>,
    stop: &CancellationToken,
) -> Books {
    let acknowledged = ledger.acknowledged();
    let mut books = Books { acknowledged, ..Books::default() };
    let scan = Scan::new(ledger, at);
    let (mut readers, next) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
    for _ in 0..READERS {
        readers.spawn(scan.clone().ranges(Arc::clone(&next), Arc::clone(progress), stop.clone()));
    }
    while let Some(part) = readers.join_next().await {
        let part = part.unwrap_or_else(|panic| {
            let why = Some(format!("a reader of the check panicked: {panic}"));
            Books { incomplete_because: why, ..Books::default() }
        });
        add(&mut books, &part);
        books.incomplete_because = books.incomplete_because.or(part.incomplete_because);
    }
    // Readers end in any order.
    books.samples.sort_by_key(|sample| sample.key.parse::<u64>().ok());
    if books.incomplete_because.is_none() {
        match scan.strangers_with_retries(stop).await {
            Ok(part) => add(&mut books, &part),
            Err(why) => {
                books.incomplete_because =
                    Some(format!("documents outside the key space were not looked for: {why}"));
            }
        }
    }
    books.unchecked = books.acknowledged.saturating_sub(books.checked);
    books.stale_reads = ledger.stale_reads();
    books.read_back = ledger.read_back();
    if ledger.corrupt_reads() > books.corrupt {
        // Seen by a reader, but healed or overwritten since: no less a violation.
        books.corrupt = ledger.corrupt_reads();
        let detail = format!("{} reads returned what was never written under their key", books.corrupt);
        sample(&mut books, "corrupt", "various".into(), &detail);
    }
    books
}

#[derive(Clone)]
struct Scan {
    ledger: Arc<Ledger>,
    at: Deployment,
    read: Collection<RawDocumentBuf>,
}

impl Scan {
    fn new(ledger: &Arc<Ledger>, at: &Deployment) -> Self {
        let options = mongodb::options::CollectionOptions::builder()
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .write_concern(WriteConcern::majority())
            .build();
        let database = at.client.database(&at.namespace.0);
        let read = database.collection_with_options(&at.namespace.1, options);
        Self { ledger: Arc::clone(ledger), at: at.clone(), read }
    }

    /// Reads range after range until there are no more; the first that cannot be read ends it, for all readers.
    async fn ranges(self, next: Arc<AtomicU64>, progress: Arc<AtomicU64>, stop: CancellationToken) -> Books {
        let (end, mut books) = (self.ledger.end(), Books::default());
        let keys = range_keys(self.at.documents.len_bytes());
        loop {
            let from = next.fetch_add(keys, Ordering::Relaxed);
            if from >= end {
                return books;
            }
            let to = (from + keys).min(end);
            match self.range_with_retries(from, to, &stop).await {
                Ok(part) => add(&mut books, &part),
                Err(why) => {
                    next.store(end, Ordering::Relaxed);
                    books.incomplete_because = Some(format!("keys from {from} on were not all read: {why}"));
                    return books;
                }
            }
            progress.fetch_add(to - from, Ordering::Relaxed);
        }
    }

    async fn range_with_retries(
        &self,
        from: u64,
        to: u64,
        stop: &CancellationToken,
    ) -> Result<Books, String> {
        let part = self.retry(stop, || self.range(from, to)).await?;
        if part.lost + part.lost_permitted == 0 {
            return Ok(part);
        }
        // A lost write is a grave finding: look again behind a fresh majority barrier.
        self.retry(stop, || self.range(from, to)).await
    }

    async fn strangers_with_retries(&self, stop: &CancellationToken) -> Result<Books, String> {
        self.retry(stop, || self.strangers()).await
    }

    /// Runs one read until it succeeds, gives up, or is told to stop. The driver has no deadline of its own:
    /// a frozen server never answers. Its future is dropped then, so the client is not to be used again.
    async fn retry<F>(&self, stop: &CancellationToken, mut read: impl FnMut() -> F) -> Result<Books, String>
    where
        F: Future<Output = mongodb::error::Result<Books>>,
    {
        let until = self.at.clock.now() + GIVE_UP_AFTER;
        let mut why = String::from("no answer");
        loop {
            if stop.is_cancelled() {
                return Err("stopped by the user".into());
            }
            let answer = tokio::select! {
                biased;
                answer = read() => answer,
                () = self.at.clock.sleep_until(until) => {
                    return Err(format!("{why}, for {} s", GIVE_UP_AFTER.as_secs()));
                }
                () = out_of_patience(stop) => return Err("stopped by the user, without an answer".into()),
            };
            match answer {
                Ok(part) => return Ok(part),
                Err(error) => {
                    tracing::info!(%error, "verification read failed, trying again");
                    why = crate::outcome::text(&error);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// A new primary may answer majority reads from before it was elected until its own first write is
    /// committed. A majority write that changes nothing waits for exactly that; one that names no key waits on every
    /// shard.
    async fn barrier(&self) -> mongodb::error::Result<()> {
        let nothing = doc! { "$setOnInsert": { "v": 0 } };
        self.read.update_many(doc! { "$alwaysFalse": 1 }, nothing).await?;
        Ok(())
    }

    async fn range(&self, from: u64, to: u64) -> mongodb::error::Result<Books> {
        self.barrier().await?;
        let id = |key| self.at.documents.id(key);
        let filter = doc! { "_id": { "$gte": id(from), "$lt": id(to) } };
        let mut cursor = self.read.find(filter).sort(doc! { "_id": 1 }).batch_size(5_000).await?;
        let mut part = Books::default();
        let mut next = from;
        while cursor.advance().await? {
            let raw = cursor.current();
            match self.at.documents.check(raw) {
                // On two shards, say: there is only one index for each.
                Ok((key, _)) if key < next => findings::duplicate(&self.ledger, &mut part, key),
                Ok((key, _)) => {
                    findings::absent(&self.ledger, &mut part, next, key);
                    findings::present(&self.ledger, &mut part, key);
                    next = key + 1;
                }
                Err(error) => {
                    let key = raw.get_i64("_id").ok().and_then(|id| self.at.documents.key_of(id));
                    if let Some(key) = key {
                        findings::absent(&self.ledger, &mut part, next, key);
                        next = next.max(key + 1);
                    }
                    findings::wrong(&self.ledger, &mut part, (key, raw), &error.to_string());
                }
            }
        }
        findings::absent(&self.ledger, &mut part, next, to);
        Ok(part)
    }

    /// Documents before the first key and after the last one, whatever the type of their `_id`.
    async fn strangers(&self) -> mongodb::error::Result<Books> {
        let hint = || Hint::Keys(doc! { "_id": 1 });
        let edge = |key| doc! { "_id": self.at.documents.id(key) };
        let below = self.read.find(doc! {}).hint(hint()).max(edge(0)).limit(MAX_STRANGERS).await?;
        let end = edge(self.ledger.end());
        let above = self.read.find(doc! {}).hint(hint()).min(end).limit(MAX_STRANGERS).await?;
        let mut part = Books::default();
        for mut cursor in [below, above] {
            while cursor.advance().await? {
                findings::stranger(&mut part, cursor.current());
            }
        }
        Ok(part)
    }
}

/// Keys per range of documents of this length.
fn range_keys(len_bytes: usize) -> u64 {
    let fit = RANGE_BYTES / len_bytes.max(1);
    RANGE_KEYS.min(fit as u64).max(1)
}

async fn out_of_patience(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_PATIENCE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_bounded_by_keys_and_by_bytes_and_never_empty() {
        assert_eq!(range_keys(400), RANGE_KEYS);
        assert_eq!(range_keys(1_000_000), 8);
        assert_eq!(range_keys(16 << 20), 1);
    }
}
