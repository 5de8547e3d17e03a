//! Faults of what a server lives on: its disk, memory, processor, descriptors and clock.

mod cgroup;
mod cold_cache;
mod confined;
mod cpu_pressure;
mod device;
mod memory_pressure;
mod missing;
pub(crate) mod page_cache;
mod slow_disk;

pub use cold_cache::COLD_CACHE;
pub use cpu_pressure::CPU_PRESSURE;
pub use memory_pressure::MEMORY_PRESSURE;
pub use slow_disk::SLOW_DISK;
