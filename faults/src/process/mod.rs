//! Faults of processes.

mod crash_loop;
mod end;
mod pause;
mod restart_with;
mod rolling;
#[cfg(test)]
mod tests;
mod wipe;

pub use crash_loop::CRASH_LOOP;
pub(crate) use end::back;
pub use end::{KILL, KILL_ALL, MAJORITY_LOSS, STOP};
pub use pause::PAUSE;
pub use restart_with::RESTART_WITH;
pub use rolling::ROLLING_RESTART;
pub use wipe::WIPE;
