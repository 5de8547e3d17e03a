//! Faults of what a server lives on: its disk, memory, processor, descriptors and clock.

mod cgroup;
pub mod clock;
mod clock_skew;
mod cold_cache;
mod confined;
mod cpu_pressure;
mod device;
mod disk_full;
mod fd_limit;
mod memory_pressure;
mod missing;
pub(crate) mod page_cache;
mod slow_disk;
mod stall_disk;

pub use clock_skew::CLOCK_SKEW;
pub use cold_cache::COLD_CACHE;
pub use cpu_pressure::CPU_PRESSURE;
pub use disk_full::DISK_FULL;
pub use fd_limit::FD_LIMIT;
pub use memory_pressure::MEMORY_PRESSURE;
pub use slow_disk::SLOW_DISK;
pub use stall_disk::{STALL_DISK, thaw};
