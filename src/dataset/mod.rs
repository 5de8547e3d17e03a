//! The test data: what a document holds, and which document an operation picks.
//!
//! Both are pure functions of seeds and numbers, so that a verifier can tell every byte that must
//! be in the database without having stored it. Nothing here touches a server, a file or the clock.

pub mod distribution;
pub mod document;
mod fixed;
mod permutation;
mod place;
mod random;
mod sequence;
mod tree;
mod value;
mod zipf;

pub use distribution::{Chooser, ChooserError};
pub use document::{ContentError, Documents};
pub use sequence::Sequence;

/// The `_id` of a key: keys are stored as signed integers; 2^63 of them are enough.
#[must_use]
pub fn id(key: u64) -> i64 {
    i64::try_from(key).unwrap_or(i64::MAX)
}
