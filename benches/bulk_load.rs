//! Bulk load into one real member, ours against a plain `insert_many` loop over the driver, in turn.
//!
//! `cargo bench --bench bulk_load [DOCUMENTS]` prints documents per second of each round and the ratio of
//! the medians. Both write the same `row` documents with four tasks in batches of 1,000, w: 1; ours also
//! waits for a majority at the end and keeps its progress. Client and server share the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::RawDocumentBuf;
use mimalloc::MiMalloc;
use mongodb::Client;
use mongosoak::clock::Clock;
use mongosoak::cluster::{Lifetime, ManagedCluster, Start, binary};
use mongosoak::dataset::Documents;
use mongosoak::event::Events;
use mongosoak::scenario::{Dataset, Managed, Shape};
use mongosoak::workload::{self, Loading, Unfinished};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const ROUNDS: usize = 3;
const TASKS: usize = 4;
const BATCH: u64 = 1_000;
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let documents = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(1_000_000);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(bench(documents))
}

async fn bench(documents: u64) -> Result<(), Failure> {
    let found = binary::find(None).await?;
    let settings = Managed { members: 1, cache_bytes: 1 << 30, oplog_bytes: 1 << 30, ..Managed::default() };
    let dir = tempfile::tempdir()?;
    let start = Start {
        settings: &settings,
        binary: &found,
        routing: None,
        dir: dir.path().into(),
        lifetime: Lifetime::WithTester,
    };
    let (events, mut queue) = Events::channel(Clock::start());
    let mut drain = JoinSet::new();
    drain.spawn(async move { while queue.recv().await.is_some() {} });
    let cluster = ManagedCluster::start(&start, &events, &CancellationToken::new()).await?;
    let client = Client::with_uri_str(cluster.uri()).await?;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        ours.push(load(&client, &format!("ours{round}"), documents).await?);
        plain.push(plain_loop(&client, &format!("plain{round}"), documents).await?);
        println!("round {round}: mongosoak {:.0}/s, plain loop {:.0}/s", ours[round], plain[round]);
    }
    println!("mongosoak / plain loop: {:.2}", median(&mut ours) / median(&mut plain));
    cluster.stop_all(Duration::ZERO).await;
    Ok(())
}

/// Documents per second of our loader.
async fn load(client: &Client, collection: &str, documents: u64) -> Result<f64, Failure> {
    let dataset = Dataset {
        shape: Shape::Row,
        seed: None,
        documents,
        first: 0,
        database: "bench".into(),
        collection: collection.into(),
        indexes: Vec::new(),
        shard_key: None,
    };
    let at = Loading {
        client: client.clone(),
        dataset,
        documents: Documents::new(Shape::Row, 1),
        seed: 1,
        clock: Clock::start(),
        stall: workload::STALL,
        stop: CancellationToken::new(),
        counters: Arc::default(),
    };
    let loaded = workload::load(&at, Unfinished::Refuse).await?;
    workload::drop_ours(&at).await?;
    Ok(documents as f64 / loaded.filling.as_secs_f64())
}

/// Documents per second of the loop that anybody would write.
async fn plain_loop(client: &Client, collection: &str, documents: u64) -> Result<f64, Failure> {
    let target = client.database("bench").collection::<RawDocumentBuf>(collection);
    let (content, next) = (Documents::new(Shape::Row, 1), Arc::new(AtomicU64::new(0)));
    let clock = Clock::start();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (target, content, next) = (target.clone(), content.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                if from >= documents {
                    return Ok::<_, mongodb::error::Error>(());
                }
                let batch = (from..documents.min(from + BATCH)).map(|key| content.document(key, 0));
                target.insert_many(batch).ordered(false).await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let seconds = clock.now().as_secs_f64();
    target.drop().await?;
    Ok(documents as f64 / seconds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
