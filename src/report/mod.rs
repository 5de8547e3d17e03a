//! Reports: the data and one format per file.

pub mod data;
