//! Disks: cold, slow, standing still, full.

use std::path::{Path, PathBuf};

use bson::doc;
use faults::Deployment;
use faults::catalog::Need;
use mongosoak::clock::Clock;
use nix::sys::statvfs::statvfs;
use serde_json::json;
use wire::Connection;

use super::real::wait_for;
use super::shares::{group, groups, is_free};
use super::{LONG, SOON, Set, insert, leader};

/// Bytes that a process has had read from disk.
fn read_bytes(pid: i32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap().parse().unwrap()
}

/// The largest file of a node's data.
fn largest_file(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|e| e == "wt"));
    tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

pub async fn cold_cache(set: &Set) {
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

pub async fn cold_restart(set: &Set) {
    let mut read = Vec::new();
    for cold in [false, true] {
        let parameters = json!({ "target": "node1", "restart_after": 0.0, "cold": cold });
        set.whole("kill", parameters).await.unwrap();
        read.push(read_bytes(set.cluster.pid("node1").await.unwrap()));
        set.assert_clean().await;
    }
    assert!(read[1] > read[0] + (1 << 20), "from disk after a warm and a cold restart: {read:?}");
}

/// Reads from disk that a group has counted, in either version.
fn reads(group: &Path) -> u64 {
    let file = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let number = |text: &str, before: &str| {
        let numbers =
            text.split(before).skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        numbers.sum::<u64>()
    };
    let one = file("blkio.throttle.io_serviced").map(|text| number(&text, " Read "));
    one.or_else(|| file("io.stat").map(|text| number(&text, " rios="))).unwrap()
}

pub async fn slow_disk(set: &Set) {
    const READS_PER_S: u64 = 3;
    if Need::CgroupIo.missing().is_some() {
        return;
    }
    let parameters = json!({ "target": "secondary", "read_iops": READS_PER_S, "for": 600.0 });
    let held = set.inject("slow_disk", parameters).await.unwrap();
    let node = held.nodes[0].clone();
    let pid = set.cluster.pid(&node).await.unwrap();
    let group = group(&held.book.evidence(&node, "inject"));
    assert!(groups(pid).contains("mongosoak-"), "{}", groups(pid));
    // Reads every block of the table again, from a disk whose cache was dropped by the test itself.
    let data = set.cluster.place(&node).unwrap().data;
    for entry in std::fs::read_dir(&data).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let file = std::fs::File::open(entry.path()).unwrap();
        let forget = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        nix::fcntl::posix_fadvise(&file, 0, 0, forget).unwrap();
    }
    let (clock, before, bytes) = (Clock::start(), reads(&group), read_bytes(pid));
    let from_here = doc! { "mode": "secondaryPreferred" };
    let validate = doc! { "validate": "docs", "full": true, "$readPreference": from_here };
    set.cluster.command(&node, "soak", &validate, LONG).await.unwrap();
    let (done, took) = (reads(&group) - before, clock.now().as_secs_f64());
    let bytes = read_bytes(pid) - bytes;
    assert!(bytes > 4 << 20, "it read only {bytes} bytes from disk");
    assert!(done as f64 <= READS_PER_S as f64 * (took + 1.0), "{done} reads in {took} s");
    held.lift().await.unwrap();
    is_free(set, &node, &group).await;
}

pub async fn stall_disk(set: &Set) {
    let held = set.inject("stall_disk", json!({ "for": 600.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let pid = set.cluster.pid(&node).await.unwrap();
    let address = set.cluster.address(&node).unwrap();
    let synced = insert(1, doc! { "w": 1, "j": true });
    let mut client = Connection::connect(&address, LONG).await.unwrap();
    let answer = client.command("soak", &synced, SOON).await;
    assert!(answer.is_err(), "a write was synced to a disk that stands still: {answer:?}");
    let waits = |pid| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let mut states = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")));
        states.any(|stat| stat.is_ok_and(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('D')))
    };
    assert!(waits(pid));
    held.lift().await.unwrap();
    wait_for("all threads go on", LONG, || (!waits(pid)).then_some(())).await;
    // One that was stalled for too long may still lose its office.
    let writes = async || {
        let primary = leader(set).await;
        set.cluster.command(&primary, "soak", &synced, LONG).await.is_ok()
    };
    let clock = Clock::start();
    while !writes().await {
        assert!(clock.now() < LONG, "no write is synced");
    }
    set.assert_clean().await;
}

pub async fn disk_full(set: &Set) {
    let parameters = json!({ "target": "secondary", "for": 600.0 });
    let held = set.inject("disk_full", parameters).await.unwrap();
    let node = held.nodes[0].clone();
    let data = set.cluster.place(&node).unwrap().data;
    let free = || {
        let disk = statvfs(&data).unwrap();
        disk.blocks_available() * disk.fragment_size()
    };
    assert!(free() < 16 << 20, "{} bytes are free", free());
    let primary = leader_of(set).await;
    let write = async {
        loop {
            let _unknown = set.cluster.command(&primary, "soak", &insert(64, doc! { "w": 1 }), LONG).await;
        }
    };
    let exit = tokio::select! {
        exit = set.cluster.wait_exit(&node, LONG) => exit.unwrap(),
        () = write => unreachable!(),
    };
    // SIGABRT, or mongod's own code for an abrupt end: as the thread that meets it decides.
    assert!(exit.signal == Some(6) || exit.code == Some(14), "it did not end itself: {exit}");
    let book = held.lift().await.unwrap();
    assert_eq!(book.evidence(&node, "lift")["server_ended"], true);
    assert!(free() > 64 << 20, "{} bytes are free", free());
    let left = std::fs::read_dir(&data).unwrap().flatten();
    let mut left = left.filter(|entry| entry.file_name().to_string_lossy().contains("filler"));
    assert!(left.next().is_none());
    set.assert_clean().await;
}

/// The space comes back while the server is on its way to its end: it has met the full disk, and still runs.
pub async fn space_at_the_last_moment(set: &Set) {
    let held = set.inject("disk_full", json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let log = set.cluster.place(&node).unwrap().log;
    let primary = leader_of(set).await;
    let write = async {
        loop {
            let _unknown = set.cluster.command(&primary, "soak", &insert(16, doc! { "w": 1 }), LONG).await;
        }
    };
    let meets = wait_for("No space left in its log", LONG, || {
        let log = std::fs::read(&log).unwrap();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(64 << 10)..]).into_owned();
        tail.contains("No space left on device").then_some(())
    });
    tokio::select! {
        () = meets => {}
        () = write => unreachable!(),
    }
    held.lift().await.unwrap();
    set.assert_clean().await;
}

/// Who leads while another is broken.
async fn leader_of(set: &Set) -> String {
    set.cluster.view().await.primary().unwrap().name.clone()
}
