//! What was acknowledged, key by key, in bounded memory: two bits an inserted key.
//!
//! Loaded keys (0 to `loaded` - 1) are acknowledged as a whole. Fresh keys are handed out in blocks,
//! each block to one workload, so that a key's write concern is known without being stored.

mod verify;

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub use verify::{Deployment, verify};

/// Keys per block. Small enough that an idle workload leaves few holes.
pub const BLOCK_KEYS: u64 = 4096;
const KEYS_PER_WORD: u64 = 32;
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
}

#[derive(Debug)]
struct Block {
    majority: bool,
    words: Box<[AtomicU64]>,
}

/// The ledger of one run. Shared by all workers; every call is a few atomic operations.
#[derive(Debug)]
pub struct Ledger {
    loaded: u64,
    blocks: RwLock<Vec<Block>>,
    /// One more than the highest fresh key that was acknowledged; `loaded` when none was.
    high_water: AtomicU64,
    stale_reads: AtomicU64,
    corrupt_reads: AtomicU64,
}

/// The fresh keys of one workload: takes blocks from the ledger as it goes.
#[derive(Debug)]
pub struct KeySource {
    majority: bool,
    next: u64,
    end: u64,
}

impl KeySource {
    /// For a workload whose write concern is, or is not, a majority.
    #[must_use]
    pub const fn new(majority: bool) -> Self {
        Self { majority, next: 0, end: 0 }
    }

    /// The first of `count` consecutive fresh keys, marked as sent. Keys left over at the end of a block
    /// stay "never sent".
    pub fn take(&mut self, ledger: &Ledger, count: u64) -> u64 {
        if self.next + count > self.end {
            let blocks = count.div_ceil(BLOCK_KEYS);
            self.next = ledger.new_blocks(self.majority, blocks);
            self.end = self.next + blocks * BLOCK_KEYS;
        }
        let first = self.next;
        self.next += count;
        for key in first..self.next {
            ledger.mark(key, |word, shift| {
                word.fetch_or(0b01 << shift, Ordering::Relaxed);
            });
        }
        first
    }
}

impl Ledger {
    /// A ledger over `loaded` acknowledged documents.
    #[must_use]
    pub fn new(loaded: u64) -> Self {
        Self {
            loaded,
            blocks: RwLock::new(Vec::new()),
            high_water: AtomicU64::new(loaded),
            stale_reads: AtomicU64::new(0),
            corrupt_reads: AtomicU64::new(0),
        }
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

    /// What is known of a key.
    #[must_use]
    pub fn state(&self, key: u64) -> State {
        if key < self.loaded {
            return State::Acknowledged;
        }
        let at = key - self.loaded;
        let blocks = self.read_blocks();
        let Some(block) = usize::try_from(at / BLOCK_KEYS).ok().and_then(|i| blocks.get(i)) else {
            return State::NeverSent;
        };
        let (word, shift) = place(at);
        State::of_bits(block.words[word].load(Ordering::Relaxed) >> shift)
    }

    /// The first acknowledged key from `key` on, if one comes within a block's length.
    #[must_use]
    pub fn next_acknowledged(&self, key: u64) -> Option<u64> {
        (key..key + BLOCK_KEYS).find(|key| self.state(*key) == State::Acknowledged)
    }

    /// Whether the loss of this key would be a violation. The load ends with a majority barrier.
    #[must_use]
    pub fn is_majority(&self, key: u64) -> bool {
        if key < self.loaded {
            return true;
        }
        let blocks = self.read_blocks();
        let index = usize::try_from((key - self.loaded) / BLOCK_KEYS);
        index.ok().and_then(|i| blocks.get(i)).is_some_and(|block| block.majority)
    }

    /// Acknowledged documents, loaded ones included.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        let blocks = self.read_blocks();
        let words = blocks.iter().flat_map(|b| b.words.iter());
        let inserted: u64 = words
            .map(|word| {
                let bits = word.load(Ordering::Relaxed);
                u64::from((bits & (bits >> 1) & 0x5555_5555_5555_5555).count_ones())
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
        let words = || (0..BLOCK_KEYS / KEYS_PER_WORD).map(|_| AtomicU64::new(0)).collect();
        let fresh: Vec<_> = (0..count).map(|_| Block { majority, words: words() }).collect();
        let mut blocks = self.blocks.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(blocks.len() < MAX_BLOCKS, "the ledger is full: 2^40 keys");
        let first = self.loaded + blocks.len() as u64 * BLOCK_KEYS;
        blocks.extend(fresh);
        first
    }

    fn mark(&self, key: u64, change: impl FnOnce(&AtomicU64, u64)) {
        let Some(at) = key.checked_sub(self.loaded) else {
            return;
        };
        let blocks = self.read_blocks();
        if let Some(block) = usize::try_from(at / BLOCK_KEYS).ok().and_then(|i| blocks.get(i)) {
            let (word, shift) = place(at);
            change(&block.words[word], shift);
        }
    }

    fn read_blocks(&self) -> std::sync::RwLockReadGuard<'_, Vec<Block>> {
        self.blocks.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Word within its block, and the shift within the word.
const fn place(at: u64) -> (usize, u64) {
    let within = at % BLOCK_KEYS;
    ((within / KEYS_PER_WORD) as usize, (within % KEYS_PER_WORD) * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_from_never_sent_to_one_of_three_ends() {
        let ledger = Ledger::new(10);
        let mut keys = KeySource::new(true);
        let first = keys.take(&ledger, 3);
        assert_eq!(first, 10);
        ledger.acknowledge(first);
        ledger.refuse(first + 1);
        let states: Vec<_> = (first..first + 4).map(|k| ledger.state(k)).collect();
        assert_eq!(states, [State::Acknowledged, State::Refused, State::Unknown, State::NeverSent]);
        assert_eq!(ledger.state(9), State::Acknowledged);
        assert_eq!((ledger.next_acknowledged(9), ledger.next_acknowledged(11)), (Some(9), None));
        assert_eq!(ledger.acknowledged(), 11);
        ledger.refuse(first);
        assert_eq!(ledger.state(first), State::Acknowledged, "an acknowledgement is never taken back");
    }

    #[test]
    fn workloads_of_different_write_concern_never_share_a_block() {
        let ledger = Ledger::new(0);
        let (mut strong, mut weak) = (KeySource::new(true), KeySource::new(false));
        let a: Vec<_> = (0..5_000).map(|_| strong.take(&ledger, 1)).collect();
        let b: Vec<_> = (0..5_000).map(|_| weak.take(&ledger, 1)).collect();
        assert!(a.iter().all(|k| ledger.is_majority(*k)));
        assert!(b.iter().all(|k| !ledger.is_majority(*k)));
        let mut all = [a, b].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000, "no key is handed out twice");
    }

    #[test]
    fn keys_beyond_thirty_two_bits_are_kept_apart() {
        let ledger = Ledger::new(4_294_967_290);
        let mut keys = KeySource::new(true);
        let taken: Vec<_> = (0..20).map(|_| keys.take(&ledger, 1)).collect();
        assert_eq!(taken.first(), Some(&4_294_967_290));
        assert_eq!(taken.last(), Some(&4_294_967_309));
        ledger.acknowledge(4_294_967_309);
        assert_eq!(ledger.state(4_294_967_309), State::Acknowledged);
        assert_eq!(ledger.acknowledged(), 4_294_967_291);
    }

    #[test]
    fn a_batch_never_crosses_a_block() {
        let ledger = Ledger::new(0);
        let mut keys = KeySource::new(true);
        keys.take(&ledger, 4_000);
        assert_eq!(keys.take(&ledger, 200), BLOCK_KEYS);
        assert_eq!(ledger.end(), 2 * BLOCK_KEYS);
        let large = keys.take(&ledger, 3 * BLOCK_KEYS - 1);
        assert_eq!(large, 2 * BLOCK_KEYS, "a batch that is larger than a block gets blocks in a row");
        assert_eq!(ledger.state(large + 3 * BLOCK_KEYS - 2), State::Unknown);
    }
}
