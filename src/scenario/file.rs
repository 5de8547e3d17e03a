//! The scenario file: the top level and its small tables. [`super::workload`] and [`super::fault`]
//! read the lists.
//!
//! What cannot be read is booked and replaced by a stand-in, so that reading goes on and the user
//! sees every problem at once. A scenario with a problem is never handed out.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::path::KeyPath;
use super::quantity::quoted;
use super::table::{Log, Node, Refusal, Table};
use super::values::{
    check_plain_name, count, count_in, duration, number, plain_name, positive_duration, text, word,
};
use super::words::Names;
use super::{
    Dataset, FindMax, Limits, Measures, Scenario, Shape, ShardKey, Source, Sweep, Warmup, Workload, cluster,
    fault, find_max, shape, sweep, workload,
};

const ROOT: Names<'_> = Names {
    what: "key",
    now: &[
        "name", "seed", "duration", "warmup", "threads", "cluster", "dataset", "workload", "fault", "sweep",
        "find_max", "measures", "limits",
    ],
    later: &[],
};

const DATASET: Names<'_> = Names {
    what: "key",
    now: &["shape", "seed", "documents", "first", "database", "collection", "indexes", "shard_key"],
    later: &[],
};

const MEASURES: Names<'_> = Names {
    what: "key",
    now: &[
        "baseline",
        "sustained_for",
        "sustained_throughput",
        "sustained_p99_factor",
        "sustained_p99_slack",
    ],
    later: &[],
};

const LIMITS: Names<'_> = Names {
    what: "key",
    now: &[
        "sustained_recovery",
        "hard_outage",
        "longest_gap",
        "lost_majority_writes",
        "lost_permitted_writes",
        "p99",
        "error_share",
        "min_effective_faults",
    ],
    later: &[],
};

/// More cores than any machine has that drives load.
const MOST_THREADS: u32 = 1024;
const DEFAULT_DOCUMENTS: u64 = 100_000;

/// Reads the whole tree.
pub(super) fn scenario(tree: &DeTable<'_>, source: &Source, log: &Log) -> Scenario {
    let root = Table::open(KeyPath::default(), tree, &ROOT, log);
    let sweep = root.node("sweep").map(|node| sweep::read(&node));
    let find_max = root.node("find_max").map(|node| find_max::read(&node));
    let faults: Vec<_> = root.nodes("fault").iter().map(fault::read).collect();
    Scenario {
        name: name(&root, source, log),
        description: description(&source.text),
        seed: root.optional("seed", count),
        duration: length(&root, sweep.as_ref(), find_max.as_ref()),
        warmup: root.optional("warmup", warmup).unwrap_or(Warmup::Auto),
        threads: root.optional("threads", |value| count_in(value, 1..=MOST_THREADS)),
        cluster: cluster::read(&root, &faults),
        dataset: root.node("dataset").map_or_else(Dataset::default, |node| dataset(&node, source)),
        workloads: workloads(&root, source, sweep.as_ref(), find_max.as_ref()),
        faults,
        measures: root.node("measures").map_or_else(Measures::default, |node| measures(&node)),
        limits: root.node("limits").map_or_else(Limits::default, |node| limits(&node)),
        sweep,
        find_max,
    }
}

/// As given; the steps of a sweep, or the longest search, give it too.
fn length(root: &Table<'_>, sweep: Option<&Sweep>, find_max: Option<&FindMax>) -> Duration {
    let own = sweep.map(Sweep::length).or(find_max.map(FindMax::longest));
    let given = match own {
        Some(_) => root.optional("duration", positive_duration),
        None => root.required("duration", "write for example duration = \"10m\"", positive_duration),
    };
    given.or(own).unwrap_or_default()
}

/// Each as it stands there; what a stepped one leaves out follows from its steps.
fn workloads(
    root: &Table<'_>,
    source: &Source,
    sweep: Option<&Sweep>,
    find_max: Option<&FindMax>,
) -> Vec<Workload> {
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let read = |node: &Node<'_>| {
        let mut workload = workload::read(node, folder);
        if let Some(sweep) = sweep.filter(|sweep| sweep.workload == workload.name) {
            sweep.complete(node, &mut workload);
        }
        if let Some(search) = find_max.filter(|search| search.workload == workload.name) {
            search.complete(&mut workload);
        }
        workload
    };
    root.nodes("workload").iter().map(read).collect()
}

/// The comment lines before anything else.
fn description(text: &str) -> String {
    let comments = text.lines().map_while(|line| line.strip_prefix('#'));
    comments.map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// As given, or the name of the file.
fn name(root: &Table<'_>, source: &Source, log: &Log) -> String {
    if let Some(node) = root.node("name") {
        return node.read(plain_name).unwrap_or_default();
    }
    let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Err(refusal) = check_plain_name(&stem) {
        let message = format!("the file's name is the scenario's name, but {}", refusal.message);
        log.value(&KeyPath::of("name"), Refusal::new(message).hint("set name = \"...\""));
    }
    stem
}

fn warmup(value: &DeValue<'_>) -> Result<Warmup, Refusal> {
    match value.as_str() {
        Some("auto") => Ok(Warmup::Auto),
        _ => duration(value).map(Warmup::Fixed),
    }
}

fn dataset(node: &Node<'_>, source: &Source) -> Dataset {
    let default = Dataset::default();
    let Some(table) = node.table(&DATASET) else { return default };
    Dataset {
        shape: table.node("shape").and_then(|node| shape::read(&node, source)).unwrap_or(default.shape),
        seed: table.optional("seed", count),
        documents: table.optional("documents", count).unwrap_or(default.documents),
        first: table.optional("first", first_key).unwrap_or(default.first),
        database: table.optional("database", database).unwrap_or(default.database),
        collection: table.optional("collection", collection).unwrap_or(default.collection),
        indexes: table.nodes("indexes").iter().map(|node| node.read(text).unwrap_or_default()).collect(),
        shard_key: table.optional("shard_key", shard_key),
    }
}

fn shard_key(value: &DeValue<'_>) -> Result<ShardKey, Refusal> {
    let words = [("hashed", ShardKey::Hashed), ("ranged", ShardKey::Ranged)];
    word(value, &words, &Names { what: "shard key", now: &["hashed", "ranged"], later: &[] })
}

/// Far enough below 2^63 that no run gets there.
fn first_key(value: &DeValue<'_>) -> Result<u64, Refusal> {
    const LARGEST: u64 = 1 << 62;
    match count(value)? {
        first if first > LARGEST => Err(Refusal::new("is too large").hint("write at most 2^62")),
        first => Ok(first),
    }
}

/// A database that the server accepts, and that is not one of its own.
fn database(value: &DeValue<'_>) -> Result<String, Refusal> {
    const LONGEST_BYTES: usize = 63;
    let name = text(value)?;
    if ["admin", "local", "config"].contains(&name.as_str()) {
        return Err(Refusal::new(format!("{name:?} belongs to the server itself")).hint("take another name"));
    }
    if name.len() > LONGEST_BYTES
        || name.contains(['/', '\\', '.', ' ', '"', '$', '*', '<', '>', ':', '|', '?', '\0'])
    {
        return Err(Refusal::new(format!("{} is no database name", quoted(&name)))
            .hint("use at most 63 letters, digits, \"_\" and \"-\""));
    }
    Ok(name)
}

fn collection(value: &DeValue<'_>) -> Result<String, Refusal> {
    let name = text(value)?;
    if name.starts_with("system.") || name.contains(['$', '\0']) {
        return Err(Refusal::new(format!("{} is no collection name", quoted(&name)))
            .hint("it must not begin with \"system.\" nor hold \"$\""));
    }
    Ok(name)
}

fn measures(node: &Node<'_>) -> Measures {
    let default = Measures::default();
    let Some(table) = node.table(&MEASURES) else { return default };
    let share =
        |value: &DeValue<'_>| number(value, |x| 0.0 < x && x <= 1.0, "write a share above 0, up to 1");
    let factor = |value: &DeValue<'_>| number(value, |x| x >= 1.0, "write a factor of 1 or more, as 1.25");
    Measures {
        baseline: table.optional("baseline", positive_duration).unwrap_or(default.baseline),
        sustained_for: table.optional("sustained_for", positive_duration),
        sustained_throughput: table
            .optional("sustained_throughput", share)
            .unwrap_or(default.sustained_throughput),
        sustained_p99_factor: table
            .optional("sustained_p99_factor", factor)
            .unwrap_or(default.sustained_p99_factor),
        sustained_p99_slack: table
            .optional("sustained_p99_slack", duration)
            .unwrap_or(default.sustained_p99_slack),
    }
}

fn limits(node: &Node<'_>) -> Limits {
    let Some(table) = node.table(&LIMITS) else { return Limits::default() };
    let share =
        |value: &DeValue<'_>| number(value, |x| (0.0..=1.0).contains(&x), "write a share from 0 to 1");
    Limits {
        sustained_recovery: table.optional("sustained_recovery", duration),
        hard_outage: table.optional("hard_outage", duration),
        longest_gap: table.optional("longest_gap", duration),
        lost_majority_writes: table.optional("lost_majority_writes", count),
        lost_permitted_writes: table.optional("lost_permitted_writes", count),
        p99: by_workload(&table, "p99", positive_duration),
        error_share: by_workload(&table, "error_share", share),
        min_effective_faults: table.optional("min_effective_faults", count),
    }
}

fn by_workload<T>(
    table: &Table<'_>,
    key: &str,
    read: impl Fn(&DeValue<'_>) -> Result<T, Refusal>,
) -> BTreeMap<String, T> {
    let entries = table.node(key).map(|node| node.entries()).unwrap_or_default();
    entries.into_iter().filter_map(|(name, node)| Some((name.to_owned(), node.read(&read)?))).collect()
}

impl Default for Dataset {
    fn default() -> Self {
        Self {
            shape: Shape::Row,
            seed: None,
            documents: DEFAULT_DOCUMENTS,
            first: 0,
            database: "soak".into(),
            collection: "docs".into(),
            indexes: Vec::new(),
            shard_key: None,
        }
    }
}
