//! A tester that was killed with -9 while its faults held: what `heal` and the next start make of it, and what they
//! leave alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::path::{Path, PathBuf};

use bson::doc;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use real::place::Place;
use real::playground::Playground;
use real::tester::{Tester, output, program};
use real::{PATIENCE, processes, wait_for};
use tokio::process::{Child, Command};

/// Injects, waits until it took effect, and kills the tester.
async fn kill_tester_during(play: &Playground, arguments: &[&str]) -> PathBuf {
    let said = play.place.path().join("said");
    let file = std::fs::File::create(&said).unwrap();
    let mut child = play.fault(arguments).stdout(file).spawn().unwrap();
    let effective = || std::fs::read_to_string(&said).unwrap().contains("took effect").then_some(());
    wait_for("its effect", 2 * PATIENCE, effective).await;
    child.kill().await.unwrap();
    play.to_heal().expect("it is known that there is something to heal")
}

/// A server of somebody else.
async fn foreign_mongod(place: &Place) -> Child {
    let found = mongosoak::cluster::binary::find(None).await.unwrap();
    let data = place.path().join("foreign");
    std::fs::create_dir(&data).unwrap();
    let mut command = Command::new(&found.path);
    if let Some(libraries) = &found.library_path {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    drop(socket);
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--port", &port, "--dbpath"]).arg(&data);
    command.arg("--logpath").arg(data.join("log")).kill_on_drop(true);
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let listens = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok();
    wait_for("a foreign server", PATIENCE, listens).await;
    child
}

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id().unwrap()).unwrap()
}

#[tokio::test]
async fn real_heal_puts_back_what_is_ours_and_touches_nothing_else() {
    let play = Playground::start(3).await;
    let foreign = foreign_mongod(&play.place).await;
    processes::signal(pid_of(&foreign), Signal::SIGSTOP);
    pause(&play).await;
    reused_pid(&play).await;
    frozen(&play).await;
    next_start(&play).await;
    assert_eq!(processes::state(pid_of(&foreign)), Some('T'), "somebody else's server was touched");
}

async fn pause(play: &Playground) {
    let leader = play.leader().await;
    let pid = play.first_pid(&leader);
    let dir = kill_tester_during(play, &["pause", "--target", "primary", "--for", "10m"]).await;
    assert_eq!(processes::state(pid), Some('T'));
    let healed = play.heal(&dir).await;
    assert_eq!(healed.code, Some(0), "{healed:?}");
    assert!(healed.stdout.contains("undone: f1 pause"), "{}", healed.stdout);
    play.state_of(pid, 'T', false).await;
    assert_eq!(play.to_heal(), None);
    let again = play.heal(&dir).await;
    assert!(again.stdout.contains("nothing is left"), "{again:?}");
    play.leader().await;
}

/// The process in the journal is somebody else's by now.
async fn reused_pid(play: &Playground) {
    let leader = play.leader().await;
    let pid = play.first_pid(&leader);
    let dir = kill_tester_during(play, &["pause", "--target", "primary", "--for", "10m"]).await;
    processes::signal(pid, Signal::SIGCONT);
    let mut stranger = Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let other = pid_of(&stranger);
    processes::signal(other, Signal::SIGSTOP);
    play.state_of(other, 'T', true).await;
    let journal = dir.join("undo.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(text.contains(&format!("\"pid\":{pid}")), "{text}");
    std::fs::write(&journal, text.replace(&format!("\"pid\":{pid}"), &format!("\"pid\":{other}"))).unwrap();
    let healed = play.heal(&dir).await;
    assert_eq!(healed.code, Some(0), "{healed:?}");
    assert_eq!(processes::state(other), Some('T'), "a reused pid was touched: {}", healed.stdout);
    stranger.kill().await.unwrap();
    play.leader().await;
}

async fn frozen(play: &Playground) {
    let leader = play.leader().await;
    let node = play.nodes.iter().map(|(name, ..)| name.clone()).find(|name| *name != leader).unwrap();
    let dir = kill_tester_during(play, &["freeze", "--target", &node, "--for", "10m"]).await;
    let stands = async || play.ask(&node, doc! { "replSetStepUp": 1 }).await.is_ok();
    assert!(!stands().await, "it is frozen");
    let healed = play.heal(&dir).await;
    assert_eq!(healed.code, Some(0), "{healed:?}");
    let clock = mongosoak::clock::Clock::start();
    while !stands().await {
        assert!(clock.now() < PATIENCE, "it still does not stand for election");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    play.leader().await;
}

/// Nobody calls `heal`: whatever is started next does it first.
async fn next_start(play: &Playground) {
    let leader = play.leader().await;
    let pid = play.first_pid(&leader);
    kill_tester_during(play, &["pause", "--target", "primary", "--for", "10m"]).await;
    assert_eq!(processes::state(pid), Some('T'));
    let next = play
        .fault_done(&[
            "set_parameter",
            "-p",
            "name=cursorTimeoutMillis",
            "-p",
            "value=5000",
            "--for",
            "0s",
            "--target",
            "secondary",
        ])
        .await;
    assert!(next.stderr.contains("an earlier tester was killed"), "{next:?}");
    play.state_of(pid, 'T', false).await;
    play.leader().await;
    assert_eq!(play.to_heal(), None);
}

/// A folder with a file system of its own, for as long as the test lasts.
struct SmallDisk(PathBuf);

impl SmallDisk {
    async fn mount(path: PathBuf) -> Self {
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=900m", "tmpfs"]).arg(&path);
        let mounted = output(command, PATIENCE).await;
        assert_eq!(mounted.code, Some(0), "{mounted:?}");
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        for pid in processes::servers(&self.0) {
            processes::signal(pid, Signal::SIGKILL);
        }
        let umount = || std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(umount().unwrap().success() || std::thread::panicking());
    }
}

fn free_bytes(folder: &Path) -> u64 {
    let disk = nix::sys::statvfs::statvfs(folder).unwrap();
    disk.blocks_available() * disk.fragment_size()
}

#[tokio::test]
async fn real_heal_removes_the_filler_of_a_full_disk() {
    if !geteuid().is_root() {
        eprintln!("not run: only root can mount a small disk");
        return;
    }
    let place = Place::new();
    let disk = SmallDisk::mount(place.path().join("disk")).await;
    let play = Playground::start_in(place, disk.0.join("play"), 0).await;
    let before = free_bytes(&disk.0);
    let dir = kill_tester_during(&play, &["disk_full", "--for", "10m"]).await;
    assert!(free_bytes(&disk.0) < 16 << 20, "{}", free_bytes(&disk.0));
    let healed = play.heal(&dir).await;
    assert_eq!(healed.code, Some(0), "{healed:?}");
    assert!(free_bytes(&disk.0) > before / 2, "{} of {before}", free_bytes(&disk.0));
    assert!(play.ask("node1", doc! { "ping": 1 }).await.is_ok());
}

const BLACK_HOLE: &str = r#"
name = "black-hole"
duration = "10m"
warmup = "0s"
[cluster]
election_timeout = "5s"
[dataset]
documents = 100
[[workload]]
name = "writers"
workers = 2
rate = "20/s"
op = "insert"
[[fault]]
do = { black_hole = { target = "secondary", for = "9m" } }
at = ["1s"]
"#;

/// The proxies, the rules in them and the servers end with the tester.
#[tokio::test]
async fn real_heal_of_a_black_hole_finds_that_it_ended_with_its_tester() {
    let place = Place::new();
    let tester = Tester::run(&place, BLACK_HOLE);
    tester.event("fault_effective", 2 * PATIENCE).await;
    let dir = tester.dir.clone();
    let servers = processes::servers(place.path());
    assert_eq!(servers.len(), 3);
    let heal = async || {
        let mut command = program(&["heal", dir.0.to_str().unwrap()]);
        command.env("XDG_STATE_HOME", place.path().join("state"));
        output(command, 2 * PATIENCE).await
    };
    let refused = heal().await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("still runs"), "{}", refused.stderr);
    tester.signal(Signal::SIGKILL);
    tester.end(PATIENCE).await;
    let healed = heal().await;
    assert_eq!(healed.code, Some(0), "{healed:?}");
    assert!(healed.stdout.contains("gone_with_the_tester"), "{}", healed.stdout);
    assert_eq!(processes::servers(place.path()), [0; 0]);
    assert!(heal().await.stdout.contains("nothing is left"));
}
