//! Ends of connections and of the network: nothing is lost, nothing stays.

use super::*;

/// Waits until so few connections are left.
async fn at_most(network: &Network, left: usize) {
    let few = async {
        while network.connections().len() > left {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, few).await.unwrap_or_else(|_| panic!("{} connections left", network.connections().len()));
}

/// A server that takes everything, says nothing and never closes.
async fn never_closes() -> Server {
    Server::start(|mut stream| async move {
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        std::future::pending().await
    })
    .await
}

#[tokio::test]
async fn half_closed_connections_are_gone_after_the_linger() {
    let silent = never_closes().await;
    let network = network(&[silent.port]).await;
    // In parts, for systems that allow few descriptors.
    for _ in 0..5 {
        for number in 0..200 {
            let mut stream = dial(&network, "a").await;
            let sent = if number % 2 == 0 { message("hello", None) } else { b"x".to_vec() };
            stream.write_all(&sent).await.unwrap();
        }
        at_most(&network, 0).await;
    }
    assert_eq!(network.listeners()[0].accepted, 1000);
    stop(network).await;
}

#[tokio::test]
async fn what_comes_after_a_half_close_arrives() {
    let source = Server::start(|mut stream| async move {
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        for from in (0..50_000).step_by(1000) {
            stream.write_all(&numbers(from, 1000)).await?;
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    });
    let source = source.await;
    let network = network(&[source.port]).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    timeout(2 * SOON, stream.read_to_end(&mut got)).await.unwrap().unwrap();
    assert!(got == numbers(0, 50_000), "{} bytes", got.len());
    at_most(&network, 0).await;
    stop(network).await;
}

#[tokio::test]
async fn a_delay_longer_than_the_linger_still_delivers_the_answer() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let mut stream = client(&network, "a").await;
    force(&network, delay(1500, 0, Side::Both)).await;
    stream.write_all(b"the answer takes 3 s, the linger is 2 s").await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(end_of(&mut stream).await.unwrap(), b"the answer takes 3 s, the linger is 2 s");
    stop(network).await;
}

#[tokio::test]
async fn a_reset_by_the_member_arrives_as_a_reset() {
    let server = Server::start(|mut stream| async move {
        stream.read_u8().await?;
        stream.set_zero_linger()
    });
    let server = server.await;
    let network = network(&[server.port]).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    assert!(is_reset(&mut stream).await);
    at_most(&network, 0).await;
    stop(network).await;
}

#[tokio::test]
async fn a_member_that_does_not_listen_is_a_reset() {
    let gone = Server::echo().await.port;
    let network = network(&[gone]).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    assert!(is_reset(&mut stream).await);
    let echo = Server::echo().await;
    network.set_upstream("a", echo.port.into());
    client(&network, "a").await;
    stop(network).await;
}

#[tokio::test]
async fn a_member_that_does_not_listen_is_silent_behind_a_stall() {
    let gone = Server::echo().await.port;
    let network = network(&[gone]).await;
    force(&network, stall(Side::Replies)).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    assert!(is_silent(&mut stream).await);
    lift(&network).await;
    assert!(is_reset(&mut stream).await);
    stop(network).await;
}

#[tokio::test]
async fn a_request_whose_client_gave_up_is_delivered_late() {
    let (tell, mut told) = tokio::sync::mpsc::channel(1);
    let server = Server::start(move |mut stream| {
        let tell = tell.clone();
        async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await?;
            tell.send(all).await.map_err(io::Error::other)
        }
    });
    let server = server.await;
    let network = network(&[server.port]).await;
    force(&network, stall(Side::Both)).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("insert", None)).await.unwrap();
    drop(stream);
    sleep(A_WHILE).await;
    assert!(told.try_recv().is_err(), "not while it is stalled");
    lift(&network).await;
    let arrived = timeout(SOON, told.recv()).await.unwrap().unwrap();
    assert_eq!(arrived, message("insert", None));
    stop(network).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_reset_and_counted() {
    let echo = Server::echo().await;
    let member = MemberPorts { name: "a".into(), listen: None, upstream: echo.port.into() };
    let few = Limits { connections_max: 3, ..limits() };
    let network = Network::start(&[member], few).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(client(&network, "a").await);
    }
    for turned_away in 1..=2 {
        let port = network.port("a").unwrap();
        // The reset may come while the connection is still being made.
        let reset = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            Ok(mut stream) => is_reset(&mut stream).await,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        };
        assert!(reset);
        assert_eq!(network.listeners()[0].turned_away, turned_away);
    }
    open.pop();
    at_most(&network, 2).await;
    client(&network, "a").await;
    stop(network).await;
}

#[tokio::test]
async fn somebody_who_says_nothing_is_passed_on_after_a_second() {
    let server = Server::start(|mut stream| async move {
        stream.write_all(b"I speak first").await?;
        std::future::pending().await
    });
    let server = server.await;
    let network = network(&[server.port]).await;
    let mut stream = dial(&network, "a").await;
    let (result, took) = timed(expect(&mut stream, b"I speak first")).await;
    result.unwrap();
    assert!((0.9..2.0).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!(network.connections()[0].from, Party::Unknown);
    stop(network).await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let echo = Server::echo().await;
    let member = |listen| MemberPorts { name: "a".into(), listen: Some(listen), upstream: echo.port.into() };
    let error = Network::start(&[member(echo.port)], limits()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let expected = format!("listen on 127.0.0.1:{} for a: ", echo.port);
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn its_ports_can_be_used_again_at_once() {
    let echo = Server::echo().await;
    let mut port = None;
    for _ in 0..5 {
        let member = MemberPorts { name: "a".into(), listen: port, upstream: echo.port.into() };
        let network = Network::start(&[member], limits()).await.unwrap();
        port = network.port("a");
        let _open = client(&network, "a").await;
        stop(network).await;
        let address = (Ipv4Addr::LOCALHOST, port.unwrap());
        assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
