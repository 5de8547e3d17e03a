//! What needs no real server: starting, limits, and the forms of messages. The server behind is a fake one, which
//! answers each command with its name and the flags of its message.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use router::{Options, RouterError, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::{Connection, Frame, MORE_TO_COME, Msg, Request};

const LONG: Duration = Duration::from_secs(20);

/// A fake server behind; it knows these commands.
async fn behind(commands: &'static [&'static str]) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(answer(stream, commands));
        }
    });
    (address, tasks)
}

async fn answer(mut stream: TcpStream, commands: &[&str]) {
    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
        let flags = i64::from(Msg::decode(&frame).unwrap().flags);
        let request = Request::decode(&frame).unwrap();
        let reply = match request.name.as_str() {
            "hello" => doc! { "minWireVersion": 3, "maxWireVersion": 17, "ok": 1.0 },
            "buildInfo" => doc! { "version": "6.7.8", "ok": 1.0 },
            "listCommands" => {
                let known: Document =
                    commands.iter().map(|name| ((*name).to_owned(), doc! {}.into())).collect();
                doc! { "commands": known, "ok": 1.0 }
            }
            name => doc! { "ran": name, "flags": flags, "ok": 1.0, "operationTime": 5 },
        };
        let reply = request.reply(&RawDocumentBuf::try_from(&reply).unwrap(), 1).unwrap().unwrap();
        stream.write_all(reply.bytes()).await.unwrap();
    }
}

const ROUTING: &[&str] =
    &["clusterInsert", "clusterFind", "clusterUpdate", "clusterDelete", "clusterAggregate", "clusterGetMore"];

fn options(upstream: &str) -> Options {
    let listen: SocketAddr = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Options {
        listen,
        upstream: upstream.to_owned(),
        start_timeout: Duration::from_secs(1),
        ..Options::default()
    }
}

/// A running router; ends with its task.
async fn router(options: Options) -> (SocketAddr, CancellationToken, JoinSet<Result<(), RouterError>>) {
    let (listen, stop) = (options.listen, CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(options, stop.clone()));
    while TcpStream::connect(listen).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (listen, stop, tasks)
}

#[tokio::test]
async fn a_server_that_cannot_route_is_refused_with_the_reason() {
    let (upstream, _behind) = behind(&ROUTING[1..]).await;
    let error = serve(options(&upstream), CancellationToken::new()).await.unwrap_err().to_string();
    assert!(error.contains("mongod 6.7.8 has no command clusterInsert"), "{error}");
    let nobody = options("127.0.0.1:1");
    let error = serve(nobody, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, RouterError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn the_port_can_be_had_again_and_a_stopped_router_ends() {
    let (upstream, _behind) = behind(ROUTING).await;
    let options = options(&upstream);
    for _ in 0..3 {
        let (listen, stop, mut tasks) = router(options.clone()).await;
        let mut client = Connection::connect(&listen.to_string(), LONG).await.unwrap();
        client.command("admin", &doc! { "hello": 1 }, LONG).await.unwrap();
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap().unwrap();
        assert!(client.command("admin", &doc! { "hello": 1 }, LONG).await.is_err());
    }
    let taken = TcpListener::bind(options.listen).await.unwrap();
    let error = serve(options, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, RouterError::Listen { .. }), "{error}");
    drop(taken);
}

#[tokio::test]
async fn clients_beyond_the_limit_are_disconnected() {
    let (upstream, _behind) = behind(ROUTING).await;
    let (listen, ..) = &router(Options { connections_max: 2, ..options(&upstream) }).await;
    let mut kept = Vec::new();
    // The one that looked whether the router is there may still count.
    for _ in 0..5 {
        let mut client = Connection::connect(&listen.to_string(), LONG).await.unwrap();
        if client.command("admin", &doc! { "ping": 1 }, LONG).await.is_ok() {
            kept.push(client);
        }
    }
    assert!((1..=2).contains(&kept.len()));
    let status = kept[0].command("admin", &doc! { "mongosoakRouter": 1 }, LONG).await.unwrap();
    assert!(status.get_document("connections").unwrap().get_i64("refused").unwrap() >= 3, "{status}");
    drop(kept);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut client = Connection::connect(&listen.to_string(), LONG).await.unwrap();
    client.command("admin", &doc! { "ping": 1 }, LONG).await.unwrap();
}

#[tokio::test]
async fn replies_come_as_they_were_asked_for() {
    let (upstream, _behind) = behind(ROUTING).await;
    let (listen, ..) = &router(options(&upstream)).await;
    let mut stream = TcpStream::connect(listen).await.unwrap();
    let insert = rawdoc! { "insert": "c", "$db": "d" };
    // No reply to the first two; the third is for a stream of replies, of which there is one.
    for (id, flags) in [(1, MORE_TO_COME), (2, MORE_TO_COME), (3, 1 << 16)] {
        let message = Msg { flags, body: insert.clone(), sequences: Vec::new() };
        stream.write_all(message.encode(id, 0).unwrap().bytes()).await.unwrap();
    }
    let frame = Frame::read(&mut stream).await.unwrap().unwrap();
    assert_eq!(frame.header().response_to, 3);
    let reply = Document::try_from(&*Msg::decode(&frame).unwrap().body).unwrap();
    assert_eq!(reply, doc! { "ran": "clusterInsert", "flags": 0_i64, "ok": 1.0 });
    let mut client = Connection::connect(&listen.to_string(), LONG).await.unwrap();
    let hello = client.command("admin", &doc! { "hello": 1 }, LONG).await.unwrap();
    assert_eq!((hello.get_i32("minWireVersion").unwrap(), hello.get_i32("maxWireVersion").unwrap()), (3, 17));
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
}

#[tokio::test]
async fn when_the_server_behind_is_lost_its_clients_are_disconnected_at_once() {
    let (upstream, behind) = behind(ROUTING).await;
    let (listen, ..) = &router(options(&upstream)).await;
    let mut stream = TcpStream::connect(listen).await.unwrap();
    let hello = Msg::new(rawdoc! { "hello": 1, "$db": "admin" }).encode(1, 0).unwrap();
    stream.write_all(hello.bytes()).await.unwrap();
    Frame::read(&mut stream).await.unwrap().unwrap();
    drop(behind);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut rest)).await.unwrap();
    assert!(ended.is_err() || rest.is_empty());
    // Nor does anybody find a router that is well.
    let mut client = Connection::connect(&listen.to_string(), LONG).await.unwrap();
    assert!(client.command("admin", &doc! { "hello": 1 }, LONG).await.is_err());
}
