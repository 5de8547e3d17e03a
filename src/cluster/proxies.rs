//! The proxies in front of the nodes: everybody, the members included, knows the nodes by them.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, doc};
use faults::network::{Effect, Limits, MemberPorts, Network, Party, Rule, Selector};
use serde::Serialize;
use wire::Connection;

use super::ClusterError;
use super::managed::ManagedCluster;
use super::node::Node;
use super::port::Ports;
use crate::clock::Clock;

/// Networks that find a port taken.
const TRIES: u32 = 10;
const OBEYED_WITHIN: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(5);
/// Who gets through a cut does so at once.
const CUT_FOR: Duration = Duration::from_millis(1_500);
/// Round trips that are measured each way.
const ROUNDS: usize = 300;
/// Under this name the check cuts.
const CHECK: &str = "self-check";

/// What was found about the proxies before the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Passage {
    /// Nobody got through while they were cut.
    pub checked: bool,
    /// Median time of a small question and its answer past them, in microseconds.
    pub direct_us: f64,
    /// The same through them.
    pub through_us: f64,
}

/// Opens one in front of each node.
///
/// # Errors
/// When no listener can be opened, or this system cannot tell whose a connection is.
pub async fn open(nodes: &[Arc<Node>], again: bool) -> Result<Network, ClusterError> {
    let mut tries_left = TRIES;
    loop {
        let member = |node: &Arc<Node>| MemberPorts {
            name: node.name().into(),
            listen: Some(node.ports().public),
            upstream: node.upstream(),
        };
        let members: Vec<_> = nodes.iter().map(member).collect();
        tries_left -= 1;
        match Network::start(&members, Limits::default()).await {
            Ok(network) => return Ok(network),
            // The members of an earlier run know each other by these very ports.
            Err(error) if again || tries_left == 0 => return Err(ClusterError::Proxies(error.to_string())),
            Err(_) => {
                for node in nodes {
                    node.set_ports(Ports::new(None, true)?);
                }
            }
        }
    }
}

impl ManagedCluster {
    /// Proves that the proxies carry everything: every member knows the others by them; while they cut the clients
    /// off, `ask` (a client of the run) gets no answer, and afterwards it does. Measures what they cost. `None`:
    /// there are no proxies.
    ///
    /// # Errors
    /// What walks around them, or does not come back.
    pub async fn check_proxies<A: AsyncFn() -> bool>(&self, ask: A) -> Result<Option<Passage>, ClusterError> {
        let Some(network) = self.proxies() else { return Ok(None) };
        let failed = |why: String| ClusterError::Proxies(why);
        network.self_test().map_err(|error| failed(error.to_string()))?;
        self.all_are_known_by_proxies().await?;
        let cut = Rule { on: Selector::all().from([Party::Client]), does: Effect::Reset };
        network.set(CHECK, vec![cut]);
        network.obeyed(OBEYED_WITHIN).await.map_err(|error| failed(error.to_string()))?;
        let walked_around = tokio::time::timeout(CUT_FOR, ask()).await.unwrap_or(false);
        network.clear(CHECK);
        network.obeyed(OBEYED_WITHIN).await.map_err(|error| failed(error.to_string()))?;
        if walked_around {
            return Err(failed(
                "an operation went through while they were shut: clients walk around them".into(),
            ));
        }
        let again = async {
            while !ask().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let comes_back = tokio::time::timeout(super::replica_set::DEADLINE, again).await;
        comes_back.map_err(|_| failed("no operation goes through after they were opened again".into()))?;
        let (direct_us, through_us) = self.round_trips().await.map_err(|error| failed(error.to_string()))?;
        Ok(Some(Passage { checked: true, direct_us, through_us }))
    }

    /// No member sends clients or other members to a port on which a server listens itself.
    async fn all_are_known_by_proxies(&self) -> Result<(), ClusterError> {
        for node in self.nodes() {
            let hello = node.ask(&doc! { "hello": 1 }, ANSWER).await;
            let hello =
                hello.map_err(|error| ClusterError::Proxies(format!("ask {}: {error}", node.name())))?;
            let hosts = hello.get_array("hosts").map(Vec::as_slice).unwrap_or_default();
            let addresses: Vec<_> = self.nodes().iter().map(|node| node.address()).collect();
            let stranger =
                hosts.iter().filter_map(Bson::as_str).find(|host| !addresses.iter().any(|a| a == host));
            if let Some(stranger) = stranger {
                let why = format!("{} sends clients to {stranger}, past them", node.name());
                return Err(ClusterError::Proxies(why));
            }
        }
        Ok(())
    }

    /// Medians of a small question to the first node, past its proxy and through it, in turn.
    async fn round_trips(&self) -> Result<(f64, f64), wire::CommandError> {
        let Some(node) = self.nodes().first() else { return Ok((0.0, 0.0)) };
        let mut direct = Connection::connect(&node.own_address(), ANSWER).await?;
        let mut through = Connection::connect(&node.address(), ANSWER).await?;
        let (mut past, mut passed) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            past.push(round_trip(&mut direct, self.clock()).await?);
            passed.push(round_trip(&mut through, self.clock()).await?);
        }
        Ok((median_us(past), median_us(passed)))
    }
}

async fn round_trip(connection: &mut Connection, clock: Clock) -> Result<Duration, wire::CommandError> {
    let start = clock.now();
    connection.command("admin", &doc! { "ping": 1 }, ANSWER).await?;
    Ok(clock.now().saturating_sub(start))
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| (time.as_secs_f64() * 1e7).round() / 10.0)
}
