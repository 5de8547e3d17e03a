//! The run directory and its small files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

use crate::cluster::Binary;
use crate::file;
use crate::plan::Plan;
use crate::scenario::{
    Cluster, FindMax, Loads, Op, Profile, Scenario, Schedule, Shape, Source, Sweep, TEMPLATE_COPY, Topology,
    without_credentials,
};

/// A member that is new and empty takes this much (journal files, mostly).
const EMPTY_MEMBER_BYTES: u64 = 400 << 20;
/// An entry of an index, with its share of the tree.
const INDEX_ENTRY_BYTES: u64 = 30;
/// What the oplog adds to a document.
const OPLOG_ENTRY_BYTES: u64 = 150;
/// Says that a folder holds the data of our own servers.
const NODES_FILE: &str = "nodes.json";
/// What must be free for our own files.
const OWN_BYTES: u64 = 100 << 20;

/// Makes the run's directory: `out`, or `runs/<scenario>/<UTC time>-<seed>` with a link `latest`.
///
/// # Errors
/// When it exists and holds something, or cannot be made or written.
pub fn make(out: Option<&Path>, scenario: &str, seed: u64, now: SystemTime) -> io::Result<PathBuf> {
    let Some(out) = out else {
        let base = Path::new("runs").join(scenario);
        let stamp = humantime::format_rfc3339_seconds(now).to_string().replace(':', "");
        let name = format!("{stamp}-{seed}");
        let dir = base.join(&name);
        fresh(&dir)?;
        link_latest(&base, &name)?;
        return std::path::absolute(dir);
    };
    fresh(out)?;
    std::path::absolute(out)
}

fn fresh(dir: &Path) -> io::Result<()> {
    let named = |why: String| io::Error::other(format!("run directory {}: {why}", dir.display()));
    std::fs::create_dir_all(dir).map_err(|e| named(e.to_string()))?;
    let mut entries = std::fs::read_dir(dir).map_err(|e| named(e.to_string()))?;
    if entries.next().is_some() {
        return Err(named("it is not empty; name a new one with --out".into()));
    }
    Ok(())
}

fn link_latest(base: &Path, name: &str) -> io::Result<()> {
    // Made aside and renamed, so that the link always leads somewhere.
    let (link, aside) = (base.join("latest"), base.join(format!(".latest-{name}")));
    std::os::unix::fs::symlink(name, &aside)?;
    std::fs::rename(&aside, &link)
}

/// Places the nodes' data: in the run directory, or in `data` with a link to it. That folder is made when it is
/// missing, and holds data of our own servers otherwise (or is a run directory that does).
///
/// # Errors
/// When it holds something else, or cannot be made.
pub fn place_data(dir: &Path, data: Option<&Path>) -> io::Result<()> {
    let nodes = dir.join("nodes");
    let Some(data) = data else {
        return std::fs::create_dir(nodes);
    };
    let named = |why: String| io::Error::other(format!("--data {}: {why}", data.display()));
    std::fs::create_dir_all(data).map_err(|e| named(e.to_string()))?;
    let inside = data.join("nodes");
    let place = if inside.join(NODES_FILE).exists() { inside.as_path() } else { data };
    // A tester that was killed in its first moment may have left half a description.
    let ours = |entry: io::Result<std::fs::DirEntry>| entry.is_ok_and(|e| e.file_name() == "nodes.tmp");
    let empty = std::fs::read_dir(place).map_err(|e| named(e.to_string()))?.all(ours);
    if !empty && !place.join(NODES_FILE).exists() {
        return Err(named(
            "it is not empty, and not the data of a cluster of ours; name another folder".into(),
        ));
    }
    std::os::unix::fs::symlink(std::fs::canonicalize(place)?, nodes)
}

/// What the data directories of all nodes take on disk, in bytes. What cannot be read counts as nothing.
#[must_use]
pub fn data_bytes(nodes: &Path) -> u64 {
    let Ok(nodes) = std::fs::read_dir(nodes) else { return 0 };
    nodes.flatten().map(|node| tree_bytes(&node.path().join("db"))).sum()
}

fn tree_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    const BLOCK_BYTES: u64 = 512;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => tree_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * BLOCK_BYTES,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Bytes that a member's data will take, roughly.
fn member_bytes(documents: u64, document_bytes: u64, indexes: u64, oplog_bytes: u64) -> u64 {
    // Random text does not shrink under snappy, which the servers use: as long as in memory, and a twelfth for
    // pages that are not full (measured: a fifteenth).
    let data = document_bytes + document_bytes / 12;
    let each = data + INDEX_ENTRY_BYTES * (1 + indexes);
    let oplog = documents.saturating_mul(document_bytes + OPLOG_ENTRY_BYTES).min(oplog_bytes);
    EMPTY_MEMBER_BYTES.saturating_add(documents.saturating_mul(each)).saturating_add(oplog)
}

/// Refuses a disk that would be full before the load is done. Assumed is that the documents do not compress.
///
/// # Errors
/// With what is free and what is needed.
pub fn check_space(dir: &Path, scenario: &Scenario, document_bytes: u64) -> io::Result<()> {
    let Cluster::Managed(managed) = &scenario.cluster else {
        return Ok(());
    };
    let nodes = dir.join("nodes");
    let disk = statvfs(&nodes)?;
    let free = disk.blocks_available() * disk.fragment_size();
    let oplog_bytes = if managed.topology == Topology::Standalone { 0 } else { managed.oplog_bytes };
    let indexes = scenario.dataset.indexes.len() as u64;
    let per_member = member_bytes(scenario.dataset.documents, document_bytes, indexes, oplog_bytes);
    // All documents may be on one shard, and each other node has an empty database.
    let others = managed.seats(true).len() as u64 - u64::from(managed.members);
    let all = u64::from(managed.members)
        .saturating_mul(per_member)
        .saturating_add(others.saturating_mul(EMPTY_MEMBER_BYTES))
        .saturating_add(OWN_BYTES);
    // Of an earlier load, some is there already.
    let needed = all.saturating_sub(data_bytes(&nodes));
    if free < needed {
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        let text = format!(
            "the disk of {} is too full: {} free, about {} needed (documents that do not compress, and the oplog); \
             free some, load fewer documents, or name another place with --out or --data",
            nodes.display(),
            gib(free),
            gib(needed)
        );
        return Err(io::Error::new(io::ErrorKind::StorageFull, text));
    }
    Ok(())
}

/// Writes what is known before anything starts: `scenario.toml` (without credentials), the files that it
/// names, and `plan.json`.
///
/// # Errors
/// When a file cannot be written.
pub fn write_inputs(dir: &Path, source: &Source, scenario: &Scenario, plan: &Plan) -> io::Result<()> {
    if let Shape::Template(template) = &scenario.dataset.shape {
        std::fs::write(dir.join(TEMPLATE_COPY), &template.text)?;
    }
    // Without user and password of a URI.
    std::fs::write(dir.join("scenario.toml"), source.public_text())?;
    for workload in &scenario.workloads {
        if let Some(Schedule::Profile(profile)) = &workload.schedule {
            std::fs::write(dir.join(Profile::copied_as(&workload.name)), &profile.text)?;
        }
    }
    std::fs::write(dir.join("plan.json"), serde_json::to_string_pretty(plan)? + "\n")
}

/// `manifest.json`: the effective settings. `servers` is what the servers say of themselves; null before
/// they were asked.
#[must_use]
pub fn manifest(
    dir: &Path,
    scenario: &Scenario,
    seed: u64,
    binary: Option<&Binary>,
    servers: &Value,
) -> Value {
    let workloads: Vec<Value> = scenario.workloads.iter().map(workload).collect();
    let cluster = match &scenario.cluster {
        Cluster::Managed(m) => json!({
            "topology": m.topology,
            "members": m.members,
            "shards": m.shards,
            "cache_bytes": m.cache_bytes,
            "oplog_bytes": m.oplog_bytes,
            "election_timeout_s": m.election_timeout.as_secs_f64(),
            "parameters": m.parameters,
            "proxies": m.proxies,
            "test_commands": m.test_commands,
            "clock_library": m.clock_library,
            "disk_bytes": m.disk_bytes,
        }),
        Cluster::Attached(a) => json!({ "uri": without_credentials(a.uri.reveal()) }),
    };
    let mongod =
        binary.map(|b| json!({ "path": b.path, "version": b.version.to_string(), "found_by": b.found_by }));
    json!({
        "schema": "mongosoak-manifest/1",
        "id": dir.file_name().map(|n| n.to_string_lossy()),
        "tool_version": env!("CARGO_PKG_VERSION"),
        "scenario": scenario.name,
        "seed": seed,
        "started_at": Value::Null,
        "cluster": cluster,
        "mongod": mongod,
        "servers": servers,
        "dataset": scenario.dataset,
        "workloads": workloads,
        "sweep": scenario.sweep.as_ref().map(sweep),
        "find_max": scenario.find_max.as_ref().map(find_max),
        "measures": scenario.measures,
        "limits": scenario.limits,
        "host": host(),
    })
}

fn workload(w: &crate::scenario::Workload) -> Value {
    let batch = w.mix.iter().find_map(|(op, _)| match op {
        Op::Insert { batch, .. } => Some(*batch),
        _ => None,
    });
    let operations: Vec<_> = w.mix.iter().map(|(op, weight)| json!({ "op": op, "weight": weight })).collect();
    json!({
        "name": w.name,
        "workers": w.workers,
        "rate_ops_s": w.rate_ops_s,
        "schedule": w.schedule,
        "after_outage": w.after_outage,
        "op": crate::report::mix_in_words(&w.mix),
        "operation_limit": w.operations,
        "operations": operations,
        "batch": batch.unwrap_or(1),
        "write_concern": w.write_concern.to_string(),
        "read_concern": w.read_concern,
        "read_preference": w.read_preference,
        "distribution": w.distribution,
        "deadline_s": w.deadline.as_secs_f64(),
        "engine": w.engine,
    })
}

fn sweep(sweep: &Sweep) -> Value {
    let (workers, rates) = match &sweep.loads {
        Loads::Workers(list) => (Some(list), None),
        Loads::Rates(list) => (None, Some(list)),
    };
    json!({
        "workload": sweep.workload,
        "workers": workers,
        "rate_ops_s": rates,
        "each_s": sweep.each.as_secs_f64(),
        "settle_s": sweep.settle.as_secs_f64(),
    })
}

fn find_max(search: &FindMax) -> Value {
    json!({
        "workload": search.workload,
        "p99_s": search.p99.as_secs_f64(),
        "from_ops_s": search.from_ops_s,
        "to_ops_s": search.to_ops_s,
        "each_s": search.each.as_secs_f64(),
        "settle_s": search.settle.as_secs_f64(),
        "precision": search.precision,
    })
}

fn host() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory =
        read("/proc/meminfo").lines().find_map(|l| l.strip_prefix("MemTotal:")).map(|m| m.trim().to_owned());
    json!({
        "usable_cores": crate::monitor::cores(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": memory,
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

/// Replaces `manifest.json`.
///
/// # Errors
/// When it cannot be written.
pub fn write_manifest(dir: &Path, manifest: &Value) -> io::Result<()> {
    file::replace(&dir.join("manifest.json"), &(serde_json::to_string_pretty(manifest)? + "\n"))
}

/// Removes the nodes' data, which the next run does not need; their logs stay.
///
/// # Errors
/// When a folder cannot be removed.
pub fn remove_data(dir: &Path) -> io::Result<()> {
    let nodes = match std::fs::read_dir(dir.join("nodes")) {
        Ok(nodes) => nodes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for node in nodes {
        let db = node?.path().join("db");
        if db.exists() {
            std::fs::remove_dir_all(db)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(documents: u64) -> Scenario {
        let text = format!(
            "name = \"x\"\nduration = \"10s\"\n[dataset]\ndocuments = {documents}\n\
             [[workload]]\nname = \"r\"\nop = \"read\"\n"
        );
        crate::scenario::parse(&Source { path: "x.toml".into(), text }).unwrap()
    }

    #[test]
    fn a_disk_that_would_be_full_is_refused_with_what_is_free_and_what_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        place_data(dir.path(), None).unwrap();
        let error = check_space(dir.path(), &scenario(1_000_000_000_000), 400).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // 3 members x 10^12 documents x (433 + 30) bytes.
        assert!(error.to_string().contains("about 12936"), "{error}");
        assert!(error.to_string().contains("--out"), "{error}");
    }

    #[test]
    fn a_member_takes_its_documents_and_an_oplog_that_is_capped() {
        let gib = |documents: u64| member_bytes(documents, 400, 0, 2 << 30) as f64 / f64::from(1 << 30);
        // 100 M rows: 43 GB of data, 3 GB of index, 2 GiB of oplog.
        assert!((45.0..46.0).contains(&gib(100_000_000)), "{}", gib(100_000_000));
        assert!((0.4..0.5).contains(&gib(100_000)), "{}", gib(100_000));
        assert_eq!(member_bytes(1_000, 400, 2, 0), EMPTY_MEMBER_BYTES + 1_000 * (433 + 90));
        assert_eq!(member_bytes(u64::MAX, 400, 0, 1), u64::MAX, "no overflow");
    }

    #[test]
    fn data_may_lie_elsewhere_but_not_among_the_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let data = dir.path().join("data");
        place_data(&at("run1"), Some(&data)).unwrap();
        std::fs::write(data.join(NODES_FILE), vec![b'x'; 10_000]).unwrap();
        place_data(&at("run2"), Some(&data)).unwrap();
        assert!(dir.path().join("run2/nodes").join(NODES_FILE).exists());
        assert_eq!(data_bytes(&dir.path().join("run2/nodes")), 0, "that is no data");
        std::fs::create_dir_all(data.join("node1/db/journal")).unwrap();
        std::fs::write(data.join("node1/db/journal/1"), vec![b'x'; 10_000]).unwrap();
        std::fs::write(data.join("node1/mongod.log"), vec![b'x'; 1_000_000]).unwrap();
        let size = data_bytes(&dir.path().join("run2/nodes"));
        assert!((10_000..500_000).contains(&size), "{size}");
        // The directory of an earlier run, with its data inside.
        place_data(&at("run3"), Some(&dir.path().join("run1"))).unwrap();
        place_data(&at("run4"), None).unwrap();
        std::fs::write(dir.path().join("run4/nodes").join(NODES_FILE), "").unwrap();
        place_data(&at("run5"), Some(&dir.path().join("run4"))).unwrap();
        std::fs::write(at("mine").join("thesis"), "").unwrap();
        let error = place_data(&at("run6"), Some(&at("mine"))).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
    }

    #[test]
    fn a_run_directory_is_made_once_and_latest_leads_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run");
        assert_eq!(make(Some(&out), "x", 1, SystemTime::UNIX_EPOCH).unwrap(), out);
        std::fs::write(out.join("something"), "").unwrap();
        let error = make(Some(&out), "x", 1, SystemTime::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        link_latest(dir.path(), "run").unwrap();
        link_latest(dir.path(), "run").unwrap();
        assert!(dir.path().join("latest/something").exists());
    }
}
