//! The one source of chance that no seed decides: drawn seeds, and ports.

use std::hash::{BuildHasher, RandomState};

/// A number that differs from call to call. Below 2^32: easy to type again, and any JSON
/// reader keeps it.
#[must_use]
pub fn draw() -> u64 {
    // The standard library seeds each hasher from the operating system.
    RandomState::new().hash_one(std::process::id()) >> 32
}
