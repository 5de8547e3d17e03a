//! What became of the deletes of one block of keys: two more bits a key, in blocks in which something was
//! deleted. Any other block costs the place of a pointer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BLOCK_KEYS, KEYS_PER_WORD, LOW_BITS, place, words};

/// What is known of the delete of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delete {
    /// None was sent, or it was surely not applied.
    None,
    /// Sent; whether it was applied is not known (yet).
    Unknown,
    /// Acknowledged by less than a majority: a rollback may bring the document back.
    Weak,
    /// Acknowledged by a majority.
    Majority,
}

impl Delete {
    const fn of_bits(bits: u64) -> Self {
        match bits & 0b11 {
            0b00 => Self::None,
            0b01 => Self::Unknown,
            0b10 => Self::Weak,
            _ => Self::Majority,
        }
    }

    const fn bits(self) -> u64 {
        match self {
            Self::None => 0b00,
            Self::Unknown => 0b01,
            Self::Weak => 0b10,
            Self::Majority => 0b11,
        }
    }
}

/// The deletes of one block. `at` is the place of a key in its block.
#[derive(Debug, Default)]
pub(super) struct Deletes(OnceLock<Box<[AtomicU64]>>);

impl Deletes {
    pub(super) fn get(&self, at: u64) -> Delete {
        let (word, shift) = place(at);
        self.0
            .get()
            .map_or(Delete::None, |words| Delete::of_bits(words[word].load(Ordering::Acquire) >> shift))
    }

    /// Keys of the word of `at` of which a delete was sent: bit 0 of their two bits.
    pub(super) fn mask(&self, at: u64) -> u64 {
        let bits = self.0.get().map_or(0, |words| words[place(at).0].load(Ordering::Acquire));
        (bits | bits >> 1) & LOW_BITS
    }

    /// Takes a key for a delete; false: somebody else has.
    pub(super) fn claim(&self, at: u64) -> bool {
        self.0.get_or_init(|| words(BLOCK_KEYS / KEYS_PER_WORD));
        self.turn(at, Delete::None, Delete::Unknown)
    }

    /// Books what became of a delete that was claimed. What was settled stays.
    pub(super) fn settle(&self, at: u64, to: Delete) {
        self.turn(at, Delete::Unknown, to);
    }

    fn turn(&self, at: u64, from: Delete, to: Delete) -> bool {
        let Some(words) = self.0.get() else {
            return false;
        };
        let (word, shift) = place(at);
        let turn = |w: u64| {
            let other = w & !(0b11 << shift);
            ((w >> shift) & 0b11 == from.bits()).then_some(other | to.bits() << shift)
        };
        words[word].fetch_update(Ordering::AcqRel, Ordering::Acquire, turn).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_claimed_once_and_what_is_settled_stays() {
        let deletes = Deletes::default();
        assert_eq!((deletes.get(4_095), deletes.mask(4_095)), (Delete::None, 0));
        assert!(deletes.claim(33));
        assert!(!deletes.claim(33), "somebody deletes it already");
        assert_eq!(
            (deletes.get(33), deletes.get(32), deletes.get(34)),
            (Delete::Unknown, Delete::None, Delete::None)
        );
        assert_eq!(deletes.mask(40), 0b100, "bit 0 of the second key of its word");
        deletes.settle(33, Delete::Majority);
        deletes.settle(33, Delete::None);
        assert_eq!(deletes.get(33), Delete::Majority);
        assert!(!deletes.claim(33), "a key is deleted once");
    }

    #[test]
    fn a_refused_delete_leaves_the_key_to_the_next_one() {
        let deletes = Deletes::default();
        assert!(deletes.claim(7));
        deletes.settle(7, Delete::None);
        assert_eq!((deletes.get(7), deletes.mask(7)), (Delete::None, 0));
        assert!(deletes.claim(7));
    }

    proptest! {
        /// The same as a map that is too large for real use, and no key disturbs its neighbours.
        #[test]
        fn it_keeps_what_a_map_would_keep(
            steps in prop::collection::vec((0..BLOCK_KEYS, 0_u8..4), 0..300),
        ) {
            let deletes = Deletes::default();
            let mut model: BTreeMap<u64, Delete> = BTreeMap::new();
            for (key, step) in steps {
                let now = model.get(&key).copied().unwrap_or(Delete::None);
                if step == 0 {
                    prop_assert_eq!(deletes.claim(key), now == Delete::None);
                    if now == Delete::None {
                        model.insert(key, Delete::Unknown);
                    }
                } else {
                    let to = [Delete::None, Delete::Weak, Delete::Majority][usize::from(step) - 1];
                    deletes.settle(key, to);
                    if now == Delete::Unknown {
                        model.insert(key, to);
                    }
                }
            }
            for key in 0..BLOCK_KEYS {
                let expected = model.get(&key).copied().unwrap_or(Delete::None);
                prop_assert_eq!(deletes.get(key), expected);
                let bit = deletes.mask(key) >> place(key).1 & 1;
                prop_assert_eq!(bit == 1, expected != Delete::None);
            }
        }
    }
}
