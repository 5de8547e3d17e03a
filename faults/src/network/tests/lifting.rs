//! Lifting takes under a second, whatever the traffic, and no byte is lost or doubled by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const STREAMS: usize = 200;
const TIMES: usize = 20;
const LIFT_WITHIN: Duration = Duration::from_secs(1);

/// Clients that read from a source as fast as they come, and check each.
struct Streams {
    /// Blocks that each has got so far.
    got: Vec<Arc<AtomicU32>>,
    tasks: JoinSet<io::Result<()>>,
}

impl Streams {
    async fn start(network: &Network) -> Self {
        let (mut got, mut tasks) = (Vec::new(), JoinSet::new());
        for _ in 0..STREAMS {
            let mut stream = dial_with_a_small_buffer(network).await;
            stream.write_all(&message("find", None)).await.unwrap();
            let count = Arc::new(AtomicU32::new(0));
            got.push(Arc::clone(&count));
            tasks.spawn(async move {
                let block = block();
                let mut bytes = block.clone();
                loop {
                    stream.read_exact(&mut bytes).await?;
                    let before = count.fetch_add(1, Ordering::Relaxed);
                    assert!(bytes == block, "other bytes than expected after {before} blocks");
                    tokio::task::yield_now().await;
                }
            });
        }
        let streams = Self { got, tasks };
        streams.all_move().await;
        streams
    }

    /// Waits until each has got something since now.
    async fn all_move(&self) {
        for (count, before) in self.got.iter().zip(self.seen()) {
            while count.load(Ordering::Relaxed) == before {
                sleep(Duration::from_millis(1)).await;
            }
        }
    }

    fn seen(&self) -> Vec<u32> {
        self.got.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// None may have failed so far.
    fn check(&mut self) {
        if let Some(ended) = self.tasks.try_join_next() {
            panic!("a stream ended: {ended:?}");
        }
    }
}

/// So that the kernel does not hold megabytes for each.
async fn dial_with_a_small_buffer(network: &Network) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let address = (Ipv4Addr::LOCALHOST, network.port("a").unwrap());
    socket.connect(address.into()).await.unwrap()
}

/// Twenty times: in force, held, lifted. All within a second, and all streams go on where they were.
async fn lift_again_and_again(rules: Vec<Rule>, threads: usize) {
    let source = Server::source().await;
    let member = MemberPorts { name: "a".into(), listen: None, upstream: source.port.into() };
    let network = Network::start(&[member], Limits { threads, ..limits() }).await.unwrap();
    let mut streams = Streams::start(&network).await;
    let mut longest = Duration::ZERO;
    for _ in 0..TIMES {
        force(&network, rules.clone()).await;
        sleep(Duration::from_millis(100)).await;
        let lifting = async {
            assert_eq!(network.connections().len(), STREAMS);
            assert_eq!(network.clear("test")[0].connections, STREAMS as u64);
            network.obeyed(SOON).await.unwrap();
            streams.all_move().await;
        };
        longest = longest.max(timed(lifting).await.1);
        streams.check();
    }
    println!("longest of {TIMES} liftings with {STREAMS} streams: {longest:?}");
    assert!(longest < LIFT_WITHIN, "{longest:?}");
    force(&network, rules).await;
    stop(network).await;
}

#[tokio::test]
async fn a_long_delay_is_lifted_within_a_second() {
    lift_again_and_again(delay(6000, 0, Side::Both), 1).await;
}

#[tokio::test]
async fn a_stall_is_lifted_within_a_second() {
    lift_again_and_again(stall(Side::Both), 1).await;
}

#[tokio::test]
async fn no_bandwidth_is_lifted_within_a_second() {
    lift_again_and_again(rule(Effect::Bandwidth { bytes_per_s: 0, side: Side::Both }), 1).await;
}

#[tokio::test]
async fn several_threads_lift_as_well() {
    lift_again_and_again(delay(6000, 500, Side::Both), 3).await;
}

/// Neither a dead member nor clients that leave make it slower.
#[tokio::test]
async fn it_is_lifted_while_the_member_is_dead_and_clients_leave() {
    let rate = Effect::Bandwidth { bytes_per_s: 0, side: Side::Both };
    for rules in [delay(6000, 0, Side::Both), stall(Side::Both), rule(rate)] {
        let source = Server::source().await;
        let network = network(&[source.port]).await;
        let streams = Streams::start(&network).await;
        force(&network, rules).await;
        drop(source);
        let lifting = async {
            network.clear("test");
            network.obeyed(SOON).await.unwrap();
        };
        drop(streams);
        let ((), took) = timed(lifting).await;
        assert!(took < LIFT_WITHIN, "{took:?}");
        let ((), took) = timed(async {
            while !network.connections().is_empty() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(took < SOON, "{took:?}");
        stop(network).await;
    }
}

/// A delay that is made shorter, longer and lifted while bytes are under way keeps their order.
#[tokio::test]
async fn changing_delays_keep_the_order() {
    let source = Server::source().await;
    let network = network(&[source.port]).await;
    let mut streams = Streams::start(&network).await;
    for ms in [200, 5, 50, 1, 300, 2].into_iter().cycle().take(30) {
        network.set("test", delay(ms, ms, Side::Both));
        sleep(Duration::from_millis(20)).await;
        if ms == 2 {
            network.clear("test");
            streams.all_move().await;
        }
        streams.check();
    }
    stop(network).await;
}
