//! Each effect against plain TCP servers that know what arrived: only they say what is true.

mod closing;
mod effects;
mod lifting;
mod parties;
mod upstreams;

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use bson::doc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::Msg;

use super::*;

/// Long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(5);
/// Long enough that nothing more comes.
const A_WHILE: Duration = Duration::from_millis(300);

/// An `OP_MSG`: a command, and an empty document of that name beside it.
pub(super) fn message(command: &str, extra: Option<&str>) -> Vec<u8> {
    let mut body = doc! { command: 1 };
    if let Some(name) = extra {
        body.insert(name, doc! {});
    }
    body.insert("$db", "admin");
    let body = bson::serialize_to_raw_document_buf(&body).unwrap();
    Msg::new(body).encode(1, 0).unwrap().bytes().to_vec()
}

/// A server on this machine that does the same with each connection. Ends when it is dropped.
struct Server {
    port: u16,
    _accepts: JoinSet<()>,
}

impl Server {
    async fn start<F: Future<Output = io::Result<()>> + Send + 'static>(
        serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut accepts = JoinSet::new();
        accepts.spawn(async move {
            let mut served = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => served.spawn(serve(accepted.unwrap().0)),
                    // What goes wrong here is what the tests are about.
                    Some(_ended) = served.join_next() => continue,
                };
            }
        });
        Self { port, _accepts: accepts }
    }

    /// Sends back what it gets.
    async fn echo() -> Self {
        Self::start(|mut stream| async move {
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.map(drop)
        })
        .await
    }

    /// Sends [`block`] again and again as soon as it got something: 800 KB/s, so that 200 of them come to
    /// 160 MB/s, about what a test without optimisation can check.
    async fn source() -> Self {
        let block = block();
        Self::start(move |mut stream| {
            let block = block.clone();
            async move {
                stream.read_u8().await?;
                loop {
                    stream.write_all(&block).await?;
                    sleep(Duration::from_millis(20)).await;
                }
            }
        })
        .await
    }
}

/// A part of an endless stream. Its length divides no buffer, so that a part that is missing shows.
fn block() -> Vec<u8> {
    numbers(0, 4093)
}

/// So many numbers in sequence, four bytes each: a missing or doubled byte shows.
fn numbers(from: u32, count: u32) -> Vec<u8> {
    (from..from + count).flat_map(u32::to_be_bytes).collect()
}

fn limits() -> Limits {
    Limits { connections_max: 1000, half_closed: Duration::from_secs(2), threads: 1 }
}

/// A network of members `a`, `b` ... in front of these ports.
async fn network(upstreams: &[u16]) -> Network {
    let names = ["a", "b", "c"].into_iter();
    let members: Vec<_> = names
        .zip(upstreams)
        .map(|(name, upstream)| MemberPorts { name: name.into(), listen: None, upstream: (*upstream).into() })
        .collect();
    Network::start(&members, limits()).await.unwrap()
}

async fn dial(network: &Network, name: &str) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, network.port(name).unwrap())).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends, and expects the same back, however late.
async fn echoes(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    expect(stream, bytes).await
}

async fn expect(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut back = vec![0; bytes.len()];
    timeout(SOON, stream.read_exact(&mut back)).await??;
    assert!(back == bytes, "other bytes came back, or in another order");
    Ok(())
}

/// A connection of a client that is through.
async fn client(network: &Network, name: &str) -> TcpStream {
    let mut stream = dial(network, name).await;
    echoes(&mut stream, &message("hello", None)).await.unwrap();
    stream
}

/// How the connection ended: `Ok` with the bytes that came before a FIN, or the error.
async fn end_of(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    timeout(SOON, stream.read_to_end(&mut bytes)).await?.map(|_| bytes)
}

async fn is_reset(stream: &mut TcpStream) -> bool {
    end_of(stream).await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(A_WHILE, stream.read_u8()).await.is_err()
}

fn rule(does: Effect) -> Vec<Rule> {
    vec![Rule { on: Selector::all(), does }]
}

fn stall(side: Side) -> Vec<Rule> {
    rule(Effect::Stall { side, on_lift: OnLift::Deliver })
}

fn delay(ms: u64, jitter_ms: u64, side: Side) -> Vec<Rule> {
    let (delay, jitter) = (Duration::from_millis(ms), Duration::from_millis(jitter_ms));
    rule(Effect::Delay { delay, jitter, seed: 7, side })
}

/// Puts rules in force and waits until they are.
async fn force(network: &Network, rules: Vec<Rule>) {
    network.set("test", rules);
    network.obeyed(SOON).await.unwrap();
}

async fn lift(network: &Network) -> Vec<RuleCount> {
    let counts = network.clear("test");
    network.obeyed(SOON).await.unwrap();
    counts
}

/// It has to end without trouble, in under a second.
async fn stop(network: Network) {
    let trouble = timeout(Duration::from_secs(1), network.stop()).await.expect("stops within a second");
    assert_eq!(trouble, Vec::<String>::new());
}

/// How long something took.
async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = now();
    let result = work.await;
    (result, now() - start)
}
