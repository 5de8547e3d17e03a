//! Servers in control groups: processor and memory.

use std::path::{Path, PathBuf};

use bson::doc;
use faults::Deployment;
use faults::catalog::Need;
use mongosoak::clock::Clock;
use serde_json::json;
use wire::Connection;

use super::{LONG, SOON, Set, insert, leader};

/// The control groups of a process, as the kernel lists them.
pub fn groups(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

pub async fn is_free(set: &Set, node: &str, group: &Path) {
    let pid = set.cluster.pid(node).await.unwrap();
    assert!(!groups(pid).contains("mongosoak"), "{}", groups(pid));
    assert!(!group.exists());
    set.assert_clean().await;
}

/// Processor time that a process has used, in clock ticks (100 in a second).
fn cpu_ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Work for the processor of a server, for a minute or until it is dropped.
pub async fn busy(set: &Set, node: &str) {
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

pub async fn cpu_pressure(set: &Set) {
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

pub fn group(evidence: &faults::Evidence) -> PathBuf {
    evidence["group"].as_str().unwrap().into()
}

pub async fn memory_pressure(set: &Set) {
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
