//! The run directory and its small files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

use crate::cluster::Binary;
use crate::file;
use crate::plan::Plan;
use crate::scenario::{Cluster, Profile, Scenario, Schedule, Shape, Source, TEMPLATE_COPY, Topology};

/// A member that is new and empty takes this much (journal files, mostly).
const EMPTY_MEMBER_BYTES: u64 = 400 << 20;
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

/// Refuses a disk that would be full before the load is done.
///
/// # Errors
/// With what is free and what is needed.
pub fn check_space(dir: &Path, scenario: &Scenario, document_bytes: u64) -> io::Result<()> {
    let Cluster::Managed(managed) = &scenario.cluster else {
        return Ok(());
    };
    let disk = statvfs(dir)?;
    let free = disk.blocks_available() * disk.fragment_size();
    // Each member holds the documents, their index, and once more in the oplog.
    let replicated = if managed.topology == Topology::ReplicaSet { 3 } else { 2 };
    let per_member =
        EMPTY_MEMBER_BYTES + scenario.dataset.documents.saturating_mul(document_bytes * replicated);
    let needed = u64::from(managed.members).saturating_mul(per_member) + OWN_BYTES;
    if free < needed {
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        let text = format!(
            "the disk of {} is too full: {} free, about {} needed; free some, load fewer documents, or name \
             another place with --out",
            dir.display(),
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

/// The URI without user and password.
#[must_use]
pub fn without_credentials(uri: &str) -> String {
    match (uri.split_once("://"), uri.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://{}", &uri[at + 1..]),
        _ => uri.to_owned(),
    }
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
            "cache_bytes": m.cache_bytes,
            "oplog_bytes": m.oplog_bytes,
            "election_timeout_s": m.election_timeout.as_secs_f64(),
            "parameters": m.parameters,
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
        "measures": scenario.measures,
        "limits": scenario.limits,
        "host": host(),
    })
}

fn workload(w: &crate::scenario::Workload) -> Value {
    json!({
        "name": w.name,
        "workers": w.workers,
        "rate_ops_s": w.rate_ops_s,
        "schedule": w.schedule,
        "after_outage": w.after_outage,
        "op": crate::report::mix_in_words(&w.mix),
        "operation_limit": w.operations,
        "batch": w.batch,
        "write_concern": w.write_concern.to_string(),
        "read_concern": "local",
        "read_preference": w.read_preference,
        "distribution": w.distribution,
        "deadline_s": w.deadline.as_secs_f64(),
        "engine": w.engine,
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
        let error = check_space(dir.path(), &scenario(1_000_000_000_000), 400).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        // 3 members x 10^12 documents x 400 bytes x 3.
        assert!(error.to_string().contains("about 3352762"), "{error}");
        assert!(error.to_string().contains("--out"), "{error}");
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
