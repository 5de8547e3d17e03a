//! What drivers do all day, through the router to real servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongodb::options::{ReadConcern, WriteConcern};
use mongodb::{Collection, Database};
use support::Cluster;
use wire::CommandError;

/// Longer than any test waits: nothing is to time out here.
const NEVER: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn real_drivers_read_and_write_and_what_cannot_be_done_is_refused() {
    let mut cluster = Cluster::start(NEVER).await;
    cluster.admin(doc! { "balancerStop": 1 }).await;
    sharded_collections(&cluster).await;
    let client = cluster.client().await;
    let database = client.database("d");
    for name in ["hashed", "ranged", "plain"] {
        writes_and_reads(&database.collection(name), name == "plain").await;
        batches(&database.collection(name)).await;
        aggregations(&database, name).await;
        indexes(&database.collection(name)).await;
    }
    counts_after_a_move(&cluster, &database).await;
    definitions(&cluster, &client).await;
    refused(&cluster).await;
    old_greetings(&cluster).await;
    status(&cluster).await;
    assert!(cluster.behind.is_running());
    cluster.stop().await;
}

async fn sharded_collections(cluster: &Cluster) {
    cluster.admin(doc! { "enableSharding": "d", "primaryShard": "s0" }).await;
    let key = doc! { "_id": "hashed" };
    cluster.admin(doc! { "shardCollection": "d.hashed", "key": key, "numInitialChunks": 4 }).await;
    cluster.admin(doc! { "shardCollection": "d.ranged", "key": { "_id": 1 } }).await;
    cluster.admin(doc! { "split": "d.ranged", "middle": { "_id": 500 } }).await;
    let max = cluster.chunks("d.ranged").await[1].1.clone();
    let moving =
        doc! { "moveChunk": "d.ranged", "bounds": [{ "_id": 500 }, max], "to": "s1", "_waitForDelete": true };
    cluster.admin(moving).await;
}

async fn writes_and_reads(collection: &Collection<Document>, is_plain: bool) {
    collection.insert_one(doc! { "_id": 1, "a": 1 }).await.unwrap();
    let error = collection.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    assert!(error.to_string().contains("E11000"), "{error}");
    let many = (0..1_000).map(|id| doc! { "_id": id, "a": id % 10, "tags": [id % 3, "x"] });
    let error = collection.insert_many(many).ordered(false).await.unwrap_err();
    let mongodb::error::ErrorKind::InsertMany(failed) = *error.kind else { panic!("{error}") };
    let indexes: Vec<_> = failed.write_errors.unwrap().iter().map(|error| error.index).collect();
    assert_eq!(indexes, [1]);
    let majority = WriteConcern::majority();
    let updated = collection.update_one(doc! { "_id": 3 }, doc! { "$set": { "b": 1 } });
    assert_eq!(updated.write_concern(majority).await.unwrap().modified_count, 1);
    let updated = collection.update_many(doc! { "a": 4 }, doc! { "$inc": { "c": 1 } }).await.unwrap();
    assert_eq!(updated.modified_count, 100);
    let upserted = collection.update_one(doc! { "_id": 5_000 }, doc! { "$set": { "a": 99 } }).upsert(true);
    assert_eq!(upserted.await.unwrap().upserted_id, Some(5_000.into()));
    let replaced = collection.replace_one(doc! { "_id": 7 }, doc! { "a": 7, "z": true }).await.unwrap();
    assert_eq!(replaced.modified_count, 1);
    assert_eq!(collection.delete_one(doc! { "_id": 8 }).await.unwrap().deleted_count, 1);
    assert_eq!(collection.delete_many(doc! { "_id": { "$gte": 990 } }).await.unwrap().deleted_count, 11);
    if !is_plain {
        // No shard key, several shards: as a mongos of that version says.
        let error = collection.update_one(doc! { "a": 3 }, doc! { "$set": { "x": 1 } }).await.unwrap_err();
        assert!(error.to_string().contains("shard key") || error.to_string().contains("72"), "{error}");
    }
    for concern in [ReadConcern::local(), ReadConcern::majority()] {
        let found = collection.find_one(doc! { "_id": 3 }).read_concern(concern).await.unwrap();
        assert_eq!(found.unwrap().get_i32("b").unwrap(), 1);
    }
}

async fn batches(collection: &Collection<Document>) {
    let all: Vec<_> = collection.find(doc! {}).batch_size(50).await.unwrap().try_collect().await.unwrap();
    assert_eq!(all.len(), 989, "1 and 0..1000 without 1, 5000 more, 8 and 990.. less");
    let some = collection.find(doc! { "a": { "$lt": 5 } }).sort(doc! { "_id": -1 }).skip(3).limit(20);
    let some: Vec<_> =
        some.projection(doc! { "_id": 1 }).batch_size(7).await.unwrap().try_collect().await.unwrap();
    assert_eq!(some.len(), 20);
    assert_eq!(some[0], doc! { "_id": 981 });
    assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 989);
    assert_eq!(collection.count_documents(doc! { "_id": { "$gte": 100, "$lt": 600 } }).await.unwrap(), 500);
    assert_eq!(collection.estimated_document_count().await.unwrap(), 989);
    let mut values = collection.distinct("a", doc! { "_id": { "$lt": 500 } }).await.unwrap();
    values.sort_by_key(|value| value.as_i32());
    assert_eq!(values.len(), 10);
    let tags = collection.distinct("tags", doc! { "tags": { "$exists": true } }).await.unwrap();
    assert_eq!(tags.len(), 4);
}

async fn aggregations(database: &Database, name: &str) {
    let collection = database.collection::<Document>(name);
    let run = async |pipeline: Vec<Document>| -> Vec<Document> {
        collection.aggregate(pipeline).batch_size(3).await.unwrap().try_collect().await.unwrap()
    };
    let groups =
        run(vec![doc! { "$group": { "_id": "$a", "n": { "$sum": 1 } } }, doc! { "$sort": { "_id": 1 } }])
            .await;
    assert_eq!(groups.len(), 10, "0 to 9");
    let lookup = doc! { "from": "plain", "localField": "a", "foreignField": "_id", "as": "found" };
    assert_eq!(run(vec![doc! { "$limit": 2 }, doc! { "$lookup": lookup }]).await.len(), 2);
    assert_eq!(run(vec![doc! { "$sample": { "size": 5 } }]).await.len(), 5);
    let out = format!("{name}_out");
    run(vec![doc! { "$match": { "a": 1 } }, doc! { "$out": &out }]).await;
    assert!(database.collection::<Document>(&out).count_documents(doc! {}).await.unwrap() >= 99);
    let explained = doc! { "explain": { "find": name, "filter": { "_id": 3 } }, "verbosity": "queryPlanner" };
    let explained = database.run_command(explained).await.unwrap().to_string();
    assert!(explained.contains("shardName") || explained.contains("shards"), "{explained}");
}

async fn indexes(collection: &Collection<Document>) {
    let model = mongodb::IndexModel::builder().keys(doc! { "a": 1 }).build();
    collection.create_index(model).await.unwrap();
    let names = collection.list_index_names().await.unwrap();
    assert!(names.contains(&"a_1".to_owned()), "{names:?}");
    collection.drop_index("a_1").await.unwrap();
    assert!(!collection.list_index_names().await.unwrap().contains(&"a_1".to_owned()));
}

/// rtr's aggregation is out of date after a move for ever, unless the router helps.
async fn counts_after_a_move(cluster: &Cluster, database: &Database) {
    let collection = database.collection::<Document>("ranged");
    for to in ["s0", "s1", "s0"] {
        let moving =
            doc! { "moveChunk": "d.ranged", "find": { "_id": 700 }, "to": to, "_waitForDelete": true };
        cluster.admin(moving).await;
        assert_eq!(collection.count_documents(doc! {}).await.unwrap(), 989);
        assert_eq!(collection.distinct("_id", doc! {}).await.unwrap().len(), 989);
        let group = vec![doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } }];
        let counted: Vec<_> = collection.aggregate(group).await.unwrap().try_collect().await.unwrap();
        assert_eq!(counted[0].get_i32("n").unwrap(), 989);
    }
}

async fn definitions(cluster: &Cluster, client: &mongodb::Client) {
    let database = client.database("fresh");
    database.create_collection("a").await.unwrap();
    database.collection("a").insert_one(doc! { "_id": 1 }).await.unwrap();
    assert_eq!(database.list_collection_names().await.unwrap(), ["a"]);
    cluster.admin(doc! { "renameCollection": "fresh.a", "to": "fresh.b" }).await;
    assert_eq!(database.list_collection_names().await.unwrap(), ["b"]);
    assert_eq!(database.collection::<Document>("b").count_documents(doc! {}).await.unwrap(), 1);
    let names = client.list_database_names().await.unwrap();
    assert!(["fresh", "d", "config"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
    assert!(client.list_databases().await.unwrap().iter().any(|found| found.name == "d"));
    let statistics = database.run_command(doc! { "dbStats": 1 }).await.unwrap();
    assert_eq!(statistics.get_i64("objects").unwrap(), 1);
    let sharded = client.database("d").run_command(doc! { "collStats": "hashed" }).await.unwrap();
    assert_eq!(sharded.get_i64("count").unwrap(), 989);
    assert_eq!(sharded.get_document("shards").unwrap().len(), 2);
    let valid = client.database("d").run_command(doc! { "validate": "hashed" }).await.unwrap();
    assert!(valid.get_bool("valid").unwrap());
    database.collection::<Document>("b").drop().await.unwrap();
    assert!(database.list_collection_names().await.unwrap().is_empty());
    database.drop().await.unwrap();
    assert!(!client.list_database_names().await.unwrap().contains(&"fresh".to_owned()));
    let none = client.database("nowhere");
    assert_eq!(none.collection::<Document>("c").estimated_document_count().await.unwrap(), 0);
    assert!(none.list_collection_names().await.unwrap().is_empty());
}

/// A retryable clusterInsert ends the server behind.
async fn refused(cluster: &Cluster) {
    let id = doc! { "id": bson::Uuid::new() };
    let insert = doc! { "insert": "plain", "documents": [{ "_id": -1 }], "lsid": &id, "txnNumber": 1_i64 };
    assert_eq!(cluster.refusal("d", insert.clone()).await, 20);
    let mut transaction = insert.clone();
    transaction.extend(doc! { "startTransaction": true, "autocommit": false });
    assert_eq!(cluster.refusal("d", transaction).await, 20);
    assert_eq!(
        cluster.refusal("admin", doc! { "commitTransaction": 1, "lsid": &id, "txnNumber": 1_i64 }).await,
        59
    );
    for name in ["findAndModify", "mapReduce", "clusterInsert", "shutdown", "nonsense", "replSetGetStatus"] {
        assert_eq!(cluster.refusal("admin", doc! { name: 1 }).await, 59, "{name}");
    }
    assert_eq!(cluster.refusal("d", doc! { "listShards": 1 }).await, 13);
    assert_eq!(cluster.refusal("d", doc! { "getMore": 12_345_i64, "collection": "plain" }).await, 43);
    // As would a getMore of these.
    let stream = doc! { "aggregate": "plain", "pipeline": [{ "$changeStream": {} }], "cursor": {} };
    assert_eq!(cluster.refusal("d", stream).await, 20);
    assert_eq!(cluster.refusal("d", doc! { "find": "plain", "tailable": true, "awaitData": true }).await, 20);
    let plain = doc! { "insert": "plain", "documents": [{ "_id": -2 }], "lsid": id };
    assert_eq!(cluster.command("d", plain).await.unwrap().get_i32("n").unwrap(), 1);
    cluster
        .command("d", doc! { "delete": "plain", "deletes": [{ "q": { "_id": -2 }, "limit": 1 }] })
        .await
        .unwrap();
    // Nothing of it came to pass on the server behind.
    let local = cluster.behind.command(doc! { "listDatabases": 1, "nameOnly": true }).await.unwrap();
    assert!(!local.to_string().contains("\"d\""), "{local}");
}

/// Some drivers greet by OP_QUERY.
async fn old_greetings(cluster: &Cluster) {
    use tokio::io::AsyncWriteExt;
    let mut stream = tokio::net::TcpStream::connect(cluster.listen).await.unwrap();
    for (name, is_greeting) in [("isMaster", true), ("find", false)] {
        let query = bson::RawDocumentBuf::try_from(&doc! { name: 1 }).unwrap();
        let query = wire::Query { collection: "admin.$cmd".into(), query };
        stream.write_all(query.encode(5).unwrap().bytes()).await.unwrap();
        let frame = wire::Frame::read(&mut stream).await.unwrap().unwrap();
        let reply = Document::try_from(&*wire::Reply::decode(&frame).unwrap().document).unwrap();
        if is_greeting {
            assert_eq!(reply.get_str("msg").unwrap(), "isdbgrid");
            assert!(reply.get_bool("mongosoakStandIn").unwrap());
            assert!(!reply.contains_key("logicalSessionTimeoutMinutes"));
        } else {
            assert_eq!(reply.get_i32("code").unwrap(), 352);
        }
    }
}

async fn status(cluster: &Cluster) {
    let status = cluster.admin(doc! { "mongosoakRouter": 1 }).await;
    let what = status.get_str("mongosoakRouter").unwrap();
    assert!(what.starts_with("stand-in router (cluster* commands of mongod "), "{what}");
    assert_eq!(status.get_document("cursors").unwrap().get_i64("open").unwrap(), 0, "{status}");
    assert!(status.to_string().contains("clusterInsert"));
    // The counts after moves needed it.
    assert!(status.get_i64("staleResends").unwrap() > 0, "{status}");
    let error = cluster.command("d", doc! { "mongosoakRouter": 1 }).await.unwrap_err();
    assert!(matches!(error, CommandError::Server { code: 13, .. }), "{error}");
}
