//! The one source of chance that no seed decides: drawn seeds, and ports.

use std::hash::{BuildHasher, RandomState};

/// A number that differs from call to call. At most 2^53 - 1, so that any JSON reader keeps it.
#[must_use]
pub fn draw() -> u64 {
    // The standard library seeds each hasher from the operating system.
    RandomState::new().hash_one(std::process::id()) >> 11
}
