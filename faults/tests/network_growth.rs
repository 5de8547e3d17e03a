//! Descriptors and memory do not grow with the number of connections that were made. In a program of its own:
//! other tests have descriptors as well.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io;
use std::net::Ipv4Addr;

use faults::network::{Limits, MemberPorts, Network, Selector};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Connections that are open at the same time.
const AT_ONCE: usize = 50;
/// What an allocator may keep, and pages of code that are used for the first time.
const RSS_GROWTH_MAX_BYTES: usize = 4 << 20;

#[tokio::test]
async fn thousands_of_connections_leave_nothing() {
    grows_not(3_000).await;
}

/// `cargo nextest run -p faults --run-ignored only --no-capture network_growth`
#[tokio::test]
#[ignore = "takes minutes; prints what it measures"]
async fn a_hundred_thousand_connections_leave_nothing() {
    grows_not(100_000).await;
}

async fn grows_not(count: usize) {
    let (port, _echo) = echo().await;
    let member = MemberPorts { name: "a".into(), listen: None, upstream: port.into() };
    let network = Network::start(&[member], Limits::default()).await.unwrap();
    let through = network.port("a").unwrap();
    many(&network, through, 1_000).await;
    let (descriptors, rss) = (descriptors(), rss_bytes());
    many(&network, through, count).await;
    let (descriptors_after, rss_after) = (self::descriptors(), rss_bytes());
    println!(
        "{count} connections: descriptors {descriptors} -> {descriptors_after}, RSS {} -> {} KiB",
        rss >> 10,
        rss_after >> 10
    );
    assert_eq!(descriptors_after, descriptors);
    assert!(rss_after < rss + RSS_GROWTH_MAX_BYTES, "RSS {rss} -> {rss_after} bytes");
    assert_eq!(network.listeners()[0].accepted, 1_000 + count as u64);
    assert_eq!(network.stop().await, Vec::<String>::new());
}

/// A server that sends back what it gets.
async fn echo() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut served = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let mut stream = accepted.unwrap().0;
                    served.spawn(async move {
                        let (mut read, mut write) = stream.split();
                        tokio::io::copy(&mut read, &mut write).await
                    });
                }
                // Resets are part of the test.
                Some(_ended) = served.join_next() => {}
            }
        }
    });
    (port, task)
}

/// Makes so many connections and waits until all are gone.
async fn many(network: &Network, port: u16, count: usize) {
    let mut tasks: JoinSet<io::Result<()>> = JoinSet::new();
    for number in 0..count {
        if tasks.len() == AT_ONCE {
            tasks.join_next().await.unwrap().unwrap().unwrap();
        }
        tasks.spawn(one(port, number));
        if number % 1_000 == 999 {
            network.reset(&Selector::all());
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    while !network.connections().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// One connection with some traffic; ends by FIN, by RST, or half-closed first. A reset by the network is fine.
async fn one(port: u16, number: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut bytes = [b'x'; 3_000];
    let talk = async {
        stream.write_all(&bytes.clone()).await?;
        stream.read_exact(&mut bytes).await?;
        match number % 3 {
            0 => stream.set_zero_linger(),
            1 => {
                stream.shutdown().await?;
                stream.read_u8().await.map(drop)
            }
            _ => Ok(()),
        }
    };
    match talk.await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        ended => ended,
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn rss_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
