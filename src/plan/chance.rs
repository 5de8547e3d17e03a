//! Chance that the seed decides: independent streams, and what is drawn from them.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::scenario::Choice;

/// The stream of one concern; see [`stream_seed`].
pub(super) fn stream(seed: u64, concern: &str, index: u64) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(stream_seed(seed, concern, index))
}

/// Seed of an own random stream for one concern (`"faults"`, `"worker"`) and one of its members (the
/// number of the worker), to be used with `ChaCha8Rng::from_seed`.
///
/// Streams of different concerns, members or seeds share nothing, so that another worker, or another
/// draw in one of them, changes none of the others. The layout is fixed: seed and index in little
/// endian, then the 128-bit FNV-1a hash of the concern's name.
#[must_use]
pub fn stream_seed(seed: u64, concern: &str, index: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&index.to_le_bytes());
    bytes[16..].copy_from_slice(&fnv1a_128(concern.as_bytes()).to_le_bytes());
    bytes
}

/// Published constants of the hash.
pub(super) fn fnv1a_128(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// Above 0 and up to 1.
fn share(stream: &mut ChaCha8Rng) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let drawn = ((stream.next_u64() >> 11) + 1) as f64;
    drawn / (1_u64 << 53) as f64
}

/// The next gap of a Poisson process, in whole milliseconds: beyond them, machines may reckon differently.
pub(super) fn gap(stream: &mut ChaCha8Rng, mean: Duration) -> Duration {
    let gap_ms = -share(stream).ln() * mean.as_secs_f64() * 1e3;
    // A saturating cast: a mean of centuries has no gap that fits.
    Duration::from_millis(gap_ms.round() as u64)
}

/// One of the choices, by their weights. One draw, whatever the choices are.
pub(super) fn choose<'a>(stream: &mut ChaCha8Rng, choices: &'a [Choice]) -> &'a Choice {
    let all: u64 = choices.iter().map(|choice| u64::from(choice.weight)).sum();
    let mut left = stream.next_u64() % all.max(1);
    for choice in choices {
        match left.checked_sub(u64::from(choice.weight)) {
            Some(rest) => left = rest,
            None => return choice,
        }
    }
    // Weights are at least 1, so this is not reached.
    &choices[0]
}
