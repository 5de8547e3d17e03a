//! Faults of processes.

mod end;
mod pause;
#[cfg(test)]
mod tests;

pub use end::{KILL, STOP};
pub use pause::PAUSE;
