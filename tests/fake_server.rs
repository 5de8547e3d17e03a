//! The fake server does what its script says, as the real driver and our own connection see it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::Hint;
use mongodb::{Client, Collection};
use mongosoak::clock::Clock;
use support::fake_server::FakeServer;
use support::script::{Answer, Origin, Rule, Script, When};
use support::store::Id;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::{CommandError, Connection, Frame, Query, Reply};

const LONG: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "soak.docs";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn collection(server: &FakeServer) -> Collection<Document> {
    let client = Client::with_uri_str(server.uri()).await.unwrap();
    client.database("soak").collection("docs")
}

fn with_rule(when: When, answer: Answer) -> FakeServer {
    FakeServer::start(Script { rules: vec![Rule::insert(when, answer)], ..Script::default() })
}

fn keys(server: &FakeServer) -> Vec<i64> {
    server
        .documents(NAMESPACE, |documents| documents.values().filter_map(|d| d.get_i64("_id").ok()).collect())
}

fn batch(keys: std::ops::Range<i64>) -> Vec<Document> {
    keys.map(|key| doc! { "_id": key, "v": 1, "a": "x" }).collect()
}

fn write_errors(error: Error) -> Vec<(usize, i32)> {
    let ErrorKind::InsertMany(error) = *error.kind else { panic!("{error}") };
    error.write_errors.unwrap_or_default().iter().map(|e| (e.index, e.code)).collect()
}

#[tokio::test]
async fn the_driver_inserts_finds_updates_and_counts() {
    let server = FakeServer::start(Script::default());
    let docs = collection(&server).await;
    docs.insert_one(doc! { "_id": 1_i64, "v": 1, "a": "x" }).await.unwrap();
    docs.insert_many(batch(2..6)).await.unwrap();
    let update = docs.update_one(doc! { "_id": 3_i64 }, doc! { "$set": { "v": 2, "b": 7 } }).await.unwrap();
    assert_eq!((update.matched_count, update.modified_count), (1, 1));
    let found = docs.find_one(doc! { "_id": 3_i64 }).await.unwrap().unwrap();
    assert_eq!(found, doc! { "_id": 3_i64, "v": 2, "a": "x", "b": 7 });
    assert_eq!(docs.find_one(doc! { "_id": 99_i64 }).await.unwrap(), None);

    let range = docs.find(doc! { "_id": { "$gte": 2_i64, "$lt": 5_i64 } }).sort(doc! { "_id": -1 }).limit(2);
    let mut cursor = range.await.unwrap();
    let mut ids = Vec::new();
    while cursor.advance().await.unwrap() {
        ids.push(cursor.current().get_i64("_id").unwrap());
    }
    assert_eq!(ids, [4, 3]);
    assert_eq!(docs.count_documents(doc! {}).await.unwrap(), 5);
    assert_eq!(docs.estimated_document_count().await.unwrap(), 5);
    assert_eq!((server.count("insert"), server.count("update")), (2, 1));
    docs.drop().await.unwrap();
    assert_eq!(keys(&server), Vec::<i64>::new());
}

#[tokio::test]
async fn documents_can_be_changed_behind_the_clients_back() {
    let server = FakeServer::start(Script::default());
    let docs = collection(&server).await;
    docs.insert_many(batch(0..3)).await.unwrap();
    server.documents(NAMESPACE, |documents| {
        documents.remove(&Id::Number(0));
        documents.insert(Id::Number(1), rawdoc! { "_id": 1_i64, "a": "planted" });
    });
    assert_eq!(docs.find_one(doc! { "_id": 0_i64 }).await.unwrap(), None);
    let found = docs.find_one(doc! { "_id": 1_i64 }).await.unwrap().unwrap();
    assert_eq!(found.get_str("a").unwrap(), "planted");
}

#[tokio::test]
async fn a_hint_with_min_and_max_finds_keys_of_every_type() {
    let server = FakeServer::start(Script::default());
    let docs = collection(&server).await;
    docs.insert_many(batch(-1..3)).await.unwrap();
    docs.insert_one(doc! { "_id": "text" }).await.unwrap();
    let find = || docs.find(doc! {}).hint(Hint::Keys(doc! { "_id": 1 }));
    let mut above = find().min(doc! { "_id": 2_i64 }).await.unwrap();
    let mut ids = Vec::new();
    while above.advance().await.unwrap() {
        ids.push(above.current().get("_id").unwrap().map(|id| format!("{id:?}")));
    }
    assert_eq!(ids.len(), 2, "the 2 itself, and the text: {ids:?}");
    let mut below = find().max(doc! { "_id": 0_i64 }).await.unwrap();
    assert!(below.advance().await.unwrap());
    assert_eq!(below.current().get_i64("_id").unwrap(), -1);
    assert!(!below.advance().await.unwrap());
    assert!(docs.find(doc! {}).max(doc! { "_id": 0_i64 }).await.is_err(), "a hint is needed");
    let nothing = doc! { "$setOnInsert": { "v": 0 } };
    let barrier = docs.update_one(doc! { "_id": 0_i64 }, nothing).await.unwrap();
    assert_eq!((barrier.matched_count, barrier.modified_count), (1, 0));
}

#[tokio::test]
async fn a_freeze_holds_every_reply_and_ends_on_time() {
    let script = Script {
        service_time: ms(2),
        origin: Origin::Call,
        freezes: vec![ms(100)..ms(1_100)],
        ..Script::default()
    };
    let server = FakeServer::start(script);
    let docs = collection(&server).await;
    docs.insert_many(batch(0..1)).await.unwrap();
    let mut greeter = Connection::connect(&server.addr(), LONG).await.unwrap();
    server.arm();

    let clock = Clock::start();
    let (mut longest, mut shortest) = (Duration::ZERO, LONG);
    let reads = async {
        while clock.now() < ms(1_300) {
            let start = clock.now();
            docs.find_one(doc! { "_id": 0_i64 }).await.unwrap();
            longest = longest.max(clock.now() - start);
            shortest = shortest.min(clock.now() - start);
        }
    };
    let hello = async {
        clock.sleep_until(ms(200)).await;
        let error = greeter.command("admin", &doc! { "hello": 1 }, ms(300)).await.unwrap_err();
        assert!(matches!(error, CommandError::Timeout(_)), "{error}");
    };
    tokio::join!(reads, hello);
    assert!(longest.abs_diff(ms(1_000)) < ms(20), "{longest:?}");
    assert!(shortest >= ms(2) && shortest < ms(10), "{shortest:?}");
}

#[tokio::test]
async fn connections_are_served_at_the_same_time() {
    let server = FakeServer::start(Script { service_time: ms(100), ..Script::default() });
    let addr = server.addr();
    let mut reads = JoinSet::new();
    let clock = Clock::start();
    for _ in 0..20 {
        let addr = addr.clone();
        reads.spawn(async move {
            let mut connection = Connection::connect(&addr, LONG).await.unwrap();
            connection.command("soak", &doc! { "find": "docs" }, LONG).await.unwrap();
        });
    }
    reads.join_all().await;
    assert!((ms(100)..ms(300)).contains(&clock.now()), "{:?}", clock.now());
}

#[tokio::test]
async fn a_cut_reply_is_an_io_error_and_the_write_is_there() {
    let server = with_rule(When::Nth(2), Answer::CutReply);
    let docs = collection(&server).await;
    docs.insert_many(batch(0..1)).await.unwrap();
    let error = docs.insert_many(batch(1..2)).await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::Io(_)), "{error}");
    assert_eq!(keys(&server), [0, 1]);
    docs.insert_many(batch(2..3)).await.unwrap();
}

#[tokio::test]
async fn refused_commands_have_no_effect() {
    let answer = Answer::Error { code: 112, labels: vec!["RetryableWriteError"] };
    let server = with_rule(When::First(2), answer);
    let docs = collection(&server).await;
    for _ in 0..2 {
        let error = docs.insert_one(doc! { "_id": 1_i64 }).await.unwrap_err();
        assert!(matches!(*error.kind, ErrorKind::Command(ref e) if e.code == 112), "{error}");
        assert!(error.contains_label("RetryableWriteError"));
    }
    docs.insert_one(doc! { "_id": 1_i64 }).await.unwrap();
    assert_eq!((server.count("insert"), keys(&server)), (3, vec![1]));
}

#[tokio::test]
async fn a_missed_write_concern_is_told_and_the_writes_are_there() {
    let server = with_rule(When::Every(2), Answer::WriteConcernError { code: 64 });
    let docs = collection(&server).await;
    docs.insert_many(batch(0..5)).await.unwrap();
    let error = docs.insert_many(batch(5..10)).await.unwrap_err();
    let ErrorKind::InsertMany(ref told) = *error.kind else { panic!("{error}") };
    assert_eq!(told.write_concern_error.as_ref().map(|e| e.code), Some(64));
    assert_eq!(keys(&server).len(), 10);
}

#[tokio::test]
async fn part_of_a_batch_goes_in_as_on_a_real_server() {
    for (ordered, kept) in [(false, 9), (true, 4)] {
        let server = FakeServer::start(Script::default());
        let docs = collection(&server).await;
        docs.insert_many(batch(4..5)).await.unwrap();
        let error = docs.insert_many(batch(0..10)).ordered(ordered).await.unwrap_err();
        assert_eq!(write_errors(error), [(4, 11000)]);
        assert_eq!(keys(&server).len(), kept + 1);
    }
    let server = with_rule(When::Nth(1), Answer::WriteErrors { indexes: vec![1, 3], code: 121 });
    let error = collection(&server).await.insert_many(batch(0..5)).ordered(false).await.unwrap_err();
    assert_eq!(write_errors(error), [(1, 121), (3, 121)]);
    assert_eq!(keys(&server), [0, 2, 4]);
}

#[tokio::test]
async fn swallowed_commands_are_never_answered_while_hello_goes_on() {
    let script = Script { origin: Origin::Call, swallows: vec![ms(0)..Duration::MAX], ..Script::default() };
    let server = FakeServer::start(script);
    let mut connection = Connection::connect(&server.addr(), LONG).await.unwrap();
    connection.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap();
    server.arm();
    connection.command("admin", &doc! { "hello": 1 }, LONG).await.unwrap();
    let insert = doc! { "insert": "docs", "documents": [{ "_id": 1_i64 }] };
    let error = connection.command("soak", &insert, ms(200)).await.unwrap_err();
    assert!(matches!(error, CommandError::Timeout(_)), "{error}");
    assert_eq!((server.count("insert"), keys(&server).len()), (1, 0));
}

#[tokio::test]
async fn a_legacy_hello_is_answered_in_kind() {
    let server = FakeServer::start(Script::default());
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    let query = Query { collection: "admin.$cmd".into(), query: rawdoc! { "isMaster": 1 } };
    stream.write_all(query.encode(1).unwrap().bytes()).await.unwrap();
    let frame = Frame::read(&mut stream).await.unwrap().unwrap();
    let reply: RawDocumentBuf = Reply::decode(&frame).unwrap().document;
    assert_eq!(reply.get_i32("maxWireVersion").unwrap(), 17);
}

#[tokio::test]
async fn the_server_tells_about_itself_and_refuses_what_it_does_not_know() {
    let server = FakeServer::start(Script::default());
    let mut connection = Connection::connect(&server.addr(), LONG).await.unwrap();
    let status = connection.command("admin", &doc! { "serverStatus": 1 }, LONG).await.unwrap();
    assert_eq!(status.get_i64("pid").unwrap(), i64::from(std::process::id()));
    let error = connection.command("admin", &doc! { "shutdown": 1 }, LONG).await.unwrap_err();
    assert!(matches!(error, CommandError::Server { code: 59, .. }), "{error}");
    let update = doc! { "update": "docs", "updates": [{ "q": { "_id": { "$near": 1 } }, "u": {} }] };
    let reply = connection.command("soak", &update, LONG).await.unwrap();
    assert_eq!(reply.get_array("writeErrors").unwrap().len(), 1);
}
