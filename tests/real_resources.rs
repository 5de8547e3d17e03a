//! Faults of resources on real servers, each seen from outside and gone afterwards. One cluster for all that can be
//! done to it, and one on which what is missing must be said.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::doc;
use faults::Deployment;
use faults::catalog::Need;
use faults::life::{self, Failure};
use mongosoak::clock::Clock;
use mongosoak::cluster::own_disk;
use real::disks::{disk_full, slow_disk, stall_disk};
use real::resources::{GIB, SOON, fill, group, groups, insert, is_free, leader, read_bytes, root};
use real::set::{LONG, Set};
use real::{now_s, processes};
use serde_json::{Value, json};
use wire::Connection;

#[tokio::test(flavor = "multi_thread")]
async fn real_resources_are_taken_away_and_given_back() {
    let set = Set::start(|managed| {
        managed.clock_library = true;
        managed.oplog_bytes = 990 << 20;
        managed.disk_bytes = root().then_some(GIB);
    })
    .await;
    fill(&set).await;
    cold_cache(&set).await;
    cold_restart(&set).await;
    if root() {
        cpu_pressure(&set).await;
        slow_disk(&set).await;
        memory_pressure(&set).await;
        stall_disk(&set).await;
        disk_full(&set).await;
    }
    fd_limit(&set).await;
    clock_skew(&set).await;
    healed_by_another(&set).await;
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
        let held = set.inject(kind, json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
        let node = held.nodes[0].clone();
        drop(held);
        let healed = life::heal(&*set.cluster, &set.undo, LONG).await.unwrap();
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

/// The largest file of a node's data.
fn largest_file(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|e| e == "wt"));
    tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

async fn cold_cache(set: &Set) {
    let file = largest_file(&set.cluster.place("node1").unwrap().data);
    let own = i32::try_from(std::process::id()).unwrap();
    // How much of the file comes from the disk when this process reads it.
    let read = || {
        let before = read_bytes(own);
        let length = std::fs::read(&file).unwrap().len() as u64;
        (read_bytes(own) - before, length)
    };
    read();
    let (warm, length) = read();
    assert!(warm < length / 2, "{warm} of {length} bytes of a file that was just read");
    set.whole("cold_cache", json!({ "target": "node1" })).await.unwrap();
    let (cold, length) = read();
    assert!(cold > length / 2, "{cold} of {length} bytes came from disk");
    set.assert_clean().await;
}

async fn cold_restart(set: &Set) {
    let mut read = Vec::new();
    for cold in [false, true] {
        let parameters = json!({ "target": "node1", "restart_after": 0.0, "cold": cold });
        set.whole("kill", parameters).await.unwrap();
        read.push(read_bytes(set.cluster.pid("node1").await.unwrap()));
        set.assert_clean().await;
    }
    assert!(read[1] > read[0] + (1 << 20), "from disk after a warm and a cold restart: {read:?}");
}

/// Processor time that a process has used, in clock ticks (100 in a second).
fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Work for the processor of a server, for a minute or until it is dropped.
async fn busy(set: &Set, node: &str) {
    let numbers = doc! { "$range": [0, 200_000] };
    let sum =
        doc! { "$reduce": { "input": numbers, "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } };
    let pipeline = vec![doc! { "$documents": [{ "a": 1 }] }, doc! { "$project": { "sum": sum } }];
    let work = doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} };
    let address = set.cluster.address(node).unwrap();
    let mut connection = Connection::connect(&address, LONG).await.unwrap();
    loop {
        connection.command("admin", &work, LONG).await.unwrap();
    }
}

async fn cpu_pressure(set: &Set) {
    const SHARE: f64 = 0.05;
    if Need::CgroupCpu.missing().is_some() {
        return;
    }
    let primary = leader(set).await;
    let pid = set.cluster.pid(&primary).await.unwrap();
    let hold = async {
        let held = set.inject("cpu_pressure", json!({ "share": SHARE, "for": 600.0 })).await.unwrap();
        assert!(groups(pid).contains("mongosoak-"), "{}", groups(pid));
        let (clock, before) = (Clock::start(), cpu_ticks(pid));
        tokio::time::sleep(SOON).await;
        let (used, wall) = ((cpu_ticks(pid) - before) as f64 / 100.0, clock.now().as_secs_f64());
        // What it wants is a whole processor; what it gets is at most its part, and one period more.
        assert!(used <= SHARE * wall + 0.2, "{used} s of {wall} s");
        held
    };
    let held = tokio::select! {
        held = hold => held,
        () = busy(set, &primary) => unreachable!(),
    };
    let group = group(&held.book.evidence(&primary, "inject"));
    held.lift().await.unwrap();
    is_free(set, &primary, &group).await;
}

async fn memory_pressure(set: &Set) {
    if Need::CgroupMemory.missing().is_some() {
        return;
    }
    let primary = leader(set).await;
    let pid = set.cluster.pid(&primary).await.unwrap();
    let address = set.cluster.address(&primary).unwrap();
    let work = async {
        loop {
            // At the limit the server may wait for memory as long as the fault holds.
            if let Ok(mut connection) = Connection::connect(&address, SOON).await {
                let _waits = connection.command("soak", &insert(64, doc! { "w": 1 }), SOON).await;
            }
        }
    };
    let hold = async {
        // Most of this is page cache: of what the server writes, too.
        let held = set.inject("memory_pressure", json!({ "for": 600.0 })).await.unwrap();
        let evidence = held.book.evidence(&primary, "inject");
        let (group, room) = (group(&evidence), evidence["room_bytes"].as_u64().unwrap());
        let read = |one: &str, two: &str| {
            let text = std::fs::read_to_string(group.join(one));
            text.or_else(|_| std::fs::read_to_string(group.join(two))).unwrap()
        };
        let limit: u64 = read("memory.limit_in_bytes", "memory.high").trim().parse().unwrap();
        let used: u64 = read("memory.usage_in_bytes", "memory.current").trim().parse().unwrap();
        assert!(limit <= room && used > limit / 2, "{used} of {limit}, which is at most {room}");
        assert!(read("memory.failcnt", "memory.events").contains(|c: char| ('1'..='9').contains(&c)));
        assert_eq!(set.cluster.pid(&primary).await, Some(pid), "it was killed");
        (held, group)
    };
    let (held, group) = tokio::select! {
        held = hold => held,
        () = work => unreachable!(),
    };
    held.lift().await.unwrap();
    is_free(set, &primary, &group).await;
    assert_eq!(set.cluster.pid(&primary).await, Some(pid), "it was killed");
}

async fn fd_limit(set: &Set) {
    let held = set.inject("fd_limit", json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let pid = set.cluster.pid(&node).await.unwrap();
    let limit = || {
        let all = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = all.lines().find(|line| line.starts_with("Max open files")).unwrap();
        line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap()
    };
    assert!(limit() < 1_000, "{}", limit());
    let address = set.cluster.address(&node).unwrap();
    let answers = async || {
        let mut connection = Connection::connect(&address, SOON).await.ok()?;
        connection.command("admin", &doc! { "hello": 1 }, SOON).await.ok()?;
        Some(connection)
    };
    // A few were given back meanwhile; then it is over.
    let mut taken = Vec::new();
    while let Some(connection) = answers().await {
        taken.push(connection);
        assert!(taken.len() < 200, "it takes one connection after the other");
    }
    drop(taken);
    held.lift().await.unwrap();
    assert!(limit() > 1_000, "{}", limit());
    assert!(answers().await.is_some());
    assert!(processes::state(pid).is_some_and(|state| state != 'Z'));
    set.assert_clean().await;
}

/// Between what and what the clock of a node is off, in seconds: it was asked at some moment in between.
async fn off(set: &Set, node: &str) -> (f64, f64) {
    let asked = now_s();
    let hello = set.ask(node, doc! { "hello": 1 }).await;
    let says = hello.get_datetime("localTime").unwrap().timestamp_millis() as f64 / 1e3;
    (says - now_s(), says - asked)
}

async fn clock_skew(set: &Set) {
    for by_s in [3_600.0, -90.0] {
        let parameters = json!({ "target": "secondary", "by": by_s, "for": 600.0 });
        let held = set.inject("clock_skew", parameters).await.unwrap();
        let node = held.nodes[0].clone();
        let (least, most) = off(set, &node).await;
        assert!(least <= by_s + 0.5 && by_s <= most + 0.5, "off by {least} to {most} s, not {by_s}");
        // What the server waits for takes as long as ever: a quarter of a second, not an hour, and not nothing.
        let version =
            set.ask(&node, doc! { "hello": 1 }).await.get_document("topologyVersion").unwrap().clone();
        let clock = Clock::start();
        set.ask(&node, doc! { "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 250 }).await;
        assert!(clock.now() >= Duration::from_millis(200), "it waited only {:?}", clock.now());
        // Others are not hit.
        let other = set.cluster.view().await.primary().unwrap().name.clone();
        let (least, most) = off(set, &other).await;
        assert!(least <= 0.5 && most >= -0.5, "the clock of {other} is off by {least} to {most} s, too");
        held.lift().await.unwrap();
        let (least, most) = off(set, &node).await;
        assert!(least <= 0.5 && most >= -0.5, "still off by {least} to {most} s");
        set.assert_clean().await;
    }
}
