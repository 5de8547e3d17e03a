//! Sends damaged and odd messages to a router, and says when the router or the server behind it is gone.
//! `cargo run -p router --example fuzz -- ROUTER RTR SECONDS [SEED]`, with the addresses of `--example cluster`.

#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::time::Duration;

use bson::{Bson, Document, RawDocumentBuf, doc};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::{Connection, Frame, Msg, Query, Sequence};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(20);

/// Fields that might do something to a command that does not expect them.
const FIELDS: [&str; 34] = [
    "lsid",
    "txnNumber",
    "startTransaction",
    "autocommit",
    "stmtId",
    "readConcern",
    "writeConcern",
    "$readPreference",
    "$clusterTime",
    "maxTimeMS",
    "let",
    "batchSize",
    "singleBatch",
    "limit",
    "skip",
    "hint",
    "sort",
    "collation",
    "explain",
    "comment",
    "allowDiskUse",
    "allowPartialResults",
    "noCursorTimeout",
    "returnKey",
    "showRecordId",
    "mirrored",
    "apiVersion",
    "apiStrict",
    "$audit",
    "$client",
    "$configData",
    "bypassDocumentValidation",
    "collectionUUID",
    "encryptionInformation",
];

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (router, behind, seconds, seed) = match &arguments[..] {
        [router, behind, seconds] => (router, behind, seconds, 1),
        [router, behind, seconds, seed] => (router, behind, seconds, seed.parse()?),
        _ => return Err("needs ROUTER RTR SECONDS [SEED]".into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut sent = 0_u64;
        let fuzzing = fuzz(router, behind, seed, &mut sent);
        let ended = timeout(Duration::from_secs(seconds.parse()?), fuzzing).await;
        println!(
            "{sent} messages sent, seed {seed}: {}",
            if ended.is_err() { "all alive" } else { "SOMETHING ENDED" }
        );
        Ok(())
    })
}

/// Returns when somebody is gone.
async fn fuzz(router: &str, behind: &str, seed: u64, sent: &mut u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    loop {
        let mut last = Vec::new();
        for _ in 0..50 {
            let bytes = message(&mut chance);
            send(router, &bytes, &mut chance).await;
            *sent += 1;
            last.push(bytes);
        }
        for address in [router, behind] {
            if let Err(error) = ping(address).await {
                println!("{address} does not answer: {error}; the last messages:");
                for bytes in last.iter().rev().take(5) {
                    println!("{}", bytes.escape_ascii());
                }
                return;
            }
        }
    }
}

async fn ping(address: &str) -> Result<(), wire::CommandError> {
    let mut connection = Connection::connect(address, LONG).await?;
    connection.command("admin", &doc! { "ping": 1 }, LONG).await.map(drop)
}

async fn send(router: &str, bytes: &[u8], chance: &mut Chance) {
    let Ok(mut stream) = TcpStream::connect(router).await else { return };
    let cut = if chance.below(20) == 0 { chance.below(bytes.len()) } else { bytes.len() };
    if stream.write_all(&bytes[..cut]).await.is_ok() && cut == bytes.len() && chance.below(10) != 0 {
        // An answer, the end of the connection, or a message that is not whole yet.
        let _answer = timeout(SHORT, Frame::read(&mut stream)).await;
    }
}

fn message(chance: &mut Chance) -> Vec<u8> {
    let mut command = templates().swap_remove(chance.below(TEMPLATES));
    for _ in 0..chance.below(4) {
        let value = value(chance);
        command.insert(FIELDS[chance.below(FIELDS.len())], value);
    }
    let body = RawDocumentBuf::try_from(&command).unwrap();
    let mut bytes = match chance.below(10) {
        0 => Query { collection: "d.$cmd".into(), query: body }.encode(7).unwrap().bytes().to_vec(),
        1 | 2 => {
            let documents = vec![RawDocumentBuf::try_from(&doc! { "_id": chance.next() as i64 }).unwrap(); 2];
            let sequences = vec![Sequence { name: "documents".into(), documents }];
            let flags = [0, wire::MORE_TO_COME, 1 << 16][chance.below(3)];
            Msg { flags, body, sequences }.encode(7, 0).unwrap().bytes().to_vec()
        }
        _ => Msg::new(body).encode(7, 0).unwrap().bytes().to_vec(),
    };
    for _ in 0..chance.below(4) {
        // The length of the message stays right more often than not, else nothing gets any further.
        let from = if chance.below(8) == 0 { 0 } else { 16 };
        let at = from + chance.below(bytes.len() - from);
        bytes[at] = match chance.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at].wrapping_add(1),
            _ => chance.next() as u8,
        };
    }
    bytes
}

fn value(chance: &mut Chance) -> Bson {
    match chance.below(8) {
        0 => Bson::Int32(chance.next() as i32),
        1 => Bson::Int64([0, 1, -1, i64::MAX, i64::MIN][chance.below(5)]),
        2 => Bson::Boolean(chance.below(2) == 0),
        3 => Bson::String("majority".into()),
        4 => Bson::Document(doc! { "id": bson::Uuid::new() }),
        5 => Bson::Document(doc! { "level": (["local", "snapshot", "available"][chance.below(3)]) }),
        6 => Bson::Document(doc! { "w": chance.below(3) as i32, "mode": "nearest" }),
        _ => Bson::Array(vec![Bson::Null, Bson::MinKey]),
    }
}

const TEMPLATES: usize = 17;

fn templates() -> Vec<Document> {
    let in_d = |mut command: Document, database: &str| {
        command.insert("$db", database);
        command
    };
    vec![
        in_d(doc! { "find": "c", "filter": { "_id": 1 } }, "d"),
        in_d(doc! { "find": "c", "batchSize": 0 }, "d"),
        in_d(doc! { "insert": "c", "documents": [{ "_id": bson::oid::ObjectId::new() }] }, "d"),
        in_d(doc! { "insert": "c" }, "d"),
        in_d(
            doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }] },
            "d",
        ),
        in_d(doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] }, "d"),
        in_d(
            doc! { "aggregate": "c", "pipeline": [{ "$group": { "_id": "$n", "x": { "$sum": 1 } } }], "cursor": {} },
            "d",
        ),
        in_d(doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {} }, "admin"),
        in_d(doc! { "getMore": 1_i64, "collection": "c" }, "d"),
        in_d(doc! { "count": "c", "query": { "n": 1 } }, "d"),
        in_d(doc! { "distinct": "c", "key": "n" }, "d"),
        in_d(doc! { "killCursors": "c", "cursors": [1_i64] }, "d"),
        in_d(doc! { "explain": { "find": "c", "filter": {} }, "verbosity": "queryPlanner" }, "d"),
        in_d(doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] }, "d"),
        in_d(doc! { "split": "d.c", "middle": { "_id": 5 } }, "admin"),
        in_d(doc! { "listDatabases": 1 }, "admin"),
        in_d(doc! { "isMaster": 1 }, "admin"),
    ]
}
