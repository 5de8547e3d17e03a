//! Faults of resources on real servers, each seen from outside and gone afterwards. One cluster for all that can be
//! done to it, and one on which what is missing must be said.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod disks;
mod process;
#[path = "../real/mod.rs"]
mod real;
mod shares;

use std::path::Path;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use disks::{cold_cache, cold_restart, disk_full, slow_disk, space_at_the_last_moment, stall_disk};
use faults::Deployment;
use faults::catalog::Need;
use faults::life::{self, Failure, Left};
use mongosoak::cluster::own_disk;
use process::{clock_skew, fd_limit, off};
use real::set::{LONG, Set};
use serde_json::{Value, json};
use shares::{cpu_pressure, groups, memory_pressure};

const GIB: u64 = 1 << 30;
const SOON: Duration = Duration::from_secs(3);

fn root() -> bool {
    Need::Root.missing().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_resources_are_taken_away_and_given_back() {
    let set = Set::start(|managed| {
        managed.clock_library = true;
        managed.oplog_bytes = 990 << 20;
        managed.disk_bytes = root().then_some(GIB);
    })
    .await;
    step("fill", fill(&set)).await;
    step("cold cache", cold_cache(&set)).await;
    step("cold restart", cold_restart(&set)).await;
    if root() {
        step("cpu pressure", cpu_pressure(&set)).await;
        step("slow disk", slow_disk(&set)).await;
        step("memory pressure", memory_pressure(&set)).await;
        step("stalled disk", stall_disk(&set)).await;
        step("full disk", space_at_the_last_moment(&set)).await;
        step("full disk", disk_full(&set)).await;
    }
    step("descriptors", fd_limit(&set)).await;
    step("clock", clock_skew(&set)).await;
    step("heal", healed_by_another(&set)).await;
    let nodes = set.place.path().join("nodes");
    set.cluster.stop_all(Duration::ZERO).await;
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(nodes.to_str().unwrap()), "a disk stays mounted: {mounts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_resources_that_are_missing_are_said_and_nothing_is_touched() {
    let set = Set::start(|managed| {
        managed.topology = mongosoak::scenario::Topology::Standalone;
        managed.members = 1;
    })
    .await;
    let skipped = async |kind: &str, parameters: Value| match set.inject(kind, parameters).await.err() {
        Some(Failure::Skipped(why)) => why,
        other => panic!("{kind}: {other:?}"),
    };
    // The temporary folder is on the disk that also holds the recording.
    let full = skipped("disk_full", json!({})).await;
    assert!(full.contains("its data shares a disk with"), "{full}");
    let stalled = skipped("stall_disk", json!({})).await;
    let why = if root() { "shares a file system with others" } else { "not root" };
    assert!(stalled.contains(why), "{stalled}");
    let clock = skipped("clock_skew", json!({})).await;
    assert!(clock.contains("was not started with the clock library"), "{clock}");
    if Need::CgroupMemory.missing().is_none() {
        let tight = skipped("memory_pressure", json!({ "limit": 1 << 20 })).await;
        assert!(tight.contains("would stop it at once"), "{tight}");
    }
    let needs = [
        ("slow_disk", Need::CgroupIo),
        ("memory_pressure", Need::CgroupMemory),
        ("cpu_pressure", Need::CgroupCpu),
    ];
    for (kind, need) in needs {
        if let Some(missing) = need.missing() {
            let why = skipped(kind, json!({})).await;
            assert!(why.contains(&missing), "{why}");
        }
    }
    let more = set.inject("fd_limit", json!({ "limit": 1_u64 << 40 })).await.err();
    assert!(matches!(&more, Some(Failure::NotEffective(why)) if why.contains("already")), "{more:?}");
    assert!(set.undo.open_entries().unwrap().is_empty());
    set.assert_clean().await;
    set.stop().await;
}

/// The tester has died in the middle: what it noted is all there is.
async fn healed_by_another(set: &Set) {
    let mut kinds = vec!["fd_limit", "clock_skew"];
    if root() {
        kinds.extend(["stall_disk", "disk_full"]);
    }
    if Need::CgroupIo.missing().is_none() {
        kinds.push("slow_disk");
    }
    for kind in kinds {
        eprintln!("{:.1} heal of {kind}", real::now_s());
        let held = set.inject(kind, json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
        let node = held.nodes[0].clone();
        drop(held);
        let healed = life::heal(&*set.cluster, &set.undo, Left::ByUs, LONG).await.unwrap();
        assert!(healed.len() == 1 && healed[0].result.is_ok(), "{kind}: {healed:?}");
        let pid = set.cluster.pid(&node).await.unwrap();
        assert!(!groups(pid).contains("mongosoak"), "{kind}: {}", groups(pid));
        // It writes, and its clock is right.
        set.ask(&node, doc! { "fsync": 1 }).await;
        let (least, most) = off(set, &node).await;
        assert!(least <= 0.5 && most >= -0.5, "{kind}: off by {least} to {most} s");
        set.assert_clean().await;
    }
}

#[tokio::test]
async fn real_disks_of_nodes_keep_their_data_and_are_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("node1");
    let file = node.join("db/file");
    if !root() {
        let refused = own_disk::attach(&node, Some(GIB)).await.unwrap_err().to_string();
        assert!(refused.contains("needs root"), "{refused}");
        return;
    }
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&path.metadata().unwrap());
    own_disk::attach(&node, Some(GIB)).await.unwrap();
    std::fs::write(&file, "x").unwrap();
    assert_ne!(device(&file), device(&node));
    // A tester that died has left it mounted, and frozen.
    let frozen = std::process::Command::new("fsfreeze").arg("--freeze").arg(node.join("db")).status();
    assert!(frozen.unwrap().success());
    own_disk::detach_below(dir.path()).await.unwrap();
    assert!(!file.exists());
    // Also where no disk is asked for: the data is on it.
    own_disk::attach(&node, None).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    own_disk::detach_below(dir.path()).await.unwrap();
    // Data that was made without a disk would be hidden by one.
    let plain = dir.path().join("node2");
    std::fs::create_dir_all(plain.join("db/journal")).unwrap();
    let refused = own_disk::attach(&plain, Some(GIB)).await.unwrap_err().to_string();
    assert!(refused.contains("there is data already"), "{refused}");
}

/// Says when a step begins: a failed one is shown with what came before it.
async fn step(name: &str, work: impl Future<Output = ()>) {
    eprintln!("{:.1} {name}", real::now_s());
    work.await;
}

const DOCUMENT_BYTES: u32 = 64 << 10;

async fn leader(set: &Set) -> String {
    set.healthy().await.primary().unwrap().name.clone()
}

/// Documents that cannot be compressed.
fn documents(count: u32) -> Vec<Document> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let bytes =
        |random: &mut dyn FnMut() -> [u8; 8]| (0..DOCUMENT_BYTES / 8).flat_map(|_| random()).collect();
    let one = |_| doc! { "x": Binary { subtype: BinarySubtype::Generic, bytes: bytes(&mut random) } };
    (0..count).map(one).collect()
}

fn insert(count: u32, concern: Document) -> Document {
    doc! { "insert": "docs", "documents": documents(count), "writeConcern": concern }
}

async fn fill(set: &Set) {
    let primary = leader(set).await;
    let all = insert(128, doc! { "w": 3, "j": true });
    set.cluster.command(&primary, "soak", &all, LONG).await.unwrap();
    for node in ["node1", "node2", "node3"] {
        set.ask(node, doc! { "fsync": 1 }).await;
    }
}
