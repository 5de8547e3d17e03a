//! Faults of replication: who leads, who may, who is a member, who is behind.

mod config;
mod freeze;
mod lag;
mod oplog;
mod reconfig;
mod remove;
mod stepdown;
#[cfg(test)]
mod tests;

pub(crate) use config::number;
pub use freeze::FREEZE;
pub use lag::LAG;
pub(crate) use lag::lag_s;
pub use oplog::SMALL_OPLOG;
pub use reconfig::RECONFIG;
pub use remove::REMOVE_MEMBER;
pub use stepdown::STEPDOWN;
