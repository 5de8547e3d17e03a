//! Faults of replication on a real set, each seen from outside and gone afterwards. One set for all.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use bson::{Bson, Document, doc};
use faults::life::Failure;
use faults::{CommandError, Deployment};
use mongosoak::clock::Clock;
use real::set::{LONG, Set};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn real_replication_is_disturbed_and_put_back() {
    let set = Set::start(|_| {}).await;
    stepdown(&set).await;
    freeze(&set).await;
    lag(&set).await;
    reconfig(&set).await;
    remove_member(&set).await;
    small_oplog(&set).await;
    set.stop().await;
}

async fn status(set: &Set, node: &str) -> Document {
    set.ask(node, doc! { "replSetGetStatus": 1 }).await
}

/// The one that leads now; a member may be away.
async fn primary(set: &Set) -> String {
    let clock = Clock::start();
    loop {
        if let Some(primary) = set.cluster.view().await.primary() {
            return primary.name.clone();
        }
        assert!(clock.now() < LONG, "nobody leads");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// It stands when it is asked to, at once or after the others have settled.
async fn wins(set: &Set, node: &str) {
    let clock = Clock::start();
    while let Err(error) = stands(set, node).await {
        assert!(clock.now() < LONG, "{node} may stand again, and does not: {error}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    while primary(set).await != node {
        assert!(clock.now() < LONG, "{node} does not lead");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn stepdown(set: &Set) {
    let before = set.healthy().await;
    let (former, term) = (before.primary().unwrap().name.clone(), before.term().unwrap());
    let held = set.inject("stepdown", json!({ "freeze": 600.0 })).await.unwrap();
    let now = set.healthy().await;
    assert_ne!(now.primary().unwrap().name, former);
    assert!(now.term().unwrap() > term);
    // It may not stand: nobody else could have told it so.
    assert!(stands(set, &former).await.is_err());
    let book = held.lift().await.unwrap();
    assert_eq!(book.evidence(&former, "lift")["thawed"], true);
    wins(set, &former).await;
    set.assert_clean().await;
}

/// Whether a node stands for election when it is asked to.
async fn stands(set: &Set, node: &str) -> Result<(), CommandError> {
    let ask = doc! { "replSetStepUp": 1 };
    set.cluster.command(node, "admin", &ask, Duration::from_secs(20)).await.map(drop)
}

async fn freeze(set: &Set) {
    let held = set.inject("freeze", json!({ "target": "secondary" })).await.unwrap();
    let (node, leader) = (held.nodes[0].clone(), held.before.primary().unwrap().name.clone());
    assert!(stands(set, &node).await.is_err());
    assert_eq!(primary(set).await, leader);
    held.lift().await.unwrap();
    wins(set, &node).await;
    // A primary cannot be frozen: that is said before anything is done.
    let refused = set.inject("freeze", json!({ "target": "primary" })).await.err().unwrap();
    assert!(matches!(&refused, Failure::NotEffective(why) if why.contains("is the primary")), "{refused:?}");
    set.assert_clean().await;
}

async fn write(set: &Set, node: &str, id: i32) {
    let insert = doc! { "insert": "t", "documents": [{ "_id": id }] };
    let command = set.cluster.command(node, "soak", &insert, Duration::from_secs(10));
    assert_eq!(command.await.unwrap().get_i32("n").unwrap(), 1);
}

/// Documents of the test on one node, whatever its role.
async fn documents(set: &Set, node: &str) -> i32 {
    let count = doc! { "count": "t", "$readPreference": { "mode": "secondaryPreferred" } };
    let answer = set.cluster.command(node, "soak", &count, Duration::from_secs(10)).await.unwrap();
    answer.get_i32("n").unwrap()
}

async fn lag(set: &Set) {
    let leader = primary(set).await;
    let (held, ()) = tokio::join!(set.inject("lag", json!({ "delay": 10.0 })), async {
        for id in 100..120 {
            write(set, &leader, id).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let held = held.unwrap();
    let node = held.nodes[0].clone();
    for id in 10..20 {
        write(set, &leader, id).await;
    }
    assert!(documents(set, &node).await <= documents(set, &leader).await - 10, "it applies at once");
    held.lift().await.unwrap();
    let clock = Clock::start();
    while documents(set, &node).await < documents(set, &leader).await {
        assert!(clock.now() < LONG, "it does not catch up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    set.assert_clean().await;
}

/// One field of a member as the primary's configuration has it.
async fn configured(set: &Set, node: &str, field: &str) -> Option<Bson> {
    let config = set.ask(&primary(set).await, doc! { "replSetGetConfig": 1 }).await;
    let members = config.get_document("config").unwrap().get_array("members").unwrap().clone();
    let address = set.cluster.address(node).unwrap();
    let member = members.iter().filter_map(Bson::as_document).find(|m| m.get_str("host").unwrap() == address);
    member?.get(field).cloned()
}

async fn reconfig(set: &Set) {
    let fields = json!({ "priority": 0, "hidden": true });
    let held = set.inject("reconfig", json!({ "target": "secondary", "fields": fields })).await.unwrap();
    let node = held.nodes[0].clone();
    assert_eq!(configured(set, &node, "hidden").await, Some(Bson::Boolean(true)));
    let hello = set.ask(&node, doc! { "hello": 1 }).await;
    assert!(hello.get_bool("hidden").unwrap() && hello.get_bool("passive").unwrap(), "{hello}");
    held.lift().await.unwrap();
    assert_eq!(configured(set, &node, "hidden").await, Some(Bson::Boolean(false)));
    assert!(set.ask(&node, doc! { "hello": 1 }).await.get_bool("hidden").is_err());
    let again = set.inject("reconfig", json!({ "target": "secondary", "fields": { "hidden": false } })).await;
    let same = again.err().unwrap();
    assert!(matches!(&same, Failure::NotEffective(why) if why.contains("these values already")), "{same:?}");
    set.assert_clean().await;
}

async fn remove_member(set: &Set) {
    let leader = primary(set).await;
    let held = set.inject("remove_member", json!({ "target": "secondary" })).await.unwrap();
    let node = held.nodes[0].clone();
    assert_eq!(configured(set, &node, "host").await, None);
    assert_eq!(status(set, &leader).await.get_array("members").unwrap().len(), 2);
    held.lift().await.unwrap();
    assert_eq!(status(set, &leader).await.get_array("members").unwrap().len(), 3);
    assert!(set.ask(&node, doc! { "hello": 1 }).await.get_bool("secondary").unwrap());
    let refused = set.inject("remove_member", json!({ "target": "primary" })).await.err().unwrap();
    assert!(
        matches!(&refused, Failure::NotEffective(why) if why.contains("step it down first")),
        "{refused:?}"
    );
    set.assert_clean().await;
}

async fn oplog_mib(set: &Set, node: &str) -> i64 {
    let stats = doc! { "collStats": "oplog.rs" };
    let answer = set.cluster.command(node, "local", &stats, Duration::from_secs(10)).await.unwrap();
    let size = answer.get("maxSize").unwrap();
    size.as_i64().or_else(|| size.as_i32().map(i64::from)).unwrap() >> 20
}

async fn small_oplog(set: &Set) {
    let held = set.inject("small_oplog", json!({ "target": "secondary", "size": 990 << 20 })).await.unwrap();
    let node = held.nodes[0].clone();
    assert_eq!(oplog_mib(set, &node).await, 990);
    held.lift().await.unwrap();
    assert_eq!(oplog_mib(set, &node).await, 2048);
    let same = set.inject("small_oplog", json!({ "size": 4_000_u64 << 20 })).await.err().unwrap();
    assert!(matches!(&same, Failure::NotEffective(why) if why.contains("no larger")), "{same:?}");
    set.assert_clean().await;
}
