//! Faults of processes on real servers, each seen from outside and gone afterwards. One cluster for all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use bson::doc;
use faults::Deployment;
use real::set::Set;
use serde_json::json;

/// The state letter of a process: `T` while it is stopped.
fn state(pid: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().next().unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_processes_are_hit_and_come_back() {
    let set = Set::start(|_| {}).await;
    pause(&set).await;
    set.stop().await;
}

async fn pause(set: &Set) {
    let held = set.inject("pause", json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
    let node = &held.nodes[0].clone();
    let pid = set.cluster.pid(node).await.unwrap();
    assert_eq!(state(pid), "T");
    held.lift().await.unwrap();
    assert_ne!(state(pid), "T");
    assert!(set.ask(node, doc! { "hello": 1 }).await.get_bool("secondary").unwrap());
    set.assert_clean().await;
}
