//! Members that are reached by a Unix domain socket: what the rules do is the same.

use std::path::Path;

use tokio::net::UnixListener;

use super::*;

/// Sends back what it gets. Ends, and leaves its file, when it is dropped.
fn echo_on(path: &Path) -> JoinSet<()> {
    let listener = UnixListener::bind(path).unwrap();
    let mut accepts = JoinSet::new();
    accepts.spawn(async move {
        let mut served = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => served.spawn(async move {
                    let (mut stream, _) = accepted.unwrap();
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await.map(drop)
                }),
                // What goes wrong here is what the tests are about.
                Some(_ended) = served.join_next() => continue,
            };
        }
    });
    accepts
}

async fn network_on(path: &Path) -> Network {
    let upstream = Upstream::Socket(path.into());
    let member = MemberPorts { name: "a".into(), listen: None, upstream };
    Network::start(&[member], limits()).await.unwrap()
}

#[tokio::test]
async fn everything_passes_and_both_ends_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("member.sock");
    let _echo = echo_on(&path);
    let network = network_on(&path).await;
    let mut stream = client(&network, "a").await;
    let sent = numbers(0, 1_000_000);
    let (mut read, mut write) = stream.split();
    let mut back = Vec::new();
    let send = async {
        write.write_all(&sent).await?;
        write.shutdown().await
    };
    let (wrote, got) = tokio::join!(send, read.read_to_end(&mut back));
    wrote.unwrap();
    got.unwrap();
    assert!(sent == back, "{} bytes came back", back.len());
    stop(network).await;
}

#[tokio::test]
async fn what_waits_behind_a_stall_is_seen_and_delivered_and_a_reset_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("member.sock");
    let _echo = echo_on(&path);
    let network = network_on(&path).await;
    let mut stream = client(&network, "a").await;
    force(&network, stall(Side::Replies)).await;
    stream.write_all(b"late").await.unwrap();
    assert!(is_silent(&mut stream).await);
    assert_eq!(lift(&network).await[0].acted, 1);
    expect(&mut stream, b"late").await.unwrap();
    force(&network, rule(Effect::Reset)).await;
    assert!(is_reset(&mut stream).await);
    stop(network).await;
}

#[tokio::test]
async fn a_member_that_died_is_a_reset_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("member.sock");
    let echo = echo_on(&path);
    let network = network_on(&path).await;
    let mut open = client(&network, "a").await;
    drop(echo);
    // Its end of the connection says FIN, as TCP would.
    assert_eq!(end_of(&mut open).await.unwrap(), b"");
    let mut stream = dial(&network, "a").await;
    stream.write_all(&message("hello", None)).await.unwrap();
    assert!(is_reset(&mut stream).await, "the file is there, and nobody listens");
    let elsewhere = folder.path().join("other.sock");
    let _again = echo_on(&elsewhere);
    network.set_upstream("a", Upstream::Socket(elsewhere));
    client(&network, "a").await;
    stop(network).await;
}
