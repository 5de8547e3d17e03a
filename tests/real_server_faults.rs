//! Faults inside of real servers, each seen from outside and gone afterwards. One set for all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use bson::{Bson, Document, doc};
use faults::life::Failure;
use faults::{CommandError, Deployment};
use mongosoak::clock::Clock;
use real::set::Set;
use serde_json::json;
use tokio::task::JoinSet;
use wire::Connection;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_misbehave_and_are_put_right() {
    let set = Set::start(|managed| managed.test_commands = true).await;
    let leader = set.healthy().await.primary().unwrap().name.clone();
    fill(&set, &leader).await;
    fail_command(&set, &leader).await;
    failpoint(&set, &leader).await;
    set_parameter(&set, &leader).await;
    index_build(&set, &leader).await;
    compact(&set).await;
    kill_operations(&set, &leader).await;
    set.stop().await;
    without_test_commands().await;
}

async fn ask(set: &Set, node: &str, command: Document) -> Result<Document, CommandError> {
    set.cluster.command(node, "soak", &command, SOON).await
}

async fn fill(set: &Set, leader: &str) {
    for batch in 0..20_i32 {
        let documents: Vec<_> =
            (0..1_000).map(|n| doc! { "_id": batch * 1_000 + n, "n": n, "s": "x".repeat(200) }).collect();
        let insert = doc! { "insert": "docs", "documents": documents, "writeConcern": { "w": 3 } };
        ask(set, leader, insert).await.unwrap();
    }
}

/// Asks a client's question on a connection of its own until a fault is seen; gives up after a while.
fn asking(set: &Set, node: &str, command: Document) -> JoinSet<()> {
    let address = set.cluster.address(node).unwrap();
    let mut client = JoinSet::new();
    client.spawn(async move {
        loop {
            let Ok(mut connection) = Connection::connect(&address, SOON).await else { continue };
            while connection.command("soak", &command, SOON).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
    client
}

fn find() -> Document {
    doc! { "find": "docs", "filter": { "_id": 1 } }
}

async fn fail_command(set: &Set, leader: &str) {
    let mut client = asking(set, leader, find());
    let errors = json!({ "commands": ["find"], "error_code": 11_600 });
    let held = set.inject("fail_command", errors).await.unwrap();
    let error = ask(set, leader, find()).await.unwrap_err();
    assert!(matches!(error, CommandError::Server { code: 11_600, .. }), "{error}");
    ask(set, leader, doc! { "count": "docs" }).await.unwrap();
    let book = held.lift().await.unwrap();
    assert!(book.evidence(leader, "lift")["times_entered"].as_i64().unwrap() > 1);
    ask(set, leader, find()).await.unwrap();

    let held =
        set.inject("fail_command", json!({ "commands": ["find"], "close_connection": true })).await.unwrap();
    let error = ask(set, leader, find()).await.unwrap_err();
    assert!(matches!(error, CommandError::Io(_)), "{error}");
    held.lift().await.unwrap();
    ask(set, leader, find()).await.unwrap();

    let held = set.inject("fail_command", json!({ "commands": ["find"], "block": 1.5 })).await.unwrap();
    let clock = Clock::start();
    ask(set, leader, find()).await.unwrap();
    assert!(clock.now() >= Duration::from_millis(1_500), "{:?}", clock.now());
    held.lift().await.unwrap();
    let clock = Clock::start();
    ask(set, leader, find()).await.unwrap();
    assert!(clock.now() < Duration::from_millis(1_500), "{:?}", clock.now());
    client.shutdown().await;
    set.assert_clean().await;
}

async fn failpoint(set: &Set, leader: &str) {
    let data = json!({ "errorCode": 9_001, "failCommands": ["distinct"] });
    let mut client = asking(set, leader, doc! { "distinct": "docs", "key": "n", "query": { "_id": 1 } });
    let held = set.inject("failpoint", json!({ "name": "failCommand", "data": data })).await.unwrap();
    let error = ask(set, leader, doc! { "distinct": "docs", "key": "n" }).await.unwrap_err();
    assert!(matches!(error, CommandError::Server { code: 9_001, .. }), "{error}");
    held.lift().await.unwrap();
    client.shutdown().await;
    ask(set, leader, doc! { "distinct": "docs", "key": "n" }).await.unwrap();
    let unknown = set.inject("failpoint", json!({ "name": "noSuchFailpoint" })).await.err().unwrap();
    assert!(matches!(&unknown, Failure::Skipped(why) if why.contains("no failpoint")), "{unknown:?}");
    set.assert_clean().await;
}

async fn set_parameter(set: &Set, leader: &str) {
    let get = || async {
        let answer = set.ask(leader, doc! { "getParameter": 1, "cursorTimeoutMillis": 1 }).await;
        answer.get("cursorTimeoutMillis").cloned().unwrap()
    };
    let before = get().await;
    let parameters = json!({ "name": "cursorTimeoutMillis", "value": 12_345 });
    let held = set.inject("set_parameter", parameters.clone()).await.unwrap();
    assert!(matches!(get().await, Bson::Int64(12_345) | Bson::Int32(12_345)), "{}", get().await);
    let twice = set.inject("set_parameter", parameters).await.err().unwrap();
    assert!(matches!(&twice, Failure::NotEffective(why) if why.contains("already")), "{twice:?}");
    held.lift().await.unwrap();
    assert_eq!(get().await, before);
    // Whose first value cannot be put back (0: the server decides).
    let tickets = "wiredTigerConcurrentWriteTransactions";
    for (name, value, why) in [
        ("noSuchParameter", 0, "no parameter"),
        ("enableTestCommands", 0, "refuses"),
        (tickets, 64, "present value"),
    ] {
        let refused =
            set.inject("set_parameter", json!({ "name": name, "value": value })).await.err().unwrap();
        assert!(matches!(&refused, Failure::Skipped(text) if text.contains(why)), "{refused:?}");
    }
    set.assert_clean().await;
}

async fn indexes(set: &Set, leader: &str) -> Vec<String> {
    let answer = ask(set, leader, doc! { "listIndexes": "docs" }).await.unwrap();
    let batch = answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
    batch.iter().map(|index| index.as_document().unwrap().get_str("name").unwrap().to_owned()).collect()
}

async fn index_build(set: &Set, leader: &str) {
    let held = set.inject("index_build", json!({ "fields": ["n", "s"] })).await.unwrap();
    assert!(indexes(set, leader).await.contains(&"mongosoak_f1".to_owned()));
    held.end().await.unwrap();
    assert_eq!(indexes(set, leader).await, ["_id_"]);
    let nowhere = json!({ "fields": ["n"], "collection": "nowhere" });
    let none = set.inject("index_build", nowhere).await.err().unwrap();
    assert!(matches!(&none, Failure::NotEffective(why) if why.contains("no collection")), "{none:?}");
    set.assert_clean().await;
}

async fn compact(set: &Set) {
    let held = set.inject("compact", json!({ "target": "secondary" })).await.unwrap();
    let node = held.nodes[0].clone();
    held.end().await.unwrap();
    // The server's own books: the command ran there, and only there.
    let ran = async |node: &str| {
        let status = set.ask(node, doc! { "serverStatus": 1 }).await;
        let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap().clone();
        commands.get_document("compact").unwrap().get_i64("total").unwrap()
    };
    assert_eq!(ran(&node).await, 1);
    let leader = set.healthy().await.primary().unwrap().name.clone();
    assert_eq!(ran(&leader).await, 0);
    let refused = set.inject("compact", json!({ "target": "primary" })).await.err().unwrap();
    assert!(matches!(&refused, Failure::NotEffective(why) if why.contains("force = true")), "{refused:?}");
    set.assert_clean().await;
}

async fn kill_operations(set: &Set, leader: &str) {
    // A question that takes long: each document waits.
    let slow = doc! {
        "aggregate": "docs",
        "pipeline": [{ "$group": { "_id": { "$add": [{ "$strLenCP": "$s" }, "$n", { "$rand": {} }] } } },
            { "$sort": { "_id": 1 } }],
        "cursor": {}, "allowDiskUse": true,
    };
    let address = set.cluster.address(leader).unwrap();
    let mut client = JoinSet::new();
    client.spawn(async move {
        let mut connection = Connection::connect(&address, SOON).await.unwrap();
        loop {
            if let Err(error) = connection.command("soak", &slow, SOON).await {
                return error;
            }
        }
    });
    let held = set.inject("kill_operations", json!({ "every": 0.05 })).await.unwrap();
    let killed = tokio::time::timeout(SOON, client.join_next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(killed, CommandError::Server { code: 11_601, .. }), "{killed}");
    held.lift().await.unwrap();
    ask(set, leader, find()).await.unwrap();
    set.assert_clean().await;
}

async fn without_test_commands() {
    let set = Set::start(|managed| managed.members = 1).await;
    let refused =
        set.inject("fail_command", json!({ "commands": ["find"], "error_code": 1 })).await.err().unwrap();
    assert!(matches!(&refused, Failure::Skipped(why) if why.contains("test_commands = true")), "{refused:?}");
    let alone = set.inject("stepdown", json!({})).await.err().unwrap();
    assert!(matches!(&alone, Failure::NotEffective(why) if why.contains("one member")), "{alone:?}");
    set.stop().await;
}
