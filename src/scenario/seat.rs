//! The nodes of a managed deployment, by name and part: what a scenario may name as a target, and what is started.

use faults::{CONFIG_SET, ROUTER_SET};

use super::{Managed, Topology};

/// Replica set of a deployment that is nothing but one.
const ONLY_SET: &str = "soak";
/// Beyond three, more config servers only cost memory.
const MOST_CONFIG_SERVERS: u8 = 3;
/// The node that clients of a sharded cluster dial.
pub const MONGOS: &str = "mongos";

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Holds the data, or a copy of it.
    Data,
    /// Holds the data of one shard, or a copy of it.
    Shard,
    /// Knows where the data is.
    Config,
    /// Behind a stand-in router: a drained shard server that routes.
    Engine,
    /// Clients dial it: a mongos, or the stand-in for one.
    Mongos,
}

/// One node to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// `node1` ...; in a sharded cluster `config-1` ..., `shard0-1` ..., `router`, `mongos`.
    pub name: String,
    /// What it does.
    pub part: Part,
    /// Its replica set; `None`: a standalone, or a mongos.
    pub set: Option<String>,
}

impl Managed {
    /// All nodes, in the order in which they are started. `stand_in`: no mongos is there, so a drained shard server
    /// does its work.
    #[must_use]
    pub fn seats(&self, stand_in: bool) -> Vec<Seat> {
        let node = |set: Option<&str>| {
            let set = set.map(str::to_owned);
            move |n: u8| Seat { name: format!("node{n}"), part: Part::Data, set: set.clone() }
        };
        match self.topology {
            Topology::Standalone => (1..=self.members).map(node(None)).collect(),
            Topology::ReplicaSet => (1..=self.members).map(node(Some(ONLY_SET))).collect(),
            Topology::Sharded => self.sharded(stand_in),
        }
    }

    fn sharded(&self, stand_in: bool) -> Vec<Seat> {
        let set = |name: String, part, members: u8| {
            (1..=members).map(move |n| Seat { name: format!("{name}-{n}"), part, set: Some(name.clone()) })
        };
        let mut seats: Vec<_> =
            set(CONFIG_SET.into(), Part::Config, self.members.min(MOST_CONFIG_SERVERS)).collect();
        for shard in 0..self.shards {
            seats.extend(set(format!("shard{shard}"), Part::Shard, self.members));
        }
        if stand_in {
            let set = Some(ROUTER_SET.to_owned());
            seats.push(Seat { name: ROUTER_SET.into(), part: Part::Engine, set });
        }
        seats.push(Seat { name: MONGOS.into(), part: Part::Mongos, set: None });
        seats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(managed: &Managed, stand_in: bool) -> String {
        let names: Vec<_> = managed.seats(stand_in).into_iter().map(|seat| seat.name).collect();
        names.join(" ")
    }

    #[test]
    fn every_node_has_a_name() {
        assert_eq!(names(&Managed::default(), false), "node1 node2 node3");
        let sharded = Managed { topology: Topology::Sharded, shards: 2, members: 2, ..Managed::default() };
        let shards = "shard0-1 shard0-2 shard1-1 shard1-2";
        assert_eq!(names(&sharded, false), format!("config-1 config-2 {shards} mongos"));
        assert_eq!(names(&sharded, true), format!("config-1 config-2 {shards} router mongos"));
        let large = Managed { members: 5, ..sharded };
        let config = large.seats(true).into_iter().filter(|seat| seat.part == Part::Config).count();
        assert_eq!(config, 3);
    }

    #[test]
    fn a_standalone_belongs_to_no_set() {
        let alone = Managed { topology: Topology::Standalone, members: 1, ..Managed::default() };
        assert_eq!(alone.seats(false)[0].set, None);
    }
}
