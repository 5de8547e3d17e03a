//! The table `[cluster]`: one that we start, or one that runs already.

use std::collections::BTreeMap;
use std::time::Duration;

use faults::catalog::Need;
use toml::de::DeValue;

use super::table::{Node, Refusal, Table, kind};
use super::values::{count_in, off, positive_duration, size, text, text_or_number, word};
use super::words::Names;
use super::{Attached, Cluster, FaultRule, Managed, Secret, Topology, hooks, uri};

const CLUSTER: Names<'_> = Names {
    what: "key",
    now: &[
        "topology",
        "members",
        "shards",
        "mongod",
        "mongos",
        "cache",
        "oplog",
        "election_timeout",
        "auth",
        "tls",
        "parameters",
        "proxies",
        "test_commands",
        "disk",
        "uri",
        "hooks",
    ],
    later: &[],
};

/// Longest sets that MongoDB lets vote.
const MOST_MEMBERS: u8 = 7;
const DEFAULT_MEMBERS: u8 = 3;
const MOST_SHARDS: u8 = 4;
const DEFAULT_SHARDS: u8 = 2;
/// The smallest cache that mongod takes.
const LEAST_CACHE_BYTES: u64 = 256 << 20;
/// The smallest oplog that a server can later be resized to, and so the smallest that makes sense.
const LEAST_OPLOG_BYTES: u64 = 990 << 20;
/// mongod's own default, a twentieth of the free disk, would fill a disk that holds nothing but the data.
const DEFAULT_OPLOG_BYTES: u64 = 2 << 30;
const DEFAULT_ELECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Journal files, an empty database and room for some load.
const LEAST_DISK_BYTES: u64 = 1 << 30;

/// Reads it; what the faults need is started with it.
pub(super) fn read(root: &Table<'_>, faults: &[FaultRule]) -> Cluster {
    let table = root.node("cluster").and_then(|node| node.table(&CLUSTER));
    let mut managed = match table {
        Some(table) => match table.node("uri") {
            Some(uri) => return attached(&table, &uri),
            None => managed(&table),
        },
        None => Managed::default(),
    };
    let needed =
        |need| faults.iter().flat_map(FaultRule::specs).any(|spec| spec.entry().needs.contains(&need));
    managed.proxies |= needed(Need::Proxies);
    managed.test_commands |= needed(Need::TestCommands);
    managed.clock_library |= needed(Need::ClockShim);
    Cluster::Managed(managed)
}

fn attached(table: &Table<'_>, uri: &Node<'_>) -> Cluster {
    for key in CLUSTER.now.iter().filter(|key| !["uri", "hooks"].contains(key)) {
        if let Some(node) = table.node(key) {
            node.refuse(
                Refusal::new("is for a cluster that we start, but \"uri\" names one that runs already")
                    .hint("leave out one of the two"),
            );
        }
    }
    let uri = uri.read(|value| {
        // Not `text`: no message may repeat any of it.
        let uri = value.as_str().ok_or_else(|| Refusal::new("must be a text in quotes"))?;
        uri::check(uri).map(|()| uri.to_owned())
    });
    let hooks = table.node("hooks").map(|node| hooks::read(&node)).unwrap_or_default();
    Cluster::Attached(Attached { uri: Secret::new(uri.unwrap_or_default()), hooks })
}

fn managed(table: &Table<'_>) -> Managed {
    let topology = table.optional("topology", topology).unwrap_or(Topology::ReplicaSet);
    let members = table.optional("members", |value| count_in(value, 1..=MOST_MEMBERS));
    let shards = table.optional("shards", |value| count_in(value, 1..=MOST_SHARDS));
    table.optional("auth", off);
    table.optional("tls", off);
    if let Some(hooks) = table.node("hooks") {
        hooks.refuse(
            Refusal::new("are for a deployment of somebody else, and this one is started by us")
                .hint("leave them out, or name the deployment with \"uri\""),
        );
    }
    Managed {
        topology,
        members: members.unwrap_or(match topology {
            Topology::Standalone => 1,
            Topology::ReplicaSet | Topology::Sharded => DEFAULT_MEMBERS,
        }),
        shards: shards.unwrap_or(if topology == Topology::Sharded { DEFAULT_SHARDS } else { 0 }),
        mongod: table.optional("mongod", text_or_number),
        mongos: table.optional("mongos", text),
        cache_bytes: table.optional("cache", cache).unwrap_or(LEAST_CACHE_BYTES),
        oplog_bytes: table.optional("oplog", oplog).unwrap_or(DEFAULT_OPLOG_BYTES),
        election_timeout: table
            .optional("election_timeout", positive_duration)
            .unwrap_or(DEFAULT_ELECTION_TIMEOUT),
        parameters: table.node("parameters").map(|node| parameters(&node)).unwrap_or_default(),
        proxies: table.optional("proxies", flag).unwrap_or(false),
        test_commands: table.optional("test_commands", flag).unwrap_or(false),
        clock_library: false,
        disk_bytes: table.optional("disk", disk),
    }
}

impl Default for Managed {
    fn default() -> Self {
        Self {
            topology: Topology::ReplicaSet,
            members: DEFAULT_MEMBERS,
            shards: 0,
            mongod: None,
            mongos: None,
            cache_bytes: LEAST_CACHE_BYTES,
            oplog_bytes: DEFAULT_OPLOG_BYTES,
            election_timeout: DEFAULT_ELECTION_TIMEOUT,
            parameters: BTreeMap::new(),
            proxies: false,
            test_commands: false,
            clock_library: false,
            disk_bytes: None,
        }
    }
}

fn topology(value: &DeValue<'_>) -> Result<Topology, Refusal> {
    let names = Names { what: "topology", now: &["standalone", "replica-set", "sharded"], later: &[] };
    let words = [
        ("standalone", Topology::Standalone),
        ("replica-set", Topology::ReplicaSet),
        ("sharded", Topology::Sharded),
    ];
    word(value, &words, &names)
}

fn cache(value: &DeValue<'_>) -> Result<u64, Refusal> {
    match size(value)? {
        bytes if bytes < LEAST_CACHE_BYTES => {
            Err(Refusal::new("mongod takes no cache below 256MiB").hint("write \"256MiB\" or more"))
        }
        bytes => Ok(bytes),
    }
}

fn oplog(value: &DeValue<'_>) -> Result<u64, Refusal> {
    match size(value)? {
        bytes if bytes < LEAST_OPLOG_BYTES => {
            Err(Refusal::new("an oplog below 990MiB is too small").hint("write \"990MiB\" or more"))
        }
        bytes => Ok(bytes),
    }
}

fn parameters(node: &Node<'_>) -> BTreeMap<String, String> {
    let read = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        other => Err(Refusal::new(format!("must be a text, a number or true or false, not {}", kind(other)))),
    };
    node.entries()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.read(read)?)))
        .collect()
}

fn flag(value: &DeValue<'_>) -> Result<bool, Refusal> {
    value.as_bool().ok_or_else(|| Refusal::new(format!("must be true or false, not {}", kind(value))))
}

fn disk(value: &DeValue<'_>) -> Result<u64, Refusal> {
    match size(value)? {
        bytes if bytes < LEAST_DISK_BYTES => {
            Err(Refusal::new("mongod does not start on less than 1GiB").hint("write \"1GiB\" or more"))
        }
        bytes => Ok(bytes),
    }
}
