//! What the router costs over the server behind it: point reads through rtr itself, as `clusterFind`, and through the
//! router, as `find`, in paired rounds.
//!
//! `cargo bench -p router --bench hop -- [ROUNDS] [SECONDS] [CONNECTIONS]`. Starts real servers, so without
//! arguments (as `cargo test --benches` has it) it does nothing.

#![allow(clippy::unwrap_used, reason = "a bench may panic")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use wire::hot::{Line, Message};

const KEYS: i64 = 10_000;
/// Bytes of each document beside its key.
const DOCUMENT_BYTES: usize = 200;
/// Part of the length of a measurement that is read before, and not counted.
const WARM_UP: f64 = 0.2;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let numbers = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let numbers = numbers.map(|argument| argument.parse::<u64>()).collect::<Result<Vec<_>, _>>()?;
    let [rounds, seconds, connections] = match numbers[..] {
        [] => {
            println!("hop: needs ROUNDS [SECONDS] [CONNECTIONS]");
            return Ok(());
        }
        [rounds] => [rounds, 2, 8],
        [rounds, seconds] => [rounds, seconds, 8],
        [rounds, seconds, connections, ..] => [rounds, seconds, connections],
    };
    // The router has threads of its own, as it has a process of its own in use.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let cluster = runtime.block_on(runtime.spawn(support::Cluster::start(Duration::from_secs(60))))?;
    let (direct, through) = (cluster.behind.address.clone(), cluster.listen.to_string());
    let load = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bench = bench(&direct, &through, rounds, Duration::from_secs(seconds), connections);
    tokio::task::LocalSet::new().block_on(&load, bench)?;
    runtime.block_on(cluster.stop());
    Ok(())
}

async fn bench(
    direct: &str,
    through: &str,
    rounds: u64,
    length: Duration,
    connections: u64,
) -> Result<(), Failure> {
    fill(through).await?;
    let ways = [(direct, body("clusterFind")), (through, body("find"))];
    let (mut speeds, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..rounds {
        let mut pair = [0.0; 2];
        // Whoever is first in a round is not always the same.
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (address, body) = &ways[at];
            pair[at] = read(address, body, length, connections).await?;
            speeds[at].push(pair[at]);
        }
        println!("direct {:.0} ops/s, routed {:.0} ops/s: x{:.3}", pair[0], pair[1], pair[1] / pair[0]);
        ratios.push(pair[1] / pair[0]);
    }
    let [direct, routed] = speeds.map(median);
    println!(
        "medians of {rounds} rounds, {connections} connections: direct {direct:.0} ops/s ({:.0} us), routed {routed:.0} ops/s ({:.0} us), ratio of a round x{:.3}",
        connections as f64 * 1e6 / direct,
        connections as f64 * 1e6 / routed,
        median(ratios),
    );
    Ok(())
}

/// The same read for both, but for what the router is there for.
fn body(command: &str) -> RawDocumentBuf {
    let mut body = RawDocumentBuf::new();
    body.append(bson::raw::CString::try_from(command).unwrap(), "c");
    let rest = rawdoc! { "filter": { "_id": 0_i64 }, "limit": 1, "singleBatch": true,
    "readConcern": { "level": "local" }, "$db": "bench" };
    for element in &rest {
        let (name, value) = element.unwrap();
        body.append(name, value);
    }
    body
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn fill(address: &str) -> Result<(), Failure> {
    let mut line = Line::connect(address).await?;
    line.greet("bench").await?;
    let shard = rawdoc! { "shardCollection": "bench.c", "key": { "_id": "hashed" }, "$db": "admin" };
    line.exchange(&mut Message::new(&shard)).await?;
    let mut insert = Message::with_list(&rawdoc! { "insert": "c", "$db": "bench" }, "documents");
    let text = "x".repeat(DOCUMENT_BYTES);
    for from in (0..KEYS).step_by(1_000) {
        let list = insert.list();
        (from..from + 1_000)
            .for_each(|key| list.extend(rawdoc! { "_id": key, "a": text.as_str() }.as_bytes()));
        line.exchange(&mut insert).await?;
    }
    Ok(())
}

/// Reads with all connections for so long; reads a second.
async fn read(
    address: &str,
    body: &RawDocumentBuf,
    length: Duration,
    connections: u64,
) -> Result<f64, Failure> {
    let (done, ended) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
    let mut workers = JoinSet::new();
    for worker in 0..connections {
        let mut line = Line::connect(address).await?;
        line.greet("bench").await?;
        let (done, ended) = (Rc::clone(&done), Rc::clone(&ended));
        let mut find = Message::new(body);
        workers.spawn_local(async move {
            let slot = find.slot(&["filter", "_id"]).ok_or("no key in the message")?;
            let mut key = worker as i64 * 1_000;
            while !ended.get() {
                key = (key + 7_919) % KEYS;
                find.fill(&slot, &key.to_le_bytes());
                line.exchange(&mut find).await.map_err(|e| e.to_string())?;
                if line.reply().len() < DOCUMENT_BYTES {
                    return Err(format!("no document {key}"));
                }
                done.set(done.get() + 1);
            }
            Ok(())
        });
    }
    // What the connections make while they start is not counted.
    sleep(length.mul_f64(WARM_UP)).await;
    let before = done.get();
    sleep(length).await;
    let count = done.get() - before;
    ended.set(true);
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(count as f64 / length.as_secs_f64())
}
