//! Reports: the data, and one format per file.

pub mod data;
pub mod json;
pub mod plan;
pub mod scaling;
pub mod text;
mod units;
pub mod ycsb;

pub use units::{bytes, count, duration_ms, duration_s, duration_us, per_second};

use crate::scenario::OpKind;

/// A mix as people write it: `read 95, update 5`; a single kind is just its name.
#[must_use]
pub fn mix_in_words(mix: &[(OpKind, f64)]) -> String {
    match mix {
        [(kind, _)] => kind.word().into(),
        many => many
            .iter()
            .map(|(kind, weight)| format!("{} {weight}", kind.word()))
            .collect::<Vec<_>>()
            .join(", "),
    }
}
