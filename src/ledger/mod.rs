//! What was acknowledged, key by key, in bounded memory: two bits an inserted key, and two more a key in
//! blocks in which something was deleted.
//!
//! Loaded keys (0 to `loaded` - 1) are acknowledged as a whole. Fresh keys are handed out in blocks,
//! each block to one workload, so that a key's write concern is known without being stored.

mod deletes;
mod findings;
mod keys;
mod verify;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, RwLock, RwLockReadGuard};

pub use deletes::Delete;
pub use keys::KeySource;
pub use verify::{Deployment, verify};

use deletes::Deletes;

/// Keys per block. Small enough that an idle workload leaves few holes.
pub const BLOCK_KEYS: u64 = 4096;
const KEYS_PER_WORD: u64 = 32;
/// The lower of the two bits of each key of a word.
const LOW_BITS: u64 = 0x5555_5555_5555_5555;
/// How far ahead an acknowledged key is looked for: 64 blocks, some 10 us.
const SEARCH_KEYS: u64 = 64 * BLOCK_KEYS;
/// 2^40 bits of state would be 10^12 keys; at 1 M inserts/s that is twelve days.
const MAX_BLOCKS: usize = 1 << 28;

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never sent.
    NeverSent,
    /// Sent; whether it was applied is not known (yet).
    Unknown,
    /// Surely not applied.
    Refused,
    /// Acknowledged.
    Acknowledged,
    /// Acknowledged, and a delete was sent; whether that was applied is not known (yet).
    Deleting,
    /// Acknowledged, and its delete was acknowledged below majority.
    DeletedWeakly,
    /// Acknowledged, and its delete was acknowledged by a majority.
    Deleted,
}

impl State {
    const fn of_bits(bits: u64) -> Self {
        match bits & 0b11 {
            0b00 => Self::NeverSent,
            0b01 => Self::Unknown,
            0b10 => Self::Refused,
            _ => Self::Acknowledged,
        }
    }

    const fn of_delete(delete: Delete) -> Self {
        match delete {
            Delete::None => Self::Acknowledged,
            Delete::Unknown => Self::Deleting,
            Delete::Weak => Self::DeletedWeakly,
            Delete::Majority => Self::Deleted,
        }
    }
}

#[derive(Debug)]
struct Block {
    majority: bool,
    words: Box<[AtomicU64]>,
    deletes: Deletes,
}

type Blocks<'a> = RwLockReadGuard<'a, Vec<Block>>;

/// The ledger of one run. Shared by all workers; every call is a few atomic operations.
#[derive(Debug)]
pub struct Ledger {
    /// What stands in the database for key 0: for people only.
    first: u64,
    loaded: u64,
    /// By block of loaded keys; made at the first delete of one.
    loaded_deletes: OnceLock<Box<[Deletes]>>,
    blocks: RwLock<Vec<Block>>,
    /// One more than the highest fresh key that was acknowledged; `loaded` when none was.
    high_water: AtomicU64,
    stale_reads: AtomicU64,
    corrupt_reads: AtomicU64,
    read_back: AtomicU64,
    changed: AtomicBool,
}

impl Ledger {
    /// A ledger over `loaded` acknowledged documents.
    #[must_use]
    pub fn new(loaded: u64) -> Self {
        Self {
            first: 0,
            loaded,
            loaded_deletes: OnceLock::new(),
            blocks: RwLock::new(Vec::new()),
            high_water: AtomicU64::new(loaded),
            stale_reads: AtomicU64::new(0),
            corrupt_reads: AtomicU64::new(0),
            read_back: AtomicU64::new(0),
            changed: AtomicBool::new(false),
        }
    }

    /// The same with other names for its keys: key 0 is shown as `first`.
    #[must_use]
    pub fn shown_from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// A key as it stands in the database.
    #[must_use]
    pub fn shown(&self, key: u64) -> String {
        (u128::from(self.first) + u128::from(key)).to_string()
    }

    /// Number of loaded documents.
    #[must_use]
    pub const fn loaded(&self) -> u64 {
        self.loaded
    }

    /// One more than the largest key that may exist.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.loaded + self.read_blocks().len() as u64 * BLOCK_KEYS
    }

    /// Keys that may be asked for lie below this; not all of them are acknowledged.
    #[must_use]
    pub fn high_water(&self) -> u64 {
        self.high_water.load(Ordering::Relaxed)
    }

    /// A key was acknowledged.
    pub fn acknowledge(&self, key: u64) {
        self.mark(key, |word, shift| {
            word.fetch_or(0b11 << shift, Ordering::Relaxed);
        });
        self.high_water.fetch_max(key + 1, Ordering::Relaxed);
    }

    /// A key was surely not written.
    pub fn refuse(&self, key: u64) {
        self.mark(key, |word, shift| {
            // Sent (01) becomes refused (10); anything else stays.
            let turn = |w: u64| ((w >> shift) & 0b11 == 0b01).then_some(w ^ (0b11 << shift));
            let _unchanged = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turn);
        });
    }

    /// Takes an acknowledged key for a delete, before that is sent; false: it is not to be deleted, or
    /// somebody else does. Whoever got it must settle it, unless nobody knows what became of it.
    #[must_use]
    pub fn claim_delete(&self, key: u64) -> bool {
        let blocks = self.read_blocks();
        match key.checked_sub(self.loaded) {
            None => {
                let count = self.loaded.div_ceil(BLOCK_KEYS);
                let all =
                    self.loaded_deletes.get_or_init(|| (0..count).map(|_| Deletes::default()).collect());
                index_of(key).and_then(|i| all.get(i)).is_some_and(|deletes| deletes.claim(key % BLOCK_KEYS))
            }
            Some(at) => index_of(at).and_then(|i| blocks.get(i)).is_some_and(|block| {
                block.state(at) == State::Acknowledged && block.deletes.claim(at % BLOCK_KEYS)
            }),
        }
    }

    /// Books what became of a delete that was claimed.
    pub fn settle_delete(&self, key: u64, delete: Delete) {
        let blocks = self.read_blocks();
        if let Some((deletes, at)) = self.deletes_of(&blocks, key) {
            deletes.settle(at, delete);
        }
    }

    /// What is known of a key.
    #[must_use]
    pub fn state(&self, key: u64) -> State {
        let Some(at) = key.checked_sub(self.loaded) else {
            let deletes = self.loaded_deletes.get().and_then(|all| all.get(index_of(key)?));
            return State::of_delete(deletes.map_or(Delete::None, |deletes| deletes.get(key % BLOCK_KEYS)));
        };
        let blocks = self.read_blocks();
        index_of(at).and_then(|i| blocks.get(i)).map_or(State::NeverSent, |block| block.state(at))
    }

    /// The first acknowledged key from `key` on of which no delete was sent, if one comes within
    /// 262,144 keys.
    #[must_use]
    pub fn next_acknowledged(&self, key: u64) -> Option<u64> {
        let blocks = self.read_blocks();
        let all = self.loaded + blocks.len() as u64 * BLOCK_KEYS;
        let end = key.saturating_add(SEARCH_KEYS).min(all);
        let mut at = key;
        while at < end {
            let loaded = at < self.loaded;
            // Loaded and fresh keys have words of their own.
            let within = (if loaded { at } else { at - self.loaded }) % KEYS_PER_WORD;
            let rest = self.alive(&blocks, at) >> (2 * within);
            let word_end = at - within + KEYS_PER_WORD;
            let word_end = if loaded { word_end.min(self.loaded) } else { word_end };
            let found = at + u64::from(rest.trailing_zeros() / 2);
            if rest != 0 && found < word_end {
                return (found < end).then_some(found);
            }
            at = word_end;
        }
        None
    }

    /// The acknowledged keys of the word of `key` of which no delete was sent: bit 0 of their two bits.
    fn alive(&self, blocks: &Blocks<'_>, key: u64) -> u64 {
        let deleted = self.deletes_of(blocks, key).map_or(0, |(deletes, at)| deletes.mask(at));
        let Some(at) = key.checked_sub(self.loaded) else {
            return LOW_BITS & !deleted;
        };
        let block = index_of(at).and_then(|i| blocks.get(i));
        let bits = block.map_or(0, |block| block.words[place(at).0].load(Ordering::Relaxed));
        bits & (bits >> 1) & LOW_BITS & !deleted
    }

    /// The deletes of a key's block, and the key's place in it.
    fn deletes_of<'a>(&'a self, blocks: &'a Blocks<'_>, key: u64) -> Option<(&'a Deletes, u64)> {
        let at = key.checked_sub(self.loaded);
        let deletes = match at {
            None => self.loaded_deletes.get()?.get(index_of(key)?)?,
            Some(at) => &blocks.get(index_of(at)?)?.deletes,
        };
        Some((deletes, at.unwrap_or(key) % BLOCK_KEYS))
    }

    /// Whether the loss of this key would be a violation. The load ends with a majority barrier.
    #[must_use]
    pub fn is_majority(&self, key: u64) -> bool {
        if key < self.loaded {
            return true;
        }
        let blocks = self.read_blocks();
        let index = index_of(key - self.loaded);
        index.and_then(|i| blocks.get(i)).is_some_and(|block| block.majority)
    }

    /// Documents that were acknowledged, loaded and deleted ones included.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let blocks = self.read_blocks();
        let words = blocks.iter().flat_map(|b| b.words.iter());
        let inserted: u64 = words
            .map(|word| {
                let bits = word.load(Ordering::Relaxed);
                u64::from((bits & (bits >> 1) & LOW_BITS).count_ones())
            })
            .sum();
        self.loaded + inserted
    }

    /// A read of an acknowledged key found nothing. Whether it is lost, the final check decides.
    pub fn note_stale_read(&self) {
        self.stale_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// A read returned something that was never written under its key.
    pub fn note_corrupt_read(&self) {
        self.corrupt_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// So many inserts were answered with "duplicate key", and their own document was found: the driver had
    /// sent them twice.
    pub fn note_read_back(&self, documents: u64) {
        self.read_back.fetch_add(documents, Ordering::Relaxed);
    }

    /// From now on documents may have other versions than the one that was inserted.
    pub fn note_change(&self) {
        // Mostly it is known already, and reading does not take the cache line from others.
        if !self.changed.load(Ordering::Acquire) {
            self.changed.store(true, Ordering::Release);
        }
    }

    /// Whether this run may have changed a document.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Inserts that were acknowledged by reading them back.
    #[must_use]
    pub fn read_back(&self) -> u64 {
        self.read_back.load(Ordering::Relaxed)
    }

    /// Reads that found nothing under an acknowledged key.
    #[must_use]
    pub fn stale_reads(&self) -> u64 {
        self.stale_reads.load(Ordering::Relaxed)
    }

    /// Reads with wrong content.
    #[must_use]
    pub fn corrupt_reads(&self) -> u64 {
        self.corrupt_reads.load(Ordering::Relaxed)
    }

    /// First key of `count` new blocks in a row.
    fn new_blocks(&self, majority: bool, count: u64) -> u64 {
        let fresh: Vec<_> = (0..count)
            .map(|_| Block {
                majority,
                words: words(BLOCK_KEYS / KEYS_PER_WORD),
                deletes: Deletes::default(),
            })
            .collect();
        let mut blocks = self.blocks.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(blocks.len() < MAX_BLOCKS, "the ledger is full: 2^40 keys");
        let first = self.loaded + blocks.len() as u64 * BLOCK_KEYS;
        blocks.extend(fresh);
        first
    }

    fn mark_sent(&self, key: u64) {
        self.mark(key, |word, shift| {
            word.fetch_or(0b01 << shift, Ordering::Relaxed);
        });
    }

    fn mark(&self, key: u64, change: impl FnOnce(&AtomicU64, u64)) {
        let Some(at) = key.checked_sub(self.loaded) else {
            return;
        };
        let blocks = self.read_blocks();
        if let Some(block) = index_of(at).and_then(|i| blocks.get(i)) {
            let (word, shift) = place(at);
            change(&block.words[word], shift);
        }
    }

    fn read_blocks(&self) -> Blocks<'_> {
        self.blocks.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Block {
    fn state(&self, at: u64) -> State {
        let (word, shift) = place(at);
        match State::of_bits(self.words[word].load(Ordering::Relaxed) >> shift) {
            State::Acknowledged => State::of_delete(self.deletes.get(at % BLOCK_KEYS)),
            other => other,
        }
    }
}

fn words(count: u64) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Number of the block of the key at this place.
fn index_of(at: u64) -> Option<usize> {
    usize::try_from(at / BLOCK_KEYS).ok()
}

/// Word within its block, and the shift within the word.
const fn place(at: u64) -> (usize, u64) {
    let within = at % BLOCK_KEYS;
    ((within / KEYS_PER_WORD) as usize, (within % KEYS_PER_WORD) * 2)
}

#[cfg(test)]
mod tests;
