//! What a process is given: descriptors, and the time.

use std::time::Duration;

use bson::doc;
use faults::Deployment;
use mongosoak::clock::Clock;
use serde_json::json;
use wire::Connection;

use super::real::{now_s, processes};
use super::{SOON, Set};

pub async fn fd_limit(set: &Set) {
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
pub async fn off(set: &Set, node: &str) -> (f64, f64) {
    let asked = now_s();
    let hello = set.ask(node, doc! { "hello": 1 }).await;
    let says = hello.get_datetime("localTime").unwrap().timestamp_millis() as f64 / 1e3;
    (says - now_s(), says - asked)
}

pub async fn clock_skew(set: &Set) {
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
