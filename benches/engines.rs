//! What the least of clients costs, for `scripts/bench` to set our engines against:
//!
//! `engines URI plain|socket read|insert SECONDS` sends operations as fast as 20 workers can, from one
//! single-threaded runtime, and prints one line of JSON: operations per second and microseconds of CPU per
//! operation (user and system of this whole process). `plain` is the loop over the driver that anybody would
//! write; `socket` speaks the protocol itself with messages made beforehand, looks at nothing but the length
//! of the answers, and is the floor that no client can be below. Documents are the `ycsb` ones of 1 KB.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bson::{RawDocumentBuf, doc, rawdoc};
use mimalloc::MiMalloc;
use mongodb::Client;
use mongodb::options::{ClientOptions, WriteConcern};
use mongosoak::clock::Clock;
use mongosoak::dataset::Documents;
use mongosoak::monitor;
use mongosoak::scenario::Shape;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use wire::Msg;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const WORKERS: u64 = 20;
const KEYS: u64 = 100_000;
const DATABASE: &str = "bench";
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [uri, client, op, seconds] = arguments.as_slice() else {
        println!("engines: run by scripts/bench");
        return Ok(());
    };
    let length = Duration::from_secs(seconds.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, bench(uri, client, op, length))
}

/// What the workers share.
struct Shared {
    clock: Clock,
    end: Duration,
    next: Cell<u64>,
    documents: Documents,
    done: Cell<u64>,
}

async fn bench(uri: &str, client: &str, op: &str, length: Duration) -> Result<(), Failure> {
    let documents = Documents::new(Shape::Ycsb, 1);
    let collection = format!("{client}_{op}");
    let driver = Client::with_uri_str(uri).await?;
    prepare(&driver, &collection, &documents).await?;
    let clock = Clock::start();
    let (before, end) = (monitor::usage(), clock.now() + length);
    let next = Cell::new(if op == "read" { 0 } else { KEYS });
    let shared = Rc::new(Shared { clock, end, next, documents, done: Cell::new(0) });
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let shared = Rc::clone(&shared);
        let target = driver.database(DATABASE).collection::<RawDocumentBuf>(&collection);
        let (read, plain) = (op == "read", client == "plain");
        let (address, collection) = (address(uri).await?, collection.clone());
        workers.push(tokio::task::spawn_local(async move {
            match plain {
                true => plain_loop(&shared, &target, read).await,
                false => socket_loop(&shared, &address, &collection, read).await,
            }
        }));
    }
    for worker in workers {
        worker.await?.map_err(|e| e.to_string())?;
    }
    let (seconds, done) = (clock.now().as_secs_f64(), shared.done.get() as f64);
    let cpu_us = (monitor::usage().cpu_s - before.cpu_s) * 1e6 / done;
    println!("{{\"ops_s\": {:.0}, \"cpu_us\": {cpu_us:.1}}}", done / seconds);
    Ok(())
}

async fn address(uri: &str) -> Result<String, Failure> {
    Ok(ClientOptions::parse(uri).await?.hosts[0].to_string())
}

async fn prepare(driver: &Client, name: &str, documents: &Documents) -> Result<(), Failure> {
    let target = driver.database(DATABASE).collection::<RawDocumentBuf>(name);
    target.drop().await?;
    for from in (0..KEYS).step_by(1_000) {
        target.insert_many((from..from + 1_000).map(|key| documents.document(key, 0))).ordered(false).await?;
    }
    Ok(())
}

impl Shared {
    /// The next key, while there is time: reads walk all keys with a stride, inserts count on.
    fn key(&self, read: bool) -> Option<u64> {
        let number = self.next.get();
        self.next.set(number + 1);
        self.done.set(self.done.get() + 1);
        let key = if read { number.wrapping_mul(7_919) % KEYS } else { number };
        (self.clock.now() < self.end).then_some(key)
    }
}

async fn plain_loop(
    shared: &Shared,
    target: &mongodb::Collection<RawDocumentBuf>,
    read: bool,
) -> Result<(), Failure> {
    while let Some(key) = shared.key(read) {
        if read {
            target.find_one(doc! { "_id": key as i64 }).await?.ok_or("not found")?;
        } else {
            let one = WriteConcern::nodes(1);
            target.insert_one(shared.documents.document(key, 0)).write_concern(one).await?;
        }
    }
    Ok(())
}

/// A key that stands in the message made beforehand where the real one goes.
const MARK: u64 = 0x1122_3344_5566_7788;

async fn socket_loop(shared: &Shared, address: &str, collection: &str, read: bool) -> Result<(), Failure> {
    let command = if read {
        rawdoc! { "find": collection, "filter": { "_id": MARK as i64 }, "limit": 1, "singleBatch": true, "$db": DATABASE }
    } else {
        let document = shared.documents.document(MARK, 0);
        rawdoc! { "insert": collection, "documents": [document], "writeConcern": { "w": 1 }, "$db": DATABASE }
    };
    let mut message = Msg::new(command).encode(1, 0)?.bytes().to_vec();
    let at = message.windows(8).position(|w| w == MARK.to_le_bytes()).ok_or("no key in the message")?;
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut answer = vec![0; 1 << 16];
    while let Some(key) = shared.key(read) {
        message[at..at + 8].copy_from_slice(&key.to_le_bytes());
        socket.write_all(&message).await?;
        let mut have = socket.read(&mut answer).await?;
        while have < 4 || have < i32::from_le_bytes(answer[..4].try_into()?) as usize {
            have += socket.read(&mut answer[have..]).await?;
        }
    }
    Ok(())
}
