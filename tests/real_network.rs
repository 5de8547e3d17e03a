//! Faults of the network on a real replica set whose members and clients all go through the proxies.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bson::{Bson, doc};
use faults::Deployment;
use faults::life::Failure;
use faults::network::Party;
use real::set::{LONG, Set};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::{CommandError, Connection};

const SOON: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn real_networks_are_broken_and_whole_again() {
    let set = Set::start(|managed| managed.proxies = true).await;
    members_are_told_apart(&set).await;
    nobody_walks_around(&set).await;
    nothing_to_reset(&set).await;
    connection_storm(&set).await;
    let mut clients = chatter(&set).await;
    drop_connections(&set).await;
    refuse(&set).await;
    accept_close(&set).await;
    black_hole(&set).await;
    latency(&set).await;
    bandwidth(&set).await;
    cut_reply(&set).await;
    drop_nth(&set).await;
    flap(&set).await;
    clients.shutdown().await;
    assert_eq!(set.cluster.network().unwrap().trouble(), Vec::<String>::new());
    set.stop().await;
}

async fn primary(set: &Set) -> String {
    set.healthy().await.primary().unwrap().name.clone()
}

/// A client of its own, through the proxy.
async fn client(set: &Set, node: &str) -> Connection {
    Connection::connect(&set.cluster.address(node).unwrap(), SOON).await.unwrap()
}

/// Asks for something, as a load would.
async fn ask(connection: &mut Connection, deadline: Duration) -> Result<(), CommandError> {
    let command = doc! { "count": "docs", "$readPreference": { "mode": "nearest" } };
    connection.command("soak", &command, deadline).await.map(drop)
}

/// Clients that always ask every node something, as a load would.
async fn chatter(set: &Set) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for node in set.healthy().await.members {
        let address = set.cluster.address(&node.name).unwrap();
        clients.spawn(async move {
            loop {
                if let Ok(mut connection) = Connection::connect(&address, QUIET).await {
                    while ask(&mut connection, QUIET).await.is_ok() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    clients
}

async fn members_are_told_apart(set: &Set) {
    let network = set.cluster.network().unwrap();
    let names: Vec<_> = set.healthy().await.members.into_iter().map(|m| m.name).collect();
    let pairs = || {
        let mut pairs = names.iter().flat_map(|from| names.iter().map(move |to| (from, to)));
        let all = network.connections();
        let linked = |from: &String, to: &String| {
            all.iter().any(|conn| conn.from == Party::Member(from.clone()) && conn.to == *to)
        };
        pairs.all(|(from, to)| from == to || linked(from, to))
    };
    wait(async || pairs()).await;
    let strangers: Vec<_> =
        network.connections().into_iter().filter(|conn| conn.from == Party::Unknown).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

async fn wait(condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.expect("it comes about in time");
}

/// A driver goes through them; a client that does not is found out.
async fn nobody_walks_around(set: &Set) {
    let driver = mongodb::Client::with_uri_str(set.cluster.uri()).await.unwrap();
    let admin = driver.database("admin");
    let asks = async || admin.run_command(doc! { "ping": 1 }).await.is_ok();
    let passage = set.cluster.check_proxies(asks).await.unwrap().unwrap();
    assert!(passage.checked && passage.direct_us > 0.0 && passage.through_us > 0.0, "{passage:?}");
    let own = set.cluster.nodes()[0].own_address();
    let walks = async || match Connection::connect(&own, SOON).await {
        Ok(mut connection) => ask(&mut connection, SOON).await.is_ok(),
        Err(_) => false,
    };
    let found = set.cluster.check_proxies(walks).await.unwrap_err().to_string();
    assert!(found.contains("walk around"), "{found}");
    driver.shutdown().immediate(true).await;
}

/// Only the clients, and there are none.
async fn nothing_to_reset(set: &Set) {
    let network = set.cluster.network().unwrap();
    wait(async || network.connections().iter().all(|conn| conn.from != Party::Client)).await;
    let why = set.inject("drop_connections", json!({ "target": "clients" })).await.err().unwrap();
    assert!(matches!(&why, Failure::NotEffective(why) if why.contains("no connection")), "{why:?}");
    set.assert_clean().await;
}

async fn connection_storm(set: &Set) {
    const COUNT: i32 = 300;
    let current = async |node: &str| {
        let status = set.ask(node, doc! { "serverStatus": 1 }).await;
        status.get_document("connections").unwrap().get_i32("current").unwrap()
    };
    let node = primary(set).await;
    let before = current(&node).await;
    let held = set.inject("connection_storm", json!({ "connections": COUNT, "for": 600.0 })).await.unwrap();
    assert!(current(&node).await >= before + COUNT - 20);
    held.lift().await.unwrap();
    wait(async || current(&node).await < before + 20).await;
    set.assert_clean().await;
}

async fn drop_connections(set: &Set) {
    let node = primary(set).await;
    let mut connection = client(set, &node).await;
    ask(&mut connection, SOON).await.unwrap();
    let book = set.whole("drop_connections", json!({})).await.unwrap();
    assert!(book.evidence(&node, "inject")["connections_reset"].as_u64().unwrap() >= 3);
    let gone = ask(&mut connection, SOON).await;
    assert!(matches!(gone, Err(CommandError::Io(_))), "{gone:?}");
    ask(&mut client(set, &node).await, SOON).await.unwrap();
    set.assert_clean().await;
}

async fn refuse(set: &Set) {
    let held = set.inject("refuse", json!({ "for": 600.0 })).await.unwrap();
    let address = set.cluster.address(&held.nodes[0]).unwrap();
    let refused = TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    held.lift().await.unwrap();
    TcpStream::connect(&address).await.unwrap();
    set.assert_clean().await;
}

async fn accept_close(set: &Set) {
    let held = set.inject("accept_close", json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
    let node = held.nodes[0].clone();
    let closed = ask(&mut client(set, &node).await, SOON).await;
    assert!(matches!(closed, Err(CommandError::Io(_))), "{closed:?}");
    held.lift().await.unwrap();
    ask(&mut client(set, &node).await, SOON).await.unwrap();
    set.assert_clean().await;
}

async fn black_hole(set: &Set) {
    let node = primary(set).await;
    let mut connection = client(set, &node).await;
    ask(&mut connection, SOON).await.unwrap();
    let held = set.inject("black_hole", json!({ "target": "clients", "for": 600.0 })).await.unwrap();
    let silent = ask(&mut connection, QUIET).await;
    assert!(matches!(silent, Err(CommandError::Timeout(_))), "{silent:?}");
    assert_eq!(primary(set).await, node, "members still hear each other");
    held.lift().await.unwrap();
    ask(&mut client(set, &node).await, SOON).await.unwrap();

    let held = set.inject("black_hole", json!({ "target": "secondary", "for": 600.0 })).await.unwrap();
    let (lost, leads) = (held.nodes[0].clone(), held.before.primary().unwrap().name.clone());
    wait(async || !is_healthy(set, &leads, &lost).await).await;
    held.lift().await.unwrap();
    wait(async || is_healthy(set, &leads, &lost).await).await;
    set.assert_clean().await;
}

/// Whether one node has heard of another lately.
async fn is_healthy(set: &Set, asked: &str, of: &str) -> bool {
    let status = set.ask(asked, doc! { "replSetGetStatus": 1 }).await;
    let address = set.cluster.address(of).unwrap();
    let members = status.get_array("members").unwrap().iter().filter_map(Bson::as_document);
    let mut member = members.filter(|member| member.get_str("name").unwrap() == address);
    member.next().unwrap().get_f64("health").unwrap() > 0.0
}

/// The quickest of some round trips: what the machine cannot do by being slow.
async fn quickest(connection: &mut Connection, command: &bson::Document) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        connection.command("soak", command, LONG).await.unwrap();
        best = best.min(start.elapsed());
    }
    best
}

async fn latency(set: &Set) {
    let each_way = Duration::from_millis(250);
    let node = primary(set).await;
    let held =
        set.inject("latency", json!({ "delay": 0.25, "target": "clients", "for": 600.0 })).await.unwrap();
    let mut connection = client(set, &node).await;
    let ask = doc! { "ping": 1 };
    assert!(quickest(&mut connection, &ask).await >= each_way * 2);
    held.lift().await.unwrap();
    assert!(quickest(&mut connection, &ask).await < each_way * 2);
    set.assert_clean().await;
}

async fn bandwidth(set: &Set) {
    const BYTES: usize = 60_000;
    let node = primary(set).await;
    let big = doc! { "_id": 1, "text": "x".repeat(BYTES) };
    let insert = doc! { "insert": "big", "documents": [big], "writeConcern": { "w": 3 } };
    set.cluster.command(&node, "soak", &insert, LONG).await.unwrap();
    let parameters = json!({ "rate": 20_000, "target": "clients", "for": 600.0 });
    let held = set.inject("bandwidth", parameters).await.unwrap();
    let mut connection = client(set, &node).await;
    let find = doc! { "find": "big" };
    // 60,000 bytes at 20,000 a second, less what a fresh line may send at once.
    let slow = quickest(&mut connection, &find).await;
    assert!(slow >= Duration::from_secs(2), "{slow:?}");
    held.lift().await.unwrap();
    let quick = quickest(&mut connection, &find).await;
    assert!(quick < Duration::from_secs(2), "{quick:?}");
    set.assert_clean().await;
}

async fn cut_reply(set: &Set) {
    let node = primary(set).await;
    let held = set.inject("cut_reply", json!({ "after_bytes": 20, "for": 600.0 })).await.unwrap();
    let cut = ask(&mut client(set, &node).await, SOON).await;
    assert!(matches!(cut, Err(CommandError::Io(_))), "{cut:?}");
    held.lift().await.unwrap();
    ask(&mut client(set, &node).await, SOON).await.unwrap();
    set.assert_clean().await;
}

async fn drop_nth(set: &Set) {
    let node = primary(set).await;
    let held = set.inject("drop_nth", json!({ "n": 2, "for": 600.0 })).await.unwrap();
    let (mut ok, mut lost) = (0, 0);
    for _ in 0..40 {
        match ask(&mut client(set, &node).await, SOON).await {
            Ok(()) => ok += 1,
            Err(CommandError::Io(_)) => lost += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(ok > 0 && lost > 0, "{ok} went through, {lost} were lost");
    held.lift().await.unwrap();
    for _ in 0..10 {
        ask(&mut client(set, &node).await, SOON).await.unwrap();
    }
    set.assert_clean().await;
}

async fn flap(set: &Set) {
    let parameters = json!({ "target": "secondary", "every": 1.5, "for": 600.0 });
    let held = set.inject("flap", parameters).await.unwrap();
    let node = held.nodes[0].clone();
    let (mut downs, mut ups, mut was_up) = (0, 0, true);
    let until = Instant::now() + LONG;
    while (downs < 2 || ups < 2) && Instant::now() < until {
        let mut fresh = client(set, &node).await;
        let up = ask(&mut fresh, QUIET).await.is_ok();
        if up != was_up {
            *(if up { &mut ups } else { &mut downs }) += 1;
            was_up = up;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(downs >= 2 && ups >= 2, "{downs} times down, {ups} times up");
    held.lift().await.unwrap();
    ask(&mut client(set, &node).await, SOON).await.unwrap();
    set.assert_clean().await;
}
