//! A real replica set whose members and clients all go through the proxies of the network faults.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use bson::{Bson, Document, doc};
use faults::network::{Effect, Limits, MemberPorts, Network, OnLift, Party, Rule, Selector, Side};
use mongosoak::cluster::binary;
use real::place::Place;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use wire::{CommandError, Connection};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SOON: Duration = Duration::from_secs(5);
/// An initiation, an election, a catch-up: seconds, on a machine that does other things as well.
const IN_TIME: Duration = Duration::from_secs(60);

struct Set {
    network: Network,
    ports: Vec<u16>,
    _servers: Vec<Child>,
}

impl Set {
    async fn start(place: &Place) -> Self {
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let ports = vec![free(), free(), free()];
        let member = |(name, upstream): (&&str, &u16)| MemberPorts {
            name: (*name).into(),
            listen: None,
            upstream: *upstream,
        };
        let members: Vec<_> = NAMES.iter().zip(&ports).map(member).collect();
        let network = Network::start(&members, Limits::default()).await.unwrap();
        let mut servers = Vec::new();
        for (name, port) in NAMES.iter().zip(&ports) {
            let server = mongod(place, name, *port).await;
            network.set_pid(name, Some(server.id().unwrap() as i32));
            servers.push(server);
        }
        network.self_test().unwrap();
        let set = Self { network, ports, _servers: servers };
        set.initiate().await;
        set
    }

    async fn initiate(&self) {
        for member in 0..3 {
            self.wait(|| async move { self.ask(member, doc! { "ping": 1 }).await.is_ok() }).await;
        }
        let host = |(id, name): (i32, &&str)| {
            let host = format!("127.0.0.1:{}", self.network.port(name).unwrap());
            doc! { "_id": id, "host": host, "priority": if id == 0 { 2 } else { 1 } }
        };
        let members: Vec<Document> = (0..).zip(&NAMES).map(host).collect();
        let settings = doc! { "electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500 };
        let config = doc! { "_id": "soak", "members": members, "settings": settings };
        self.ask(0, doc! { "replSetInitiate": config }).await.unwrap();
        self.wait(|| self.is_primary(0)).await;
        self.wait(|| self.is_healthy()).await;
    }

    /// Asks a member directly, past its proxy.
    async fn ask(&self, member: usize, command: Document) -> Result<Document, CommandError> {
        let address = format!("127.0.0.1:{}", self.ports[member]);
        Connection::connect(&address, SOON).await?.command("admin", &command, SOON).await
    }

    async fn is_primary(&self, member: usize) -> bool {
        let hello = self.ask(member, doc! { "hello": 1 }).await;
        hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false))
    }

    /// All three are primary or secondary, as the first one sees them.
    async fn is_healthy(&self) -> bool {
        let Ok(status) = self.ask(0, doc! { "replSetGetStatus": 1 }).await else { return false };
        let state = |member: &Bson| member.as_document().and_then(|member| member.get_i32("state").ok());
        status.get_array("members").unwrap().iter().all(|member| matches!(state(member), Some(1 | 2)))
    }

    async fn wait<F: Future<Output = bool>>(&self, condition: impl Fn() -> F) {
        let wait = async {
            while !condition().await {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(IN_TIME, wait).await.expect("the set gets there in time");
    }

    /// Whether there is a connection that `from` dialled.
    fn has_link(&self, from: &str, to: &str) -> bool {
        self.network.connections().iter().any(|conn| conn.from == member(from) && conn.to == to)
    }
}

async fn mongod(place: &Place, name: &str, port: u16) -> Child {
    let found = binary::find(None).await.unwrap();
    let folder = place.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(&found.path);
    if let Some(libraries) = &found.library_path {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let log = std::fs::File::create(folder.join("log")).unwrap();
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"]);
    command.args(["--replSet", "soak", "--oplogSize", "50", "--port", &port.to_string(), "--dbpath"]);
    command.arg(&folder).stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true).spawn().unwrap()
}

fn member(name: &str) -> Party {
    Party::Member(name.into())
}

/// Stalls everything between `a` and the other two, whoever dialled.
fn cut_off_a() -> Vec<Rule> {
    let does = Effect::Stall { side: Side::Both, on_lift: OnLift::Deliver };
    let from_a = Selector::all().from([member("a")]).to(["b", "c"]);
    let to_a = Selector::all().from([member("b"), member("c")]).to(["a"]);
    [from_a, to_a].map(|on| Rule { on, does: does.clone() }).into()
}

#[tokio::test]
async fn real_members_are_told_apart_and_a_partition_is_felt_and_heals() {
    let place = Place::new();
    let set = Set::start(&place).await;
    for from in NAMES {
        for to in NAMES.iter().filter(|to| **to != from) {
            set.wait(|| std::future::ready(set.has_link(from, to))).await;
        }
    }
    let strangers: Vec<_> =
        set.network.connections().into_iter().filter(|c| c.from == Party::Unknown).collect();
    assert!(strangers.is_empty(), "{strangers:?}");

    set.network.set("partition", cut_off_a());
    set.network.obeyed(SOON).await.unwrap();
    let through = format!("127.0.0.1:{}", set.network.port("a").unwrap());
    let mut client = Connection::connect(&through, SOON).await.unwrap();
    client.command("admin", &doc! { "ping": 1 }, SOON).await.expect("clients are spared");
    set.wait(|| async { !set.is_primary(0).await }).await;
    set.wait(|| async { set.is_primary(1).await || set.is_primary(2).await }).await;
    for count in set.network.counts("partition") {
        assert!(count.acted > 0, "{count:?}");
    }

    set.network.clear("partition");
    set.network.obeyed(Duration::from_secs(1)).await.unwrap();
    set.wait(|| set.is_primary(0)).await;
    set.wait(|| set.is_healthy()).await;
    assert_eq!(set.network.stop().await, Vec::<String>::new());
}

/// With all proxies shut, nobody but those who ask directly gets through, and the set loses its primary.
#[tokio::test]
async fn real_nothing_walks_around_the_proxies() {
    let place = Place::new();
    let set = Set::start(&place).await;
    let all = |does| Rule { on: Selector::all().with_own(), does };
    set.network.set("shut", vec![all(Effect::RefuseListener), all(Effect::Reset)]);
    set.network.obeyed(SOON).await.unwrap();
    assert_eq!(set.network.connections().len(), 0);
    set.wait(|| async { !set.is_primary(0).await }).await;
    set.network.clear("shut");
    set.wait(|| set.is_primary(0)).await;
    set.wait(|| set.is_healthy()).await;
    assert_eq!(set.network.stop().await, Vec::<String>::new());
}
