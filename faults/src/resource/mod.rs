//! Faults of what a server lives on: its disk, memory, processor, descriptors and clock.

mod cold_cache;
pub mod page_cache;

pub use cold_cache::COLD_CACHE;
