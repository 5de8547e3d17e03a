//! One test an effect, and how they compose.

use super::*;

#[tokio::test]
async fn without_rules_everything_passes() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    let (mut read, mut write) = stream.split();
    let sent = numbers(0, 1_000_000);
    let mut back = vec![0; sent.len()];
    let (wrote, got) = tokio::join!(write.write_all(&sent), read.read_exact(&mut back));
    wrote.unwrap();
    got.unwrap();
    assert!(sent == back);
    let info = network.connections();
    let hello = message("hello", None).len() as u64;
    let bytes = sent.len() as u64 + hello;
    assert_eq!((info[0].bytes_up, info[0].bytes_down, &info[0].from), (bytes, bytes, &Party::Client));
    drop(stream);
    stop(network).await;
}

#[tokio::test]
async fn reset_hits_open_and_new_connections_and_counts_them() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut open = client(&network, "a").await;
    force(&network, rule(Effect::Reset)).await;
    assert!(is_reset(&mut open).await);
    let mut new = dial(&network, "a").await;
    new.write_all(&message("hello", None)).await.unwrap();
    assert!(is_reset(&mut new).await);
    let counts = lift(&network).await;
    assert_eq!((counts[0].connections, counts[0].acted), (2, 2));
    client(&network, "a").await;
    stop(network).await;
}

#[tokio::test]
async fn reset_now_hits_what_is_open_and_nothing_later() {
    let (one, two) = (Server::echo().await, Server::echo().await);
    let network = network(&[one.port, two.port]).await;
    let (mut a, mut b) = (client(&network, "a").await, client(&network, "b").await);
    assert_eq!(network.reset(&Selector::all().to(["a"])), 1);
    assert!(is_reset(&mut a).await);
    echoes(&mut b, b"still here").await.unwrap();
    client(&network, "a").await;
    assert_eq!(network.reset(&Selector::all().to(["none"])), 0);
    stop(network).await;
}

#[tokio::test]
async fn the_members_side_is_reset_as_well() {
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let server = Server::start(move |mut stream| {
        let tell = tell.clone();
        async move {
            let ended = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            tell.send(ended.map_err(|e| e.kind())).await.unwrap();
            Ok(())
        }
    });
    let server = server.await;
    let network = network(&[server.port]).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    while network.connections().first().is_none_or(|info| info.bytes_up == 0) {
        sleep(Duration::from_millis(1)).await;
    }
    network.reset(&Selector::all());
    assert_eq!(told.recv().await.unwrap(), Err(io::ErrorKind::ConnectionReset));
    stop(network).await;
}

#[tokio::test]
async fn a_closed_listener_refuses_and_leaves_open_connections() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut open = client(&network, "a").await;
    let address = (Ipv4Addr::LOCALHOST, network.port("a").unwrap());
    for _ in 0..20 {
        force(&network, rule(Effect::RefuseListener)).await;
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(!network.listeners()[0].open);
        echoes(&mut open, b"still here").await.unwrap();
        assert_eq!(lift(&network).await[0].acted, 1);
        client(&network, "a").await;
    }
    stop(network).await;
}

#[tokio::test]
async fn accept_close_says_fin_to_new_and_reset_to_open_ones() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut open = client(&network, "a").await;
    force(&network, rule(Effect::AcceptClose)).await;
    assert!(is_reset(&mut open).await);
    let mut new = dial(&network, "a").await;
    new.write_all(&message("hello", None)).await.unwrap();
    assert_eq!(end_of(&mut new).await.unwrap(), b"");
    assert_eq!(lift(&network).await[0].acted, 2);
    stop(network).await;
}

#[tokio::test]
async fn a_stall_of_one_side_lets_the_other_pass() {
    for (side, got_up) in [(Side::Requests, false), (Side::Replies, true), (Side::Both, false)] {
        let echo = Server::echo().await;
        let network = network(&[echo.port]).await;
        let mut stream = client(&network, "a").await;
        let before = network.connections()[0].bytes_up;
        force(&network, stall(side)).await;
        stream.write_all(b"waits somewhere").await.unwrap();
        assert!(is_silent(&mut stream).await);
        assert_eq!(network.connections()[0].bytes_up > before, got_up, "{side:?}");
        assert_eq!(network.counts("test")[0].acted, 1, "{side:?}");
        stream.write_all(b", and more").await.unwrap();
        lift(&network).await;
        expect(&mut stream, b"waits somewhere, and more").await.unwrap();
        stop(network).await;
    }
}

#[tokio::test]
async fn a_stall_with_nothing_behind_it_did_nothing() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let _stream = client(&network, "a").await;
    force(&network, stall(Side::Both)).await;
    sleep(A_WHILE).await;
    let counts = lift(&network).await;
    assert_eq!((counts[0].connections, counts[0].acted), (1, 0));
    stop(network).await;
}

#[tokio::test]
async fn a_stalled_connection_is_reset_on_lift_if_asked() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut open = client(&network, "a").await;
    force(&network, rule(Effect::Stall { side: Side::Requests, on_lift: OnLift::Reset })).await;
    let mut new = dial(&network, "a").await;
    for stream in [&mut open, &mut new] {
        stream.write_all(&message("insert", None)).await.unwrap();
        assert!(is_silent(stream).await);
    }
    assert_eq!(lift(&network).await[0].acted, 2);
    assert!(is_reset(&mut open).await);
    assert!(is_reset(&mut new).await);
    stop(network).await;
}

#[tokio::test]
async fn a_new_connection_waits_behind_a_stall_and_then_passes() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    force(&network, stall(Side::Both)).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    assert!(is_silent(&mut stream).await);
    lift(&network).await;
    expect(&mut stream, &message("hello", None)).await.unwrap();
    stop(network).await;
}

#[tokio::test]
async fn a_delay_is_felt_once_in_each_direction() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    for (side, least_ms) in [(Side::Requests, 100), (Side::Replies, 100), (Side::Both, 200)] {
        force(&network, delay(100, 0, side)).await;
        let (result, took) = timed(echoes(&mut stream, b"slowly")).await;
        result.unwrap();
        assert!(took >= Duration::from_millis(least_ms), "{side:?}: {took:?}");
        assert!(took < Duration::from_millis(least_ms + 90), "{side:?}: {took:?}");
        assert!(lift(&network).await[0].acted > 0);
    }
    let (result, took) = timed(echoes(&mut stream, b"fast again")).await;
    result.unwrap();
    assert!(took < Duration::from_millis(90), "{took:?}");
    stop(network).await;
}

#[tokio::test]
async fn a_delay_keeps_order_and_does_not_divide_throughput() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    force(&network, delay(50, 50, Side::Both)).await;
    let (mut read, mut write) = stream.split();
    // 1 MB in some 1000 pieces: one pause for each would be 100 s.
    let sent = numbers(0, 250_000);
    let send = async {
        for piece in sent.chunks(1000) {
            write.write_all(piece).await.unwrap();
        }
    };
    let mut back = vec![0; sent.len()];
    let (both, took) = timed(async { tokio::join!(send, read.read_exact(&mut back)) }).await;
    both.1.unwrap();
    assert!(sent == back, "in order");
    assert!(took < Duration::from_secs(4), "{took:?}");
    stop(network).await;
}

#[tokio::test]
async fn bandwidth_is_kept() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    force(&network, rule(Effect::Bandwidth { bytes_per_s: 50_000, side: Side::Replies })).await;
    let (result, took) = timed(echoes(&mut stream, &numbers(0, 12_500))).await;
    result.unwrap();
    assert!((0.85..1.5).contains(&took.as_secs_f64()), "50 KB at 50 KB/s took {took:?}");
    assert!(lift(&network).await[0].acted >= 10);
    force(&network, rule(Effect::Bandwidth { bytes_per_s: 0, side: Side::Both })).await;
    stream.write_all(b"nothing passes").await.unwrap();
    assert!(is_silent(&mut stream).await);
    lift(&network).await;
    expect(&mut stream, b"nothing passes").await.unwrap();
    stop(network).await;
}

#[tokio::test]
async fn a_reply_is_cut_inside() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let long = message("find", Some("filter"));
    for cut in [0, 1, 16, 20, long.len() - 1] {
        let mut stream = client(&network, "a").await;
        force(&network, rule(Effect::CutReply { after_bytes: cut as u64 })).await;
        stream.write_all(&long).await.unwrap();
        let mut got = vec![0; cut];
        timeout(SOON, stream.read_exact(&mut got)).await.unwrap().unwrap();
        assert_eq!(got, long[..cut]);
        assert!(is_reset(&mut stream).await, "after {cut} bytes");
        assert_eq!(lift(&network).await[0].acted, 1);
    }
    let mut stream = client(&network, "a").await;
    force(&network, rule(Effect::CutReply { after_bytes: long.len() as u64 })).await;
    echoes(&mut stream, &long).await.unwrap();
    assert_eq!(lift(&network).await[0].acted, 0, "the reply was not longer");
    stop(network).await;
}

#[tokio::test]
async fn every_third_data_command_is_dropped_before_it_arrives() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    force(&network, rule(Effect::DropNth { n: 3 })).await;
    let mut dropped = 0;
    for number in 1..=12 {
        for command in ["ping", "insert"] {
            let sent = message(command, None);
            if echoes(&mut stream, &sent).await.is_err() {
                assert_eq!((command, number % 3), ("insert", 0));
                dropped += 1;
                stream = client(&network, "a").await;
            }
        }
    }
    assert_eq!(dropped, 4);
    assert_eq!(lift(&network).await[0].acted, 4);
    stop(network).await;
}

#[tokio::test]
async fn rules_of_several_owners_compose() {
    let (one, two) = (Server::echo().await, Server::echo().await);
    let network = network(&[one.port, two.port]).await;
    let (mut a, mut b) = (client(&network, "a").await, client(&network, "b").await);
    network.set("slow", delay(100, 0, Side::Requests));
    network.set("slower", delay(200, 0, Side::Requests));
    network.set("black hole", vec![Rule { on: Selector::all().to(["b"]), ..stall(Side::Both).remove(0) }]);
    network.obeyed(SOON).await.unwrap();
    b.write_all(b"held up").await.unwrap();
    let (result, took) = timed(echoes(&mut a, b"the longer delay")).await;
    result.unwrap();
    assert!((200..290).contains(&took.as_millis()), "{took:?}");
    assert!(is_silent(&mut b).await);
    network.clear("slower");
    network.clear("black hole");
    network.obeyed(SOON).await.unwrap();
    expect(&mut b, b"held up").await.unwrap();
    let (result, took) = timed(echoes(&mut a, b"the other delay is left")).await;
    result.unwrap();
    assert!((100..190).contains(&took.as_millis()), "{took:?}");
    assert_eq!(network.counts("slow")[0].connections, 2, "each connection is counted once");
    stop(network).await;
}
