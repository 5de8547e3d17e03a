//! `cluster start`, `status`, `list`, `stop`, and runs against what they started.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::Client;
use mongodb::options::WriteConcern;
use nix::sys::signal::Signal;
use real::place::Place;
use real::tester::{Ended, STOP_WITHIN, Tester, output, program};
use real::{PATIENCE, processes, wait_for};
use serde_json::Value;
use tokio::process::Command;

/// One command on the clusters of a user whose home is `place`.
async fn cluster(place: &Place, arguments: &[&str]) -> Ended {
    output(cluster_command(place, arguments), 2 * PATIENCE).await
}

fn cluster_command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = program(&["cluster"]);
    command.args(arguments).env("XDG_STATE_HOME", place.path());
    command
}

fn folder(place: &Place, name: &str) -> PathBuf {
    place.path().join("mongosoak/clusters").join(name)
}

fn description(place: &Place, name: &str) -> Value {
    let text = std::fs::read_to_string(folder(place, name).join("cluster.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn pids(description: &Value) -> Vec<i32> {
    let nodes = description["nodes"].as_array().unwrap();
    nodes.iter().map(|node| i32::try_from(node["pid"].as_i64().unwrap()).unwrap()).collect()
}

async fn write_with_majority(uri: &str) {
    let client = Client::with_uri_str(uri).await.unwrap();
    let documents = client.database("play").collection::<Document>("docs");
    documents.insert_one(doc! { "x": 1 }).write_concern(WriteConcern::majority()).await.unwrap();
    assert_eq!(documents.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn real_cluster_lives_until_it_is_stopped() {
    let place = Place::new();
    let started = cluster(&place, &["start", "--election-timeout", "10s"]).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    // Nobody waits for the election timeout: the first node is asked to step up.
    println!("three members took writes after {:.1} s", started.took.as_secs_f64());
    assert!(started.took < Duration::from_secs(30), "{:?}", started.took);
    let uri = started.stdout.trim();
    assert!(uri.starts_with("mongodb://127.0.0.1:"), "{uri}");
    write_with_majority(uri).await;
    assert_eq!(processes::servers(place.path()).len(), 3);

    let again = cluster(&place, &["start"]).await;
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("there already"), "{}", again.stderr);
    let status = cluster(&place, &["status"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert_eq!(status.stdout.matches(" runs").count(), 3, "{}", status.stdout);
    let list = cluster(&place, &["list"]).await;
    assert!(list.stdout.contains("default") && list.stdout.contains("3/3"), "{}", list.stdout);

    let stopped = cluster(&place, &["stop"]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(processes::servers(place.path()), [0; 0]);
    assert!(!folder(&place, "default").exists());
    assert_eq!(cluster(&place, &["list"]).await.stdout, "");
    assert_eq!(cluster(&place, &["status"]).await.code, Some(5));
}

/// The number of a process that has ended may belong to somebody else when the cluster is stopped: neither its
/// description nor the lock file of its data may be believed without a look at the process.
#[tokio::test]
async fn real_cluster_stop_leaves_other_processes_alone() {
    let place = Place::new();
    let started = cluster(&place, &["start", "one", "--members", "0"]).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    let mut stranger = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let stranger_pid = i32::try_from(stranger.id().unwrap()).unwrap();
    let mut described = description(&place, "one");
    let server = pids(&described)[0];
    described["nodes"][0]["pid"] = stranger_pid.into();
    std::fs::write(folder(&place, "one").join("cluster.json"), described.to_string()).unwrap();

    // Started again by a fault, say: the description is out of date, the lock file of the data is not.
    let status = cluster(&place, &["status", "one"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.contains(&format!("pid {server} runs")), "{}", status.stdout);

    processes::signal(server, Signal::SIGKILL);
    let gone = || processes::servers(place.path()).is_empty().then_some(());
    wait_for("end of the server", PATIENCE, gone).await;
    let lock = Path::new(described["nodes"][0]["dir"].as_str().unwrap()).join("db/mongod.lock");
    assert!(std::fs::read_to_string(&lock).unwrap().contains(&server.to_string()), "not left as it was");
    std::fs::write(&lock, format!("{stranger_pid}\n")).unwrap();
    let status = cluster(&place, &["status", "one"]).await;
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.stdout.contains("DOES NOT RUN"), "{}", status.stdout);
    let stopped = cluster(&place, &["stop", "one"]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stranger.try_wait().unwrap().is_none(), "somebody else's process was ended");
}

/// A folder with something in it is somebody's: neither a start that fails nor a stop may remove it.
#[tokio::test]
async fn real_cluster_keeps_its_hands_off_a_folder_in_use() {
    let place = Place::new();
    let used = place.path().join("used");
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("thesis.txt"), "three years of work").unwrap();
    let used_text = used.to_str().unwrap();
    for more in [&["--mongod", "/bin/true"][..], &[]] {
        let arguments = [&["start", "--members", "0", "--dir", used_text], more].concat();
        let refused = cluster(&place, &arguments).await;
        assert!([Some(2), Some(5)].contains(&refused.code), "{refused:?}");
        assert!(used.join("thesis.txt").exists());
    }
    assert_eq!(processes::servers(place.path()), [0; 0]);
}

/// Two starts of one cluster at the same moment: one comes up, the other one leaves it alone.
#[tokio::test]
async fn real_cluster_of_one_name_starts_once() {
    let place = Place::new();
    let start = || cluster(&place, &["start", "twin", "--members", "0"]);
    let (a, b) = tokio::join!(start(), start());
    let mut codes = [a.code, b.code];
    codes.sort();
    assert_eq!(codes[0], Some(0), "{a:?} {b:?}");
    assert!(codes[1] != Some(0), "{a:?} {b:?}");
    let status = cluster(&place, &["status", "twin"]).await;
    assert_eq!(status.code, Some(0), "{status:?}");
    write_with_majority(status.stdout.lines().next().unwrap()).await;
    assert_eq!(cluster(&place, &["stop", "twin"]).await.code, Some(0));
    assert_eq!(processes::servers(place.path()), [0; 0]);
}

#[tokio::test]
async fn real_interrupted_cluster_start_leaves_nothing() {
    let place = Place::new();
    let mut command = cluster_command(&place, &["start"]);
    let mut child = command.spawn().unwrap();
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    let some = || (!processes::servers(place.path()).is_empty()).then_some(());
    wait_for("first server", PATIENCE, some).await;
    processes::signal(pid, Signal::SIGINT);
    let status = tokio::time::timeout(STOP_WITHIN, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(processes::servers(place.path()), [0; 0]);
    assert!(!folder(&place, "default").exists());
}

/// Free ports are found by looking, so two programs may choose the same one.
#[tokio::test]
async fn real_three_clusters_start_at_the_same_moment() {
    let place = Place::new();
    let (a, b, c) = tokio::join!(
        cluster(&place, &["start", "a"]),
        cluster(&place, &["start", "b"]),
        cluster(&place, &["start", "c"]),
    );
    for started in [&a, &b, &c] {
        assert_eq!(started.code, Some(0), "{started:?}");
    }
    let described = ["a", "b", "c"].map(|name| description(&place, name));
    let nodes = described.iter().flat_map(|d| d["nodes"].as_array().unwrap());
    let ports: BTreeSet<u64> = nodes.map(|node| node["port"].as_u64().unwrap()).collect();
    assert_eq!(ports.len(), 9, "{ports:?}");
    assert_eq!(processes::servers(place.path()).len(), 9);
    for name in ["a", "b", "c"] {
        assert_eq!(cluster(&place, &["status", name]).await.code, Some(0), "{name}");
    }
}

const ATTACHED: &str = r#"
name = "attached"
duration = "8s"
warmup = "2s"
[dataset]
documents = 1_000
[[workload]]
name = "writers"
workers = 1
op = "insert"
[limits]
lost_majority_writes = 0
"#;

#[tokio::test]
async fn real_attached_run_leaves_the_deployment_as_it_is() {
    let place = Place::new();
    let started = cluster(&place, &["start", "one", "--members", "1"]).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    let servers = pids(&description(&place, "one"));
    let tester = Tester::run_with(&place, ATTACHED, &["--uri", started.stdout.trim()]);
    let dir = tester.dir.clone();
    let ended = tester.end(2 * PATIENCE).await;
    let report = dir.json("report.json");
    let ledger = &report["ledger"];
    assert_eq!(ledger["checked"], ledger["acknowledged"], "{ledger:#}");
    assert_eq!(ledger["lost"], 0);
    assert!(ledger["acknowledged"].as_u64().unwrap() > 1_000, "{ledger:#}");
    // One worker that sends when the answer is there cannot be late, however loaded the machine is.
    assert_eq!(ended.code, Some(0), "{:#}", report["verdict"]);
    assert!(!dir.0.join("nodes").exists());
    assert!(dir.events_named("node_exited").is_empty());
    assert_eq!(processes::servers(place.path()), servers);
    // Its data is there now. A run with other documents must not write to it ...
    let seed = report["run"]["seed"].to_string();
    std::fs::remove_dir_all(&dir.0).unwrap();
    let second = Tester::run_with(&place, ATTACHED, &["--uri", started.stdout.trim()]).end(PATIENCE).await;
    assert_eq!(second.code, Some(5), "{second:?}");
    let said = format!("seed {seed} is loaded");
    assert!(second.stdout.contains(&said), "{}", second.stdout);
    // ... and one with the same takes it as it is.
    std::fs::remove_dir_all(&dir.0).unwrap();
    let same = ["--uri", started.stdout.trim(), "--seed", &seed, "--duration", "2s"];
    let third = Tester::run_with(&place, ATTACHED, &same).end(2 * PATIENCE).await;
    assert_eq!(third.code, Some(0), "{third:?}");
    let report = dir.json("report.json");
    assert_eq!((&report["load"]["inserted"], &report["load"]["resumed"]), (&0.into(), &true.into()));
    assert_eq!(report["ledger"]["alien"], 0, "{}", report["ledger"]);
}
