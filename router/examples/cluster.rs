//! The cluster of the tests, for trying things by hand: prints the addresses and runs until its input ends.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Read;
use std::time::Duration;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let cluster = support::Cluster::start(Duration::from_secs(10)).await;
    println!("files  {}", cluster.folder().display());
    println!("router {}", cluster.listen);
    println!("behind {}", cluster.behind.address);
    println!("config {}", cluster.config.address);
    for shard in &cluster.shards {
        println!("shard  {}", shard.address);
    }
    let mut input = Vec::new();
    // Blocks this thread only; the router runs on others.
    std::io::stdin().read_to_end(&mut input)?;
    cluster.stop().await;
    Ok(())
}
