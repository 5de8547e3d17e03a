//! A fixed shuffling of the numbers below n that needs no memory.

use super::random::mix;

/// The first four outputs of SplitMix64 from state 0: numbers with nothing up their sleeve.
const ROUND_KEYS: [u64; 4] =
    [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f, 0xf88b_b8a8_724c_81ec];

/// A bijection of `[0, n)`.
///
/// A four-round Feistel network is a bijection of `[0, 4^k)`, for the smallest such domain that
/// holds n; a result outside `[0, n)` is put in again until it falls inside ("cycle walking",
/// Black & Rogaway, "Ciphers with arbitrary finite domains", 2002): fewer than four turns on
/// average. While n grows inside the same domain, almost every number stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permutation {
    n: u64,
    half_bits: u32,
}

impl Permutation {
    /// The bijection of `[0, n)`; n is at least 1.
    pub(super) fn new(n: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self { n, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Where `x`, below n, is put.
    pub(super) fn place(&self, mut x: u64) -> u64 {
        debug_assert!(x < self.n, "{x} is not below {}", self.n);
        loop {
            x = self.shuffle(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn shuffle(&self, x: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in ROUND_KEYS {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_is_taken_once(n in 1_u64..5_000) {
            let permutation = Permutation::new(n);
            let places: BTreeSet<u64> = (0..n).map(|x| permutation.place(x)).collect();
            prop_assert_eq!(places, (0..n).collect::<BTreeSet<u64>>());
        }

        #[test]
        fn large_domains_keep_their_bounds_and_have_no_collisions(n in 1_000_u64.., from: u64) {
            let permutation = Permutation::new(n);
            let inputs: BTreeSet<u64> = (0..200).map(|i| from.wrapping_add(i) % n).collect();
            let places: BTreeSet<u64> = inputs.iter().map(|x| permutation.place(*x)).collect();
            prop_assert_eq!(places.len(), inputs.len());
            prop_assert!(places.iter().all(|place| *place < n));
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let permutation = Permutation::new(1_000_000);
        let tenths: BTreeSet<u64> = (0..50).map(|x| permutation.place(x) / 100_000).collect();
        assert_eq!(tenths.len(), 10);
    }

    #[test]
    fn growth_moves_hardly_anything() {
        let (before, after) = (Permutation::new(500_000), Permutation::new(501_000));
        let moved = (0..1_000).filter(|x| before.place(*x) != after.place(*x)).count();
        assert!(moved < 10, "{moved}");
    }
}
