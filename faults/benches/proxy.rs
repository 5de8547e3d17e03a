//! What the proxies of the network faults cost: point reads from one mongod, directly and through a proxy, in
//! turn, by some connections of the leanest client that we have.
//!
//! `cargo bench -p faults --bench proxy -- PATH_OF_MONGOD [ROUNDS [SECONDS [CONNECTIONS]]]` prints each round, and the
//! medians (60 rounds of 1 s with 32 connections). The client and the proxy have a thread each, as in the tester. Quote
//! ratios: the machine's own noise is in all of it.

use std::cell::Cell;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use bson::rawdoc;
use faults::network::{Limits, MemberPorts, Network, Upstream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wire::hot::{Line, Message};

const KEYS: i64 = 10_000;
/// Bytes of each document beside its key.
const DOCUMENT_BYTES: usize = 1_000;
/// Part of the length of a measurement that is read before, and not counted.
const WARM_UP: f64 = 0.1;
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some(mongod) = arguments.first() else {
        println!("proxy: needs the path of a mongod: cargo bench -p faults --bench proxy -- PATH");
        return Ok(());
    };
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (rounds, seconds, connections) = (number(1, 60)?, number(2, 1)?, number(3, 32)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bench = bench(Path::new(mongod), rounds, Duration::from_secs(seconds), connections);
    tokio::task::LocalSet::new().block_on(&runtime, bench)
}

async fn bench(mongod: &Path, rounds: u64, length: Duration, connections: u64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let _server = start(mongod, folder.path(), port)?;
    let direct = format!("127.0.0.1:{port}");
    timeout(Duration::from_secs(30), fill(&direct)).await??;
    // As the proxy of a managed cluster does.
    let upstream = Upstream::Socket(folder.path().join(format!("mongodb-{port}.sock")));
    let member = MemberPorts { name: "node1".into(), listen: None, upstream };
    let network = Network::start(&[member], Limits::default()).await?;
    let through = format!("127.0.0.1:{}", network.port("node1").ok_or("no port")?);
    let (mut directs, mut throughs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Whoever is first in a round is not always the same.
        let (mut speeds, mut cpu_us) = ([0.0; 2], [0.0; 2]);
        for at in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let before = cpu_s_of_the_proxy()?;
            speeds[at] = read([&direct, &through][at], length, connections).await?;
            let reads = speeds[at] * length.as_secs_f64() * (1.0 + WARM_UP);
            cpu_us[at] = (cpu_s_of_the_proxy()? - before) * 1e6 / reads;
        }
        println!(
            "direct {:.0} ops/s, proxied {:.0} ops/s: x{:.3}; the proxy took {:.1} us of CPU a read",
            speeds[0],
            speeds[1],
            speeds[1] / speeds[0],
            cpu_us[1]
        );
        ratios.push(speeds[1] / speeds[0]);
        directs.push(speeds[0]);
        throughs.push(speeds[1]);
    }
    let (direct, proxied, ratio) = (median(directs), median(throughs), median(ratios));
    println!("medians: direct {direct:.0} ops/s, proxied {proxied:.0} ops/s, ratio of a round x{ratio:.3}");
    for trouble in network.stop().await {
        println!("trouble: {trouble}");
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn start(mongod: &Path, folder: &Path, port: u16) -> io::Result<Child> {
    // Servers that scripts/get-mongod fetched have their libraries beside them.
    let libraries = mongod.parent().unwrap_or(mongod).join("../lib");
    Command::new(mongod)
        .env("LD_LIBRARY_PATH", libraries)
        .args(["--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "0.25"])
        .arg("--unixSocketPrefix")
        .arg(folder)
        .args(["--port", &port.to_string(), "--dbpath"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Connects as soon as the server is there, and inserts all documents.
async fn fill(address: &str) -> Result<(), Failure> {
    let mut line = loop {
        match Line::connect(address).await {
            Ok(line) => break line,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    line.greet("bench").await?;
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
async fn read(address: &str, length: Duration, connections: u64) -> Result<f64, Failure> {
    let (done, ended) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
    let mut workers = JoinSet::new();
    for worker in 0..connections {
        let mut line = Line::connect(address).await?;
        line.greet("bench").await?;
        let (done, ended) = (Rc::clone(&done), Rc::clone(&ended));
        workers.spawn_local(async move {
            let body = rawdoc! { "find": "c", "filter": { "_id": 0_i64 }, "limit": 1, "singleBatch": true, "$db": "bench" };
            let mut find = Message::new(&body);
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

/// User and system time of the thread of the network so far, in seconds.
fn cpu_s_of_the_proxy() -> Result<f64, Failure> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        if std::fs::read_to_string(folder.join("comm"))?.trim() == "network" {
            let schedstat = std::fs::read_to_string(folder.join("schedstat"))?;
            return Ok(schedstat.split(' ').next().ok_or("empty schedstat")?.parse::<f64>()? / 1e9);
        }
    }
    Err("no thread of that name".into())
}
