//! What of the needs of faults this machine does not have.

use nix::unistd::geteuid;

use super::cgroup::{Controller, Hierarchy};
use super::clock;
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
            Self::ClockShim => clock::missing(),
            Self::Processes
            | Self::Managed
            | Self::ReplicaSet
            | Self::ThreeMembers
            | Self::Sharded
            | Self::Proxies
            | Self::TestCommands => None,
        }
    }
}

fn root() -> Option<String> {
    (!geteuid().is_root()).then(|| "not root; run with sudo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_what_no_machine_can_lack_is_not() {
        assert_eq!(Need::Root.missing().is_none(), geteuid().is_root());
        let groups = [
            (Need::CgroupIo, Controller::Io),
            (Need::CgroupMemory, Controller::Memory),
            (Need::CgroupCpu, Controller::Cpu),
        ];
        for (need, controller) in groups {
            assert_eq!(need.missing().is_none(), Hierarchy::find(controller).is_ok(), "{need:?}");
        }
        assert_eq!(Need::ReplicaSet.missing(), None);
        // Tests are built where there is a C compiler: that of the linker.
        assert_eq!(Need::ClockShim.missing(), None);
    }
}
