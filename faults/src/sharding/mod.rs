//! Faults of a sharded cluster: chunks that move, the balancer, splits. Everything is asked of the router in the
//! words of a mongos, so a cluster of somebody else is the same to them.

mod balancer;
mod move_chunks;
mod remove_shard;
mod routing;
mod split;

pub use balancer::BALANCER;
pub use move_chunks::MOVE_CHUNKS;
pub use remove_shard::REMOVE_SHARD;
pub use split::SPLIT;
