//! What a managed cluster is made of: its nodes with their settings, none of them started.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::ClusterError;
use super::binary::Binary;
use super::node::{Node, Settings};
use super::own_disk;
use super::port::Ports;
use super::process::Lifetime;
use super::routing::Routing;
use crate::clock::Clock;
use crate::scenario::{Managed, Part, Seat, Topology};

/// What a managed cluster is made of.
#[derive(Debug)]
pub struct Start<'a> {
    /// Shape and options.
    pub settings: &'a Managed,
    /// Which mongod.
    pub binary: &'a Binary,
    /// Who routes; of use in a sharded cluster only.
    pub routing: Option<&'a Routing>,
    /// Folder of the nodes' folders. If the nodes of an earlier run are in it, they are started again.
    pub dir: PathBuf,
    /// Whether the processes die with the tester.
    pub lifetime: Lifetime,
}

impl Start<'_> {
    /// The nodes that it is made of.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        self.settings.seats(self.routing.is_some_and(Routing::is_stand_in))
    }
}

/// The nodes, none of them started, on these ports or free ones.
pub(super) async fn nodes(
    start: &Start<'_>,
    port: impl Fn(&str) -> Option<u16>,
    clock: Clock,
) -> Result<Vec<Arc<Node>>, ClusterError> {
    let mut nodes = Vec::new();
    for seat in start.seats() {
        let ports = Ports::new(port(&seat.name), start.settings.proxies)?;
        nodes.push(Arc::new(Node::new(node_settings(start, seat).await?, ports, clock)?));
    }
    Ok(nodes)
}

/// Settings of a node, with its folder, disk and clock in place.
async fn node_settings(start: &Start<'_>, seat: Seat) -> Result<Settings, ClusterError> {
    let Seat { name, part, set } = seat;
    let dir = start.dir.join(&name);
    own_disk::attach(&dir, start.settings.disk_bytes.filter(|_| part != Part::Mongos)).await?;
    let environment = if start.settings.clock_library && part != Part::Mongos {
        let installed = std::fs::create_dir_all(&dir).and_then(|()| faults::resource::clock::install(&dir));
        installed.map_err(|e| ClusterError::folder(&dir, &e))?
    } else {
        BTreeMap::new()
    };
    Ok(Settings {
        dir,
        name,
        binary: program(start, part),
        part,
        replica_set: set,
        cache_bytes: start.settings.cache_bytes,
        oplog_bytes: start.settings.oplog_bytes,
        parameters: parameters(start.settings, part),
        environment,
        lifetime: start.lifetime,
    })
}

/// What is run.
fn program(start: &Start<'_>, part: Part) -> Binary {
    match start.routing {
        Some(Routing::Mongos(mongos)) if part == Part::Mongos => mongos.clone(),
        Some(Routing::StandIn(program)) if part == Part::Mongos => {
            Binary { path: program.clone(), library_path: None, ..start.binary.clone() }
        }
        _ => start.binary.clone(),
    }
}

fn parameters(settings: &Managed, part: Part) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if settings.topology == Topology::Sharded {
        // Else the servers' own sessions get a thousand chunks by themselves, and spoil every count of chunks.
        all.insert("minNumChunksForSessionsCollection".into(), "1".into());
    }
    if part == Part::Shard {
        // 15 minutes by default: until then a chunk cannot come back.
        all.insert("orphanCleanupDelaySecs".into(), "1".into());
    }
    all.extend(settings.parameters.clone());
    if settings.test_commands {
        all.insert("enableTestCommands".into(), "1".into());
    }
    all
}
