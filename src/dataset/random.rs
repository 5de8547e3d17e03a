//! SplitMix64: the random numbers of the documents.
//!
//! Chosen because it is a dozen operations of plain 64-bit arithmetic, the same on every machine
//! and in every version of every library, needs no set-up per document, and yields eight bytes in
//! about a nanosecond. It is not meant to be unpredictable.
//!
//! Algorithm and constants: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014, with the mixing function of David Stafford ("Mix13"), as in
//! <https://prng.di.unimi.it/splitmix64.c>.

/// Distance between two states: the odd integer next to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of the 64-bit numbers in which every input bit changes about half of the output.
pub(super) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One stream of numbers.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream that belongs to these words. Words that differ in one place only never give the
    /// same stream.
    pub(super) fn of(words: [u64; 3]) -> Self {
        Self(words.iter().fold(0_u64, |state, word| mix(state.wrapping_add(GAMMA) ^ word)))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Evenly in `[0, below)`, by multiplication (bias below 2^-24 for ranges under 2^40).
    pub(super) fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }

    /// Evenly in `[0, 1)`, a multiple of 2^-53.
    pub(super) fn unit(&mut self) -> f64 {
        unit(self.next())
    }
}

/// The upper 53 of 64 random bits as a number in `[0, 1)`.
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_program() {
        let mut random = SplitMix64(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.next(), random.next(), random.next()], expected);
    }
}
