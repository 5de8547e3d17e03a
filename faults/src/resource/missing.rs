//! What of the needs of faults this machine does not have.

use nix::unistd::geteuid;

use super::cgroup::{Controller, Hierarchy};
use crate::catalog::Need;

impl Need {
    /// What is missing on this machine, and what to do; `None`: it is here, or no matter of the machine.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Root => root(),
            Self::CgroupIo => Hierarchy::find(Controller::Io).err(),
            Self::CgroupMemory => Hierarchy::find(Controller::Memory).err(),
            Self::CgroupCpu => Hierarchy::find(Controller::Cpu).err(),
            Self::ClockShim
            | Self::Processes
            | Self::Managed
            | Self::ReplicaSet
            | Self::ThreeMembers
            | Self::Proxies
            | Self::TestCommands => None,
        }
    }
}

fn root() -> Option<String> {
    (!geteuid().is_root()).then(|| "not root; run with sudo".into())
}
