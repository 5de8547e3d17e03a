//! Faults of processes on real servers, each seen from outside and gone afterwards. One cluster for all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use bson::doc;
use faults::Deployment;
use faults::life::Failure;
use real::set::{LONG, Set};
use serde_json::json;
use tokio::net::TcpStream;

/// The state letter of a process: `T` while it is stopped.
fn state(pid: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().next().unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_processes_are_hit_and_come_back() {
    let set = Set::start(|managed| {
        // A clean shutdown of a primary that hands over at once.
        managed.parameters.insert("shutdownTimeoutMillisForSignaledShutdown".into(), "1000".into());
    })
    .await;
    fill(&set).await;
    pause(&set).await;
    kill_and_stop(&set).await;
    crash_loop(&set).await;
    restart_with(&set).await;
    wipe(&set).await;
    rolling_restart(&set).await;
    majority_loss(&set).await;
    kill_all(&set).await;
    hook(&set).await;
    set.stop().await;
}

const DOCUMENTS: i32 = 1_000;

async fn leader(set: &Set) -> String {
    set.healthy().await.primary().unwrap().name.clone()
}

async fn fill(set: &Set) {
    let documents: Vec<_> = (0..DOCUMENTS).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "docs", "documents": documents, "writeConcern": { "w": 3 } };
    set.cluster.command(&leader(set).await, "soak", &insert, LONG).await.unwrap();
}

/// Documents on one node, whatever its role.
async fn documents(set: &Set, node: &str) -> i32 {
    let count = doc! { "count": "docs", "$readPreference": { "mode": "secondaryPreferred" } };
    set.cluster.command(node, "soak", &count, LONG).await.unwrap().get_i32("n").unwrap()
}

/// Whether anybody listens where a client would knock.
async fn listens(set: &Set, node: &str) -> bool {
    TcpStream::connect(set.cluster.address(node).unwrap()).await.is_ok()
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

async fn kill_and_stop(set: &Set) {
    for kind in ["kill", "stop"] {
        let parameters = json!({ "target": "secondary", "restart_after": 600.0 });
        let held = set.inject(kind, parameters).await.unwrap();
        let node = held.nodes[0].clone();
        let pid_before = held.book.evidence(&node, "inject")["pid"].as_i64();
        set.cluster.wait_exit(&node, LONG).await.unwrap();
        assert!(!listens(set, &node).await);
        held.lift().await.unwrap();
        assert!(listens(set, &node).await);
        assert_ne!(set.cluster.pid(&node).await.map(i64::from), pid_before);
        set.assert_clean().await;
    }
}

async fn crash_loop(set: &Set) {
    let starts = |node: &str| {
        let log =
            std::fs::read_to_string(set.place.path().join("nodes").join(node).join("mongod.log")).unwrap();
        log.lines().filter(|line| line.contains("\"id\":4615611,")).count()
    };
    let held = set.inject("crash_loop", json!({ "times": 3, "every": 1.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let before = starts(&node);
    let book = held.end().await.unwrap();
    assert_eq!(book.evidence(&node, "held")["kills"], 3);
    // Its own log tells of every start that came so far; the last one is up.
    assert!(starts(&node) > before && starts(&node) <= before + 3);
    set.assert_clean().await;
    assert_eq!(documents(set, &node).await, DOCUMENTS);
}

async fn restart_with(set: &Set) {
    let parameters = json!({ "cursorTimeoutMillis": 77_777 });
    let all = json!({ "parameters": parameters, "arguments": ["--slowms", "33"], "for": 600.0 });
    let held = set.inject("restart_with", all).await.unwrap();
    let node = held.nodes[0].clone();
    let asked = async || {
        let answer = set.ask(&node, doc! { "getParameter": 1, "cursorTimeoutMillis": 1 }).await;
        let profile = doc! { "profile": -1 };
        let slow = set.ask(&node, profile).await.get_i32("slowms").unwrap();
        (answer.get("cursorTimeoutMillis").unwrap().to_string(), slow)
    };
    assert_eq!(asked().await, ("77777".to_owned(), 33));
    held.lift().await.unwrap();
    assert_eq!(asked().await, ("600000".to_owned(), 100));
    set.assert_clean().await;
    // A server that does not start so is started as before.
    let bad = json!({ "arguments": ["--noSuchOption"] });
    let failed = set.inject("restart_with", bad).await.err().unwrap();
    assert!(matches!(failed, Failure::Failed(_)), "{failed:?}");
    set.healthy().await;
    set.forget_ends();
    set.assert_clean().await;
}

async fn wipe(set: &Set) {
    let held = set.inject("wipe", json!({ "restart_after": 600.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let data = set.cluster.place(&node).unwrap().data;
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    held.lift().await.unwrap();
    set.assert_clean().await;
    assert_eq!(documents(set, &node).await, DOCUMENTS);
    let all = set.inject("wipe", json!({ "target": "all" })).await.err().unwrap();
    assert!(matches!(&all, Failure::NotEffective(why) if why.contains("was left alone")), "{all:?}");
    set.assert_clean().await;
}

async fn rolling_restart(set: &Set) {
    let before: Vec<_> = pids(set).await;
    let former = leader(set).await;
    let held = set.inject("rolling_restart", json!({})).await.unwrap();
    // Seen from outside all the time: a majority is there.
    let watch = async {
        loop {
            let view = set.cluster.view().await;
            let well = view.members.iter().filter(|m| m.role != faults::Role::Down).count();
            assert!(well >= 2, "{view:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let book = tokio::select! {
        book = held.end() => book.unwrap(),
        () = watch => unreachable!(),
    };
    let order = book.evidence("cluster", "inject")["order"].clone();
    assert_eq!(order[2], json!(former), "the primary comes last");
    let after = pids(set).await;
    assert!(before.iter().zip(&after).all(|(b, a)| b != a), "{before:?} {after:?}");
    set.assert_clean().await;
}

async fn pids(set: &Set) -> Vec<Option<i32>> {
    let mut all = Vec::new();
    for node in ["node1", "node2", "node3"] {
        all.push(set.cluster.pid(node).await);
    }
    all
}

async fn majority_loss(set: &Set) {
    let held = set.inject("majority_loss", json!({ "for": 600.0 })).await.unwrap();
    assert_eq!(held.nodes.len(), 2);
    assert!(set.cluster.view().await.primary().is_none());
    held.lift().await.unwrap();
    set.assert_clean().await;
}

async fn kill_all(set: &Set) {
    let held = set.inject("kill_all", json!({ "restart_after": 600.0 })).await.unwrap();
    for node in &held.nodes {
        assert!(!listens(set, node).await);
    }
    held.lift().await.unwrap();
    set.assert_clean().await;
    assert_eq!(documents(set, "node1").await, DOCUMENTS);
}

async fn hook(set: &Set) {
    let flag = set.place.path().join("hit-{name}-{port}");
    let flag = flag.display();
    let commands = json!({
        "inject": format!("echo of $MONGOSOAK_NODE; touch {flag}"),
        "check": format!("test -e {flag}"),
        "lift": format!("rm -f {flag}"),
        "target": "node2",
        "for": 600.0,
    });
    let port = set.cluster.address("node2").unwrap().rsplit_once(':').unwrap().1.to_owned();
    let file = set.place.path().join(format!("hit-node2-{port}"));
    let held = set.inject("hook", commands).await.unwrap();
    assert!(file.exists());
    assert_eq!(held.book.evidence("node2", "inject")["output"], "of node2\n");
    held.lift().await.unwrap();
    assert!(!file.exists());
    let broken = set.inject("hook", json!({ "inject": "echo no; exit 3" })).await.err().unwrap();
    assert!(
        matches!(&broken, Failure::Failed(why) if why.contains("exit code 3; it said: no")),
        "{broken:?}"
    );
    let hit = set.inject("hook", json!({ "inject": "true", "check": "true" })).await.err().unwrap();
    assert!(matches!(&hit, Failure::NotEffective(why) if why.contains("is hit already")), "{hit:?}");
    set.assert_clean().await;
}
