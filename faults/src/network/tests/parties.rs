//! Who dials: real processes that dial as members do, told apart from each other and from clients.

use std::process::Stdio;

use tokio::process::{Child, Command};

use super::*;

/// A process that dials when it is told where, greets, and prints what comes back.
struct Dialler(Child);

impl Dialler {
    fn start(greeting: &[u8]) -> Self {
        let greeting: String = greeting.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let script = "read -r port; exec 3<>/dev/tcp/127.0.0.1/$port; printf '%b' \"$GREETING\" >&3; cat <&3";
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).env("GREETING", greeting).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(bash.kill_on_drop(true).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().unwrap() as i32
    }

    async fn dial(&mut self, port: u16) {
        let stdin = self.0.stdin.as_mut().unwrap();
        stdin.write_all(format!("{port}\n").as_bytes()).await.unwrap();
    }

    /// Whether its greeting came back within a while.
    async fn got(&mut self, greeting: &[u8]) -> bool {
        let mut back = vec![0; greeting.len()];
        let stdout = self.0.stdout.as_mut().unwrap();
        timeout(A_WHILE, stdout.read_exact(&mut back))
            .await
            .is_ok_and(|read| read.is_ok() && back == greeting)
    }
}

fn as_member() -> Vec<u8> {
    message("hello", Some("internalClient"))
}

fn member(name: &str) -> Party {
    Party::Member(name.into())
}

/// Waits until so many connections are identified, and gives who they are.
async fn parties(network: &Network, count: usize) -> Vec<Party> {
    let found = async {
        loop {
            let all = network.connections();
            if all.len() == count && all.iter().all(|conn| conn.bytes_up > 0) {
                return all.into_iter().map(|conn| conn.from).collect();
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, found).await.expect("all are identified in time")
}

#[tokio::test]
async fn members_are_told_apart_from_each_other_and_from_clients() {
    let (one, two) = (Server::echo().await, Server::echo().await);
    let network = network(&[one.port, two.port]).await;
    network.self_test().unwrap();
    let mut diallers =
        [Dialler::start(&as_member()), Dialler::start(&as_member()), Dialler::start(&as_member())];
    network.set_pid("a", Some(diallers[0].pid()));
    network.set_pid("b", Some(diallers[1].pid()));
    network.self_test().unwrap();
    let port = network.port("b").unwrap();
    for (number, dialler) in diallers.iter_mut().enumerate() {
        dialler.dial(port).await;
        parties(&network, number + 1).await;
    }
    let _client = client(&network, "b").await;
    let expected = [member("a"), member("b"), Party::Unknown, Party::Client];
    assert_eq!(parties(&network, 4).await, expected);
    stop(network).await;
}

#[tokio::test]
async fn a_cut_between_two_members_is_one_way_and_spares_the_rest() {
    let (one, two) = (Server::echo().await, Server::echo().await);
    let network = network(&[one.port, two.port]).await;
    let on = Selector::all().from([member("a"), member("b")]).to(["b"]);
    force(&network, vec![Rule { on, ..stall(Side::Both).remove(0) }]).await;
    // From, to, and whether it passes: a -> b is cut; b -> a, b -> b and clients are not.
    for (from, to, passes) in [("a", "b", false), ("b", "a", true), ("b", "b", true)] {
        let mut dialler = Dialler::start(&as_member());
        network.set_pid(from, Some(dialler.pid()));
        dialler.dial(network.port(to).unwrap()).await;
        assert_eq!(dialler.got(&as_member()).await, passes, "{from} -> {to}");
        network.set_pid(from, None);
    }
    client(&network, "b").await;
    let count = network.counts("test")[0];
    assert_eq!((count.connections, count.acted), (1, 1));
    stop(network).await;
}

#[tokio::test]
async fn a_restarted_member_is_known_by_its_new_process() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    for _ in 0..2 {
        let mut dialler = Dialler::start(&as_member());
        network.set_pid("a", Some(dialler.pid()));
        dialler.dial(network.port("a").unwrap()).await;
        assert_eq!(parties(&network, 1).await, [member("a")]);
        network.reset(&Selector::all().with_own());
        while !network.connections().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    }
    stop(network).await;
}

#[tokio::test]
async fn a_member_that_looks_for_itself_passes_unless_told_otherwise() {
    let echo = Server::echo().await;
    let network = network(&[echo.port]).await;
    let probe = message("_isSelf", None);
    force(&network, stall(Side::Both)).await;
    let mut stream = dial(&network, "a").await;
    echoes(&mut stream, &probe).await.unwrap();
    assert_eq!(network.counts("test")[0].connections, 0);
    force(&network, vec![Rule { on: Selector::all().with_own(), ..stall(Side::Both).remove(0) }]).await;
    let mut stream = dial(&network, "a").await;
    stream.write_all(&probe).await.unwrap();
    assert!(is_silent(&mut stream).await);
    assert_eq!(network.counts("test")[0].connections, 2);
    stop(network).await;
}

/// A burst of members is looked up one after the other, and none is taken for another.
#[tokio::test]
async fn many_at_once_are_all_identified() {
    let echo = Server::echo().await;
    let network = network(&[echo.port, echo.port]).await;
    network.set_pid("b", Some(std::process::id() as i32));
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut stream = dial(&network, "a").await;
        stream.write_all(&as_member()).await.unwrap();
        open.push(stream);
    }
    for stream in &mut open {
        expect(stream, &as_member()).await.unwrap();
    }
    assert!(network.connections().iter().all(|conn| conn.from == member("b")));
    stop(network).await;
}
