//! A load that is killed again and again, and goes on: each key is there once, in the end, with its content.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::path::Path;
use std::time::Duration;

use bson::{RawDocumentBuf, doc};
use faults::Deployment;
use mongosoak::clock::Clock;
use mongosoak::cluster::{Lifetime, ManagedCluster, Start, binary};
use mongosoak::dataset::Documents;
use mongosoak::entropy;
use mongosoak::event::Events;
use mongosoak::scenario::{Managed, Shape, Topology};
use nix::sys::signal::Signal;
use real::place::Place;
use real::run_dir::RunDir;
use real::tester::{Ended, output, program};
use real::{PATIENCE, processes, wait_for};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

const SEED: u64 = 5;
const DOCUMENTS: u64 = 50_000;
const LONG: Duration = Duration::from_secs(150);

fn scenario(topology: &str) -> String {
    format!(
        r#"
name = "load"
seed = {SEED}
duration = "2s"
warmup = "0s"
[cluster]
topology = "{topology}"
[dataset]
documents = {DOCUMENTS}
indexes = ["int"]
[[workload]]
name = "writers"
workers = 2
rate = "20/s"
op = "insert"
"#
    )
}

/// A call of the program, with its run directory.
fn command(name: &str, place: &Place, out: &str, more: &[&str]) -> (tokio::process::Command, RunDir) {
    let dir = place.path().join(out);
    let file = place.path().join("scenario.toml");
    let arguments = [name, file.to_str().unwrap(), "--quiet", "--out", dir.to_str().unwrap()];
    (program(&[&arguments, more].concat()), RunDir(dir))
}

/// Starts a load and kills it: at once, somewhere in the start, or some time into the load.
async fn kill_somewhere(place: &Place, out: &str, round: u64, more: &[&str]) {
    let (mut load, dir) = command("load", place, out, more);
    let mut child = load.spawn().unwrap();
    let pause = Duration::from_millis(entropy::draw() % 900);
    if round > 0 {
        wait_for("the load", PATIENCE, || {
            (dir.reached("load") || child.try_wait().unwrap().is_some()).then_some(())
        })
        .await;
    }
    tokio::time::sleep(pause).await;
    if let Some(pid) = child.id() {
        processes::signal(i32::try_from(pid).unwrap(), Signal::SIGKILL);
    }
    child.wait().await.unwrap();
    eprintln!("{out}: killed {pause:?} after {}", if round > 0 { "the load began" } else { "the start" });
}

/// The number of documents, each of which is there once and right.
async fn whole(uri: &str) -> u64 {
    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
    let collection = client.database("soak").collection::<RawDocumentBuf>("docs");
    let mut cursor = collection.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
    let (content, mut next) = (Documents::new(Shape::Row, SEED), 0);
    while cursor.advance().await.unwrap() {
        assert_eq!(content.check(cursor.current()).unwrap(), (next, 0));
        next += 1;
    }
    next
}

fn load_of(ended: &Ended, dir: &RunDir) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    dir.json("report.json")["load"].clone()
}

/// One member that is not the program's own.
async fn server(place: &Place, topology: Topology) -> ManagedCluster {
    let settings = Managed { topology, members: 1, ..Managed::default() };
    let found = binary::find(None).await.unwrap();
    let dir = place.path().join("server");
    let start =
        Start { settings: &settings, binary: &found, routing: None, dir, lifetime: Lifetime::WithTester };
    let (events, queue) = Events::channel(Clock::start());
    // Nobody listens: what is sent is lost.
    drop(queue);
    ManagedCluster::start(&start, &events, &CancellationToken::new()).await.unwrap()
}

/// What a server took with `w: 1` and had not journalled is gone with its process. That it was another process
/// is noticed, and every key is looked up.
#[tokio::test]
async fn real_load_notices_a_server_that_was_killed_and_mends_what_that_lost() {
    let place = Place::new();
    place.file("scenario.toml", &scenario("standalone"));
    let cluster = server(&place, Topology::Standalone).await;
    let uri = cluster.uri();
    // Enough that it is not done before the kill.
    let more = ["--uri", &uri, "--no-verify", "--set", "dataset.documents=500000"];
    let (mut load, dir) = command("load", &place, "load", &more);
    let mut child = load.spawn().unwrap();
    let rows = || std::fs::read_to_string(dir.0.join("load.csv")).unwrap_or_default().lines().count();
    wait_for("a second of the load", PATIENCE, || (rows() > 1).then_some(())).await;
    cluster.signal("node1", Signal::SIGKILL as i32).await.unwrap();
    cluster.wait_exit("node1", PATIENCE).await.unwrap();
    Deployment::start(&cluster, "node1").await.unwrap();
    cluster.wait_ready("node1", LONG).await.unwrap();
    let status = tokio::time::timeout(LONG, child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "{}", dir.json("report.json")["verdict"]);
    let notes = dir.events_named("note").iter().map(|note| note["text"].to_string()).collect::<String>();
    assert!(notes.contains("another process took writes"), "{notes}");
    assert_eq!(dir.json("report.json")["load"]["verified"], true, "also with --no-verify");
    assert_eq!(whole(&uri).await, 500_000);
    cluster.stop_all(Duration::ZERO).await;
}

#[tokio::test]
async fn real_load_into_a_deployment_survives_kills_of_the_tester() {
    let place = Place::new();
    place.file("scenario.toml", &scenario("standalone"));
    let cluster = server(&place, Topology::ReplicaSet).await;
    let uri = cluster.uri();
    for round in 0..5 {
        kill_somewhere(&place, &format!("killed{round}"), round, &["--uri", &uri]).await;
    }
    let (load, dir) = command("load", &place, "last", &["--uri", &uri]);
    let ended = output(load, LONG).await;
    let load = load_of(&ended, &dir);
    assert_eq!((&load["documents"], &load["verified"]), (&DOCUMENTS.into(), &true.into()), "{load}");
    assert_eq!(whole(&uri).await, DOCUMENTS);
    cluster.stop_all(Duration::ZERO).await;
}

#[tokio::test]
async fn real_load_of_our_own_servers_survives_kills_and_is_used_by_runs() {
    let place = Place::new();
    place.file("scenario.toml", &scenario("standalone"));
    let data = place.path().join("data");
    let at = ["--data", data.to_str().unwrap()];
    for round in 0..2 {
        kill_somewhere(&place, &format!("killed{round}"), round, &at).await;
    }
    let (load, dir) = command("load", &place, "last", &at);
    let ended = output(load, LONG).await;
    let loaded = load_of(&ended, &dir);
    assert_eq!(loaded["verified"], true, "{loaded}");
    for size in ["storage_bytes", "data_bytes", "index_bytes", "disk_bytes"] {
        assert!(loaded[size].as_u64().unwrap() > 1_000_000, "{size}: {loaded}");
    }
    assert_eq!(processes::servers(place.path()), [0; 0]);
    for round in ["run1", "run2"] {
        let (run, dir) = command("run", &place, round, &at);
        let ended = output(run, LONG).await;
        // On a busy machine it may say that it was starved; its data must be right all the same.
        assert!([Some(0), Some(4)].contains(&ended.code), "{ended:?}");
        let report = dir.json("report.json");
        assert_eq!((&report["load"]["inserted"], &report["load"]["resumed"]), (&0.into(), &true.into()));
        assert_eq!(report["ledger"]["unchecked"], 0, "{report}");
        assert_eq!(report["ledger"]["alien"], 0, "{report}");
    }
    other_members_are_refused(&place, &data).await;
}

async fn other_members_are_refused(place: &Place, data: &Path) {
    place.file("scenario.toml", &scenario("replica-set"));
    let (load, dir) = command("load", place, "other", &["--data", data.to_str().unwrap()]);
    let ended = output(load, PATIENCE).await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let why = dir.json("report.json")["verdict"]["reasons"].to_string();
    assert!(why.contains("standalone of 1") && why.contains("replica set of 3"), "{why}");
}

/// The members know each other by their ports: they come back on them, with an election.
#[tokio::test]
async fn real_replica_set_comes_back_on_the_data_of_an_earlier_load() {
    let place = Place::new();
    let small = scenario("replica-set").replace("50000", "2000");
    place.file("scenario.toml", &small);
    let data = place.path().join("data");
    let at = ["--data", data.to_str().unwrap(), "--set", "cluster.election_timeout=2s"];
    let (load, dir) = command("load", &place, "first", &at);
    let ended = output(load, LONG).await;
    assert_eq!(load_of(&ended, &dir)["inserted"], 2_000);
    let longer = ["--data", data.to_str().unwrap(), "--set", "cluster.election_timeout=3s"];
    let (load, dir) = command("load", &place, "second", &longer);
    let ended = output(load, LONG).await;
    assert_eq!(load_of(&ended, &dir)["inserted"], 0);
}
