//! A sharded cluster of real servers: it comes up, it is written to through its router while chunks move and servers
//! are killed, and every document is on one shard and the right one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use faults::Deployment;
use mongodb::options::{ReadConcern, WriteConcern};
use mongodb::{Client, Collection};
use mongosoak::cluster::Routing;
use real::place::Place;
use real::set::{LONG, Set};
use real::tester::Tester;
use serde_json::json;

const LOADED: i64 = 4_000;

/// Documents of a kilobyte, so that chunks have some weight.
fn document(id: i64) -> Document {
    doc! { "_id": id, "x": "x".repeat(1_000) }
}

async fn documents(set: &Set) -> Collection<Document> {
    let client = Client::with_uri_str(set.cluster.uri()).await.unwrap();
    let options = mongodb::options::CollectionOptions::builder()
        .write_concern(WriteConcern::majority())
        .read_concern(ReadConcern::local())
        .build();
    client.database("soak").collection_with_options("docs", options)
}

/// Each shard's own count of what the routing table says is not its own (orphans), and of all.
async fn on_shards(set: &Set) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for members in set.cluster.view().await.sets() {
        let primary = members.primary().unwrap();
        let name = primary.set.clone().unwrap();
        if !name.starts_with("shard") {
            continue;
        }
        // Past the router, and so with everything that is there.
        let count = doc! { "count": "docs", "readConcern": { "level": "available" } };
        let answer = set.cluster.command(&primary.name, "soak", &count, LONG).await.unwrap();
        counts.insert(name, i64::from(answer.get_i32("n").unwrap()));
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn real_sharded_cluster_moves_chunks_under_load_and_loses_nothing() {
    let set = Set::start_routed(|managed| {
        managed.topology = mongosoak::scenario::Topology::Sharded;
        (managed.shards, managed.members) = (2, 1);
    })
    .await;
    let docs = documents(&set).await;
    let admin = docs.client().database("admin");
    admin.run_command(doc! { "enableSharding": "soak" }).await.unwrap();
    let by_hash = doc! { "shardCollection": "soak.docs", "key": { "_id": "hashed" } };
    admin.run_command(by_hash.clone()).await.unwrap();
    admin.run_command(by_hash).await.unwrap();
    docs.insert_many((0..LOADED).map(document)).await.unwrap();
    assert!(on_shards(&set).await.values().all(|count| *count > LOADED / 4));

    // Inserts and reads go on meanwhile; each must succeed.
    let (next, ended) = (Arc::new(AtomicI64::new(LOADED)), Arc::new(AtomicBool::new(false)));
    let load = async {
        while !ended.load(Ordering::Relaxed) {
            let id = next.load(Ordering::Relaxed);
            docs.insert_one(document(id)).await.unwrap();
            next.fetch_add(1, Ordering::Relaxed);
            let found = docs.find_one(doc! { "_id": id / 2 }).await.unwrap();
            assert_eq!(found, Some(document(id / 2)));
        }
    };
    let faults = async {
        let moved = set.whole("move_chunks", json!({ "count": 4, "pause": 0.1 })).await.unwrap();
        let evidence = moved.evidence("mongos", "held");
        assert_eq!(evidence["done"], 4, "{evidence:?}");
        for moved in evidence["moves"].as_array().unwrap() {
            assert!(moved["outcome"] != "done" || moved["owner"] == moved["to"], "{moved:#}");
        }
        let split = set.whole("split", json!({ "count": 2 })).await.unwrap();
        assert!(split.evidence("mongos", "effect")["chunks"].as_u64().unwrap() > 4);
        let on = set.inject("balancer", json!({ "state": "on", "for": 600.0 })).await.unwrap();
        let status = admin.run_command(doc! { "balancerStatus": 1 }).await.unwrap();
        assert_eq!(status.get_str("mode").unwrap(), "full");
        on.lift().await.unwrap();
        let status = admin.run_command(doc! { "balancerStatus": 1 }).await.unwrap();
        assert_eq!(status.get_str("mode").unwrap(), "off");
        let gone = set.whole("remove_shard", json!({ "shard": "shard1", "for": 1.0 })).await.unwrap();
        let progress = &gone.evidence("mongos", "inject")["progress"];
        let last = progress.as_array().unwrap().last().unwrap();
        assert!(progress.as_array().unwrap().len() > 1 && last["state"] == "completed", "{progress:#}");
        let shards = admin.run_command(doc! { "listShards": 1 }).await.unwrap();
        assert_eq!(shards.get_array("shards").unwrap().len(), 2, "{shards}");
        let status = admin.run_command(doc! { "balancerStatus": 1 }).await.unwrap();
        assert_eq!(status.get_str("mode").unwrap(), "off");
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, faults);

    let written = u64::try_from(next.load(Ordering::Relaxed)).unwrap();
    assert_eq!(docs.count_documents(doc! {}).await.unwrap(), written);
    let on_shards = on_shards(&set).await;
    assert_eq!(on_shards.values().sum::<i64>() as u64, written, "orphans, or twice: {on_shards:?}");
    set.assert_clean().await;
    set.stop().await;
}

/// Whoever routes or knows the routing table may die: what is acknowledged stays.
#[tokio::test(flavor = "multi_thread")]
async fn real_sharded_cluster_outlives_its_router_and_its_config_primary() {
    let set = Set::start_routed(|managed| {
        managed.topology = mongosoak::scenario::Topology::Sharded;
        (managed.shards, managed.members) = (1, 3);
    })
    .await;
    let docs = documents(&set).await;
    docs.insert_one(document(0)).await.unwrap();
    let mut written = 1;
    for (kind, target) in
        [("kill", "mongos"), ("kill", "router"), ("kill", "config.primary"), ("stepdown", "shard0.primary")]
    {
        let parameters = match kind {
            "kill" => json!({ "target": target, "restart_after": 1.0 }),
            _ => json!({ "target": target, "freeze": 60.0 }),
        };
        set.healthy().await;
        set.inject(kind, parameters).await.unwrap().lift().await.unwrap();
        set.assert_clean().await;
        // A connection that its end has cut is no finding here; that it works again is.
        let clock = mongosoak::clock::Clock::start();
        while let Err(error) = docs.replace_one(doc! { "_id": written }, document(written)).upsert(true).await
        {
            assert!(clock.now() < LONG, "after {kind} of {target}: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        written += 1;
    }
    assert_eq!(docs.count_documents(doc! {}).await.unwrap(), u64::try_from(written).unwrap());
    set.stop().await;
}

/// What the test asks for is the router of the program under test where no mongos is.
#[tokio::test]
async fn real_routing_is_by_a_mongos_or_by_the_stand_in_that_says_so() {
    let mongod = mongosoak::cluster::binary::find(None).await.unwrap();
    let program = || env!("CARGO_BIN_EXE_mongosoak").into();
    let routing = Routing::find(None, &mongod, program()).await.unwrap();
    let text = routing.describe(&mongod);
    assert!(text.starts_with("mongos ") || text.contains("stand-in router"), "{text}");
    let refused = Routing::find(Some("/bin/true"), &mongod, program()).await.unwrap_err().to_string();
    assert!(refused.contains("/bin/true"), "{refused}");
}

const SCENARIO: &str = r#"
name = "chunks"
duration = "25s"
warmup = "3s"
[cluster]
topology = "sharded"
members = 1
[dataset]
documents = 5_000
shard_key = "hashed"
[[workload]]
name = "writers"
workers = 4
rate = "50/s"
op = "insert"
write_concern = "majority"
[[workload]]
name = "readers"
workers = 4
rate = "100/s"
op = "read"
[[fault]]
do = { move_chunks = { count = 3, pause = "1s" } }
at = ["8s"]
[limits]
lost_majority_writes = 0
min_effective_faults = 1
"#;

/// As a user has it: every move is in the report with its phases, and agrees with what the fault has booked.
#[tokio::test]
async fn real_sharded_run_reports_every_migration_by_phase() {
    let place = Place::new();
    let tester = Tester::run_with(&place, SCENARIO, &[]);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    let report = dir.json("report.json");
    println!("{}", ended.stdout);
    let fault = &report["faults"][0];
    assert_eq!(fault["outcome"], "effective", "{fault:#}");
    let booked = fault["evidence"]["mongos"]["held"]["moves"].as_array().unwrap();
    let done: Vec<_> = booked.iter().filter(|line| line["outcome"] == "done").collect();
    assert_eq!(done.len(), 3, "{booked:#?}");
    let migrations = report["migrations"].as_array().unwrap();
    let committed: Vec<_> = migrations.iter().filter(|m| m["outcome"] == "committed").collect();
    assert_eq!(committed.len(), 3, "{migrations:#?}");
    for (migration, line) in committed.iter().zip(&done) {
        assert_eq!((&migration["from"], &migration["to"]), (&line["from"], &line["to"]));
        let seconds = |value: &serde_json::Value| value["seconds"].as_f64().unwrap();
        // The fault waits for the answer as well, and for nothing else.
        assert!(seconds(migration) <= seconds(line) + 0.05, "{migration:#} {line:#}");
        let names: Vec<_> = migration["phases"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
        assert_eq!(names, ["prepare", "clone", "critical_section", "commit"]);
        assert!(migration["docs"].as_u64().unwrap() > 500, "{migration:#}");
        let felt = &migration["workloads"]["readers"]["expected_ops_s"];
        assert!((80.0..=120.0).contains(&felt.as_f64().unwrap()), "{migration:#}");
    }
    let ledger = &report["ledger"];
    assert_eq!((&ledger["lost"], &ledger["duplicates"]), (&json!(0), &json!(0)), "{ledger:#}");
    assert_eq!(ledger["checked"], ledger["acknowledged"]);
    for workload in report["workloads"].as_array().unwrap() {
        assert_eq!((&workload["failed"], &workload["unknown"]), (&json!(0), &json!(0)), "{workload:#}");
    }
    assert!(ended.stdout.contains("critical section"), "{}", ended.stdout);
}
