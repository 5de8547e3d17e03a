//! Faults of a node's process.

mod end;

pub use end::{End, Ending};

#[cfg(test)]
mod tests;
