//! The one list of fault kinds. Each kind describes itself in its own file; here it is only named.

use crate::{Fault, Parameter, Parameters, hook, network, process, replication, resource, server, sharding};

/// One kind of fault, for people, for the checker and for whoever builds it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Key in the scenario file.
    pub name: &'static str,
    /// Group in the table.
    pub group: &'static str,
    /// One line: what it does.
    pub does: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What must be there for it to work.
    pub needs: &'static [Need],
    /// Makes the fault; an error says which parameter does not fit.
    pub build: fn(&Parameters) -> Result<Box<dyn Fault>, String>,
}

/// What a fault needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its processes must be within reach: a managed cluster, or servers of this user on this machine.
    Processes,
    /// The tool must have started the servers itself.
    Managed,
    /// A replica set.
    ReplicaSet,
    /// A replica set of at least three members.
    ThreeMembers,
    /// The tool's own proxies between everybody and every member (a managed replica set has them when a
    /// scenario asks for a fault that needs them).
    Proxies,
    /// Servers that were started with test commands (the tool starts them so when a scenario needs it).
    TestCommands,
    /// The rights of root.
    Root,
    /// The control group controller for block devices, with the right to use it.
    CgroupIo,
    /// The control group controller for memory, with the right to use it.
    CgroupMemory,
    /// The control group controller for processors, with the right to use it.
    CgroupCpu,
    /// A sharded cluster.
    Sharded,
    /// Servers that were started with the clock library (the tool does so when a scenario needs it).
    ClockShim,
}

impl Need {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Processes => "processes within reach (a managed cluster, or own servers on this machine)",
            Self::Managed => "a managed cluster",
            Self::ReplicaSet => "a replica set",
            Self::ThreeMembers => "a replica set of three members or more",
            Self::Proxies => "a managed cluster (its proxies)",
            Self::TestCommands => "servers with test commands",
            Self::Root => "root",
            Self::CgroupIo => "control groups for block devices (root)",
            Self::CgroupMemory => "control groups for memory (root)",
            Self::CgroupCpu => "control groups for processors (root)",
            Self::Sharded => "a sharded cluster",
            Self::ClockShim => "a managed cluster (its clock library)",
        }
    }
}

/// Every kind, in the order of the table.
#[rustfmt::skip]
pub const KINDS: &[Kind] = &[
    process::KILL, process::STOP, process::PAUSE, process::CRASH_LOOP, process::ROLLING_RESTART,
    process::KILL_ALL, process::MAJORITY_LOSS, process::WIPE, process::RESTART_WITH,
    network::DROP_CONNECTIONS, network::REFUSE, network::ACCEPT_CLOSE, network::BLACK_HOLE, network::LATENCY,
    network::BANDWIDTH, network::CUT_REPLY, network::DROP_NTH, network::PARTITION, network::FLAP,
    network::CONNECTION_STORM,
    replication::STEPDOWN, replication::FREEZE, replication::LAG, replication::RECONFIG,
    replication::REMOVE_MEMBER, replication::SMALL_OPLOG,
    server::FAIL_COMMAND, server::FAILPOINT, server::SET_PARAMETER, server::INDEX_BUILD, server::COMPACT,
    server::KILL_OPERATIONS,
    resource::DISK_FULL, resource::SLOW_DISK, resource::STALL_DISK, resource::COLD_CACHE,
    resource::MEMORY_PRESSURE, resource::CPU_PRESSURE, resource::FD_LIMIT, resource::CLOCK_SKEW,
    sharding::MOVE_CHUNKS, sharding::BALANCER, sharding::SPLIT, sharding::REMOVE_SHARD,
    hook::HOOK,
];

/// The kind of that name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.name == name)
}
