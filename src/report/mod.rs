//! Reports: the data, and one format per file.

pub mod coverage;
pub mod data;
pub mod json;
pub mod migrations;
pub mod plan;
pub mod scaling;
pub mod text;
mod units;
pub mod ycsb;

pub use units::{bytes, count, duration_ms, duration_s, duration_us, per_second};

use crate::scenario::Op;

/// A mix as people write it: `read 95, update 5`; a single kind is just its name.
#[must_use]
pub fn mix_in_words(mix: &[(Op, f64)]) -> String {
    match mix {
        [(op, _)] => op.to_string(),
        many => many.iter().map(|(op, weight)| format!("{op} {weight}")).collect::<Vec<_>>().join(", "),
    }
}
