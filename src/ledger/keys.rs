//! Where the keys of new documents come from.

use super::{BLOCK_KEYS, Ledger};

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
            ledger.mark_sent(key);
        }
        first
    }
}
