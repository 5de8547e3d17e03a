//! Administration through the router, and cursors that nobody closes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use bson::{Document, doc};
use support::{Cluster, LONG};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use wire::Connection;

/// Cursors time out after this.
const IDLE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn real_clusters_are_administered_and_abandoned_cursors_block_nothing() {
    let mut cluster = Cluster::start(IDLE).await;
    cluster.admin(doc! { "balancerStop": 1 }).await;
    cluster.admin(doc! { "enableSharding": "d", "primaryShard": "s0" }).await;
    assert_eq!(cluster.refusal("admin", doc! { "enableSharding": "d", "primaryShard": "s1" }).await, 48);
    cluster.admin(doc! { "shardCollection": "d.c", "key": { "k": 1, "n.m": 1 } }).await;
    assert_eq!(cluster.refusal("admin", doc! { "shardCollection": "d.c", "key": { "x": 1 } }).await, 23);
    fill(&cluster, "c").await;
    chunks(&cluster).await;
    hashed_chunks(&cluster).await;
    killed_cursor(&cluster).await;
    forgotten_cursor(&cluster).await;
    balancer(&cluster).await;
    zones(&cluster).await;
    hostile_clients(&cluster).await;
    drained_shard(&cluster).await;
    lost_server(&mut cluster).await;
    cluster.stop().await;
}

async fn fill(cluster: &Cluster, collection: &str) {
    let documents = (0..1_000).map(|k| doc! { "_id": k, "k": k, "n": { "m": k } });
    let collection = cluster.client().await.database("d").collection::<Document>(collection);
    collection.insert_many(documents).await.unwrap();
}

async fn count(cluster: &Cluster, collection: &str) -> u64 {
    let collection = cluster.client().await.database("d").collection::<Document>(collection);
    collection.count_documents(doc! {}).await.unwrap()
}

fn key(k: i32) -> Document {
    doc! { "k": k, "n.m": bson::Bson::MinKey }
}

async fn shard_of(cluster: &Cluster, k: i32) -> String {
    let chunks = cluster.chunks("d.c").await;
    chunks.into_iter().rev().find(|(min, ..)| min.get_i32("k").is_ok_and(|min| min <= k)).unwrap().2
}

async fn chunks(cluster: &Cluster) {
    for k in [200, 400, 600] {
        cluster.admin(doc! { "split": "d.c", "middle": key(k) }).await;
    }
    assert_eq!(cluster.chunks("d.c").await.len(), 4);
    // Where it is already.
    assert!(cluster.refusal("admin", doc! { "split": "d.c", "middle": key(200) }).await > 0);
    cluster.admin(doc! { "split": "d.c", "find": { "k": 300, "n.m": 300 } }).await;
    cluster.admin(doc! { "split": "d.c", "bounds": [key(400), key(600)] }).await;
    let chunks = cluster.chunks("d.c").await;
    assert_eq!(chunks.len(), 6, "{chunks:?}");
    let merged = [key(400), key(600)];
    cluster.admin(doc! { "mergeChunks": "d.c", "bounds": merged.to_vec() }).await;
    assert_eq!(cluster.chunks("d.c").await.len(), 5);

    let by_bounds =
        doc! { "moveChunk": "d.c", "bounds": [key(400), key(600)], "to": "s1", "_waitForDelete": true };
    cluster.admin(by_bounds).await;
    assert_eq!(shard_of(cluster, 500).await, "s1");
    let by_key = doc! { "moveChunk": "d.c", "find": { "k": 700, "n": { "m": 1 } }, "to": "s1", "_secondaryThrottle": true };
    cluster.admin(by_key).await;
    assert_eq!(shard_of(cluster, 700).await, "s1");
    let range =
        doc! { "moveRange": "d.c", "min": key(400), "max": key(600), "toShard": "s0", "waitForDelete": true };
    cluster.admin(range).await;
    assert_eq!(shard_of(cluster, 500).await, "s0");
    let nowhere = doc! { "moveRange": "d.c", "min": key(400), "max": key(600), "toShard": "nowhere" };
    assert_eq!(cluster.refusal("admin", nowhere).await, 70);
    let odd = doc! { "moveChunk": "d.c", "bounds": [key(401), key(600)], "to": "s1" };
    assert_eq!(cluster.refusal("admin", odd).await, 2);
    let unsharded = doc! { "moveChunk": "d.x", "find": { "k": 1 }, "to": "s1" };
    assert_eq!(cluster.refusal("admin", unsharded).await, 118);
    cluster.admin(doc! { "clearJumboFlag": "d.c", "bounds": [key(400), key(600)] }).await;
    cluster.admin(doc! { "cleanupOrphaned": "d.c" }).await;
    cluster.admin(doc! { "flushRouterConfig": "d.c" }).await;
    assert_eq!(count(cluster, "c").await, 1_000);
}

async fn hashed_chunks(cluster: &Cluster) {
    let shard = doc! { "shardCollection": "d.h", "key": { "_id": "hashed" }, "numInitialChunks": 2 };
    cluster.admin(shard).await;
    fill(cluster, "h").await;
    cluster.admin(doc! { "split": "d.h", "find": { "_id": 5 } }).await;
    assert_eq!(cluster.chunks("d.h").await.len(), 3);
    let h = cluster.client().await.database("d").collection::<Document>("h");
    for to in ["s1", "s0"] {
        cluster
            .admin(doc! { "moveChunk": "d.h", "find": { "_id": 5 }, "to": to, "_waitForDelete": true })
            .await;
        let shard = cluster.shards[usize::from(to == "s1")].address.clone();
        let mut direct = Connection::connect(&shard, LONG).await.unwrap();
        let find = doc! { "find": "h", "filter": { "_id": 5 } };
        let found = direct.command("d", &find, LONG).await.unwrap();
        assert!(found.to_string().contains("\"_id\": 5"), "{to}: {found}");
        assert_eq!(h.count_documents(doc! {}).await.unwrap(), 1_000);
    }
}

/// Opens a cursor on both shards and returns its id.
async fn open_cursor(cluster: &Cluster) -> i64 {
    let reply = cluster.command("d", doc! { "find": "c", "batchSize": 2 }).await.unwrap();
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_ne!(id, 0);
    id
}

async fn moved_and_deleted(cluster: &Cluster, to: &str) {
    let moving =
        doc! { "moveChunk": "d.c", "bounds": [key(400), key(600)], "to": to, "_waitForDelete": true };
    timeout(Duration::from_secs(20), cluster.admin(moving)).await.expect("no cursor blocks the deletion");
}

/// An open cursor keeps the range that moves from being deleted.
async fn killed_cursor(cluster: &Cluster) {
    // Without a session, as nothing can stay of it.
    let single = doc! { "find": "c", "batchSize": 2, "singleBatch": true };
    let single = cluster.command("d", single).await.unwrap();
    assert_eq!(single.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
    let id = open_cursor(cluster).await;
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 5 };
    let more = cluster.command("d", more).await.unwrap();
    assert_eq!(more.get_document("cursor").unwrap().get_array("nextBatch").unwrap().len(), 5);
    let killed = cluster.command("d", doc! { "killCursors": "c", "cursors": [id, 77_i64] }).await.unwrap();
    assert_eq!(killed.get_array("cursorsKilled").unwrap(), &[id.into()]);
    assert_eq!(killed.get_array("cursorsNotFound").unwrap(), &[77_i64.into()]);
    assert_eq!(cluster.refusal("d", doc! { "getMore": id, "collection": "c" }).await, 43);
    moved_and_deleted(cluster, "s1").await;
    for shard in &cluster.shards {
        let status = shard.command(doc! { "serverStatus": 1 }).await.unwrap();
        let open = status.get_document("metrics").unwrap().get_document("cursor").unwrap();
        assert_eq!(open.get_document("open").unwrap().get_i64("total").unwrap(), 0);
    }
}

/// Nobody closes it: the router does, after its time.
async fn forgotten_cursor(cluster: &Cluster) {
    let id = open_cursor(cluster).await;
    sleep(IDLE / 2).await;
    assert!(cluster.command("d", doc! { "getMore": id, "collection": "c", "batchSize": 1 }).await.is_ok());
    let many: Vec<_> = futures_util::future::join_all((0..20).map(|_| open_cursor(cluster))).await;
    assert_eq!(many.len(), 20);
    moved_and_deleted(cluster, "s0").await;
    assert_eq!(cluster.refusal("d", doc! { "getMore": id, "collection": "c" }).await, 43);
    let status = cluster.admin(doc! { "mongosoakRouter": 1 }).await;
    let cursors = status.get_document("cursors").unwrap();
    assert_eq!(
        (cursors.get_i64("open").unwrap(), cursors.get_i64("timedOut").unwrap()),
        (0, 21),
        "{cursors}"
    );
}

async fn balancer(cluster: &Cluster) {
    let status =
        async || cluster.admin(doc! { "balancerStatus": 1 }).await.get_str("mode").unwrap().to_owned();
    assert_eq!(status().await, "off");
    cluster.admin(doc! { "configureCollectionBalancing": "d.c", "chunkSize": 1 }).await;
    cluster.admin(doc! { "balancerCollectionStatus": "d.c" }).await;
    cluster.admin(doc! { "balancerStart": 1 }).await;
    assert_eq!(status().await, "full");
    cluster.admin(doc! { "balancerStop": 1 }).await;
    // Settings are documents of a database like others.
    let settings = cluster.client().await.database("config").collection::<Document>("settings");
    let size = settings.update_one(doc! { "_id": "chunksize" }, doc! { "$set": { "value": 2 } }).upsert(true);
    size.await.unwrap();
    let found = settings.find_one(doc! { "_id": "chunksize" }).await.unwrap().unwrap();
    assert_eq!(found.get_i32("value").unwrap(), 2);
}

async fn zones(cluster: &Cluster) {
    cluster.admin(doc! { "addShardToZone": "s0", "zone": "z" }).await;
    let range =
        |zone: bson::Bson| doc! { "updateZoneKeyRange": "d.c", "min": key(0), "max": key(100), "zone": zone };
    cluster.admin(range("z".into())).await;
    let tags = cluster.client().await.database("config").collection::<Document>("tags");
    assert_eq!(tags.count_documents(doc! { "ns": "d.c" }).await.unwrap(), 1);
    cluster.admin(range(bson::Bson::Null)).await;
    cluster.admin(doc! { "removeShardFromZone": "s0", "zone": "z" }).await;
    assert_eq!(tags.count_documents(doc! { "ns": "d.c" }).await.unwrap(), 0);
}

/// Each of them loses its own connection, and nobody else's.
async fn hostile_clients(cluster: &Cluster) {
    let mut innocent = Connection::connect(&cluster.listen.to_string(), LONG).await.unwrap();
    innocent.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap();
    let header = |length: i32, op_code: i32| {
        [length, 1, 0, op_code].iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<_>>()
    };
    let message = |payload: &[u8]| [&header(16 + payload.len() as i32, 2013)[..], payload].concat();
    let hostile = [
        header(48_000_001, 2013),
        header(-1, 2013),
        header(0, 2013),
        header(16, 2013),
        header(16, 2012),
        header(16, 2004),
        header(16, 99),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        message(b"\x01\0\0\0\0\x05\0\0\0\0"), // a checksum flag without a checksum
        message(b"\x04\0\0\0\0\x05\0\0\0\0"), // a flag that must be known
        message(b"\0\0\0\0\x07\x05\0\0\0\0"), // a section that nobody knows
        message(b"\0\0\0\0\0\xff\xff\xff\x7f\0"), // a document beyond its message
    ];
    for bytes in hostile {
        let mut stream = TcpStream::connect(cluster.listen).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("it is disconnected");
        assert!(closed.is_err() || answer.is_empty(), "{bytes:?} got {answer:?}");
    }
    innocent.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap();
}

async fn drained_shard(cluster: &Cluster) {
    let shards = cluster.admin(doc! { "listShards": 1 }).await;
    assert_eq!(shards.get_array("shards").unwrap().len(), 2);
    cluster.admin(doc! { "balancerStart": 1 }).await;
    let state =
        async || cluster.admin(doc! { "removeShard": "s1" }).await.get_str("state").unwrap().to_owned();
    assert_eq!(state().await, "started");
    let drained = async {
        while state().await != "completed" {
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(LONG, drained).await.expect("the shard is drained");
    assert_eq!(count(cluster, "c").await, 1_000);
    // What is left on it would be in the way of its coming back.
    let mut direct = Connection::connect(&cluster.shards[1].address, LONG).await.unwrap();
    direct.command("d", &doc! { "dropDatabase": 1 }, LONG).await.unwrap();
    let host = format!("s1/{}", cluster.shards[1].address);
    cluster.admin(doc! { "addShard": host, "name": "s1" }).await;
    cluster.admin(doc! { "movePrimary": "d", "to": "s1" }).await;
    assert_eq!(cluster.admin(doc! { "listShards": 1 }).await.get_array("shards").unwrap().len(), 2);
    cluster.admin(doc! { "balancerStop": 1 }).await;
}

/// Drivers take it for a dead mongos.
async fn lost_server(cluster: &mut Cluster) {
    let mut client = Connection::connect(&cluster.listen.to_string(), LONG).await.unwrap();
    client.command("d", &doc! { "find": "c", "limit": 1 }, LONG).await.unwrap();
    cluster.behind.kill();
    let error = client.command("d", &doc! { "find": "c", "limit": 1 }, LONG).await.unwrap_err();
    assert!(matches!(error, wire::CommandError::Io(_)), "{error}");
    // The router itself is still there.
    cluster.admin(doc! { "mongosoakRouter": 1 }).await;
}
