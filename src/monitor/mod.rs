//! Watches from the side, on the run's clock: who takes writes, and how the tester itself fares.

mod tester;
mod topology;

pub use tester::{Usage, tester, usage};
pub use topology::topology;
