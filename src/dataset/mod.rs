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
