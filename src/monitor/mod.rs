//! Watches from the side, on the run's clock: who takes writes, and how the tester itself fares.

mod cores;
mod own;
mod tester;
mod topology;

pub use cores::cores;
pub use own::{Queues, seconds};
pub use tester::{Usage, tester, usage};
pub use topology::topology;
