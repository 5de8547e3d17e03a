//! Starts that fail, and servers that do not come back: one clear message, and nothing left running.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::path::Path;
use std::time::Duration;

use real::place::Place;
use real::run_dir::run_dir;
use real::tester::{Ended, Tester, output, program};
use real::{PATIENCE, processes};
use tokio::process::Command;

const LONG: Duration = Duration::from_secs(150);

fn scenario(rest: &str) -> String {
    format!(
        r#"
name = "starts"
duration = "8s"
warmup = "1s"
[cluster]
topology = "standalone"
[dataset]
documents = 100
[[workload]]
name = "writers"
workers = 2
rate = "20/s"
op = "insert"
deadline = "2s"
{rest}
"#
    )
}

const KILL: &str = "[[fault]]\ndo = { kill = { target = \"node1\", restart_after = \"1s\" } }\nat = [\"2s\"]";

/// A run that cannot begin.
async fn refused(place: &Place, out: &Path, more: &[&str], change: impl Fn(&mut Command)) -> Ended {
    let file = place.file("scenario.toml", &scenario(""));
    let arguments = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let mut command = program(&[&arguments, more].concat());
    change(&mut command);
    let ended = output(command, PATIENCE).await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert_eq!(ended.stdout, "", "there is no run to report on");
    assert_eq!(ended.stderr.matches("mongosoak: ").count(), 1, "one message: {}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert_eq!(processes::servers(place.path()), [0; 0]);
    ended
}

#[tokio::test]
async fn real_no_usable_mongod() {
    let place = Place::new();
    let out = run_dir(place.path()).0;
    let mute = refused(&place, &out, &["--mongod", "/bin/true"], |_| {}).await;
    assert!(mute.stderr.contains("/bin/true") && mute.stderr.contains("printed no version"), "{mute:?}");
    let plain = place.file("mongod-plain", "#!/bin/sh\n");
    let plain = refused(&place, &out, &["--mongod", plain.to_str().unwrap()], |_| {}).await;
    assert!(plain.stderr.contains("mongod-plain") && plain.stderr.contains("ermission"), "{plain:?}");
    // A name that is not there must not be passed over in silence for the next best mongod.
    let set = |command: &mut Command| {
        command.env("MONGOSOAK_MONGOD", "/nowhere/mongod");
    };
    let named = refused(&place, &out, &[], set).await;
    assert!(named.stderr.contains("/nowhere/mongod"), "{named:?}");
    assert!(!out.exists(), "a run directory was made for nothing");
}

#[tokio::test]
async fn real_unusable_run_directory() {
    let place = Place::new();
    let used = place.path().join("used");
    std::fs::create_dir(&used).unwrap();
    std::fs::write(used.join("report.json"), "of last week").unwrap();
    let full = refused(&place, &used, &[], |_| {}).await;
    assert!(full.stderr.contains("not empty") && full.stderr.contains("--out"), "{full:?}");
    assert_eq!(std::fs::read_to_string(used.join("report.json")).unwrap(), "of last week");
    assert_eq!(std::fs::read_dir(&used).unwrap().count(), 1);
    // Root may write everywhere, but not below a file.
    let below = place.file("file", "").join("run");
    let below = refused(&place, &below, &[], |_| {}).await;
    assert!(below.stderr.contains("file/run"), "{below:?}");
}

/// Somebody took the port between our look and the server's: at the first start another one is tried, at
/// a restart the same one again. Neither is the end of a server "by itself".
#[tokio::test]
async fn real_port_in_use() {
    const ADDRESS_IN_USE: &str = "case $start in 1|3) exit 48;; esac";
    let place = Place::new();
    let mongod = place.wrapped_mongod(ADDRESS_IN_USE).await;
    let tester = Tester::run_with(&place, &scenario(KILL), &["--mongod", mongod.to_str().unwrap()]);
    let dir = tester.dir.clone();
    tester.end(LONG).await;
    let report = dir.json("report.json");
    let starts = dir.events_named("node_started");
    let ports: Vec<_> = starts.iter().map(|start| start["port"].as_u64().unwrap()).collect();
    assert_eq!(ports.len(), 4, "{ports:?}");
    assert_ne!(ports[0], ports[1], "the port that is taken was tried again");
    assert_eq!([ports[2], ports[3]], [ports[1]; 2], "a restart keeps the port");
    assert_eq!(report["faults"][0]["outcome"], "effective", "{:#}", report["faults"]);
    assert_eq!(report["ledger"]["lost"], 0);
    // Two seconds before the fault are no baseline.
    assert_eq!(report["verdict"]["outcome"], "inconclusive", "{:#}", report["verdict"]);
}

/// A server that cannot be started again ends the run, with its last words.
#[tokio::test]
async fn real_restart_that_fails() {
    const BROKEN: &str = "if [ $start -gt 1 ]; then echo 'my disk is gone'; exit 14; fi";
    let place = Place::new();
    let mongod = place.wrapped_mongod(BROKEN).await;
    let tester = Tester::run_with(&place, &scenario(KILL), &["--mongod", mongod.to_str().unwrap()]);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    let report = dir.json("report.json");
    assert_eq!(ended.code, Some(5), "{:#}", report["verdict"]);
    let fault = &report["faults"][0];
    assert_eq!(fault["outcome"], "failed", "{fault:#}");
    let reason = fault["reason"].as_str().unwrap();
    assert!(reason.contains("node1") && reason.contains("exit code 14"), "{reason}");
    assert!(reason.contains("my disk is gone"), "its last words: {reason}");
    assert!(ended.stdout.contains("exit code 14"), "{}", ended.stdout);
    assert_eq!(processes::servers(place.path()), [0; 0]);
}

/// A worker that cannot start breaks the tester, not the database: the run ends at once, and in order.
#[tokio::test]
async fn real_too_few_descriptors_for_the_workers() {
    let place = Place::new();
    let many = scenario("").replace("workers = 2", "workers = 900");
    let file = place.file("scenario.toml", &many);
    let dir = run_dir(place.path());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_mongosoak"), "run"]);
    command.args([&file, Path::new("--out"), &dir.0]).env_remove("MONGOSOAK_URI").kill_on_drop(true);
    let ended = output(command, PATIENCE).await;
    assert_eq!(ended.code, Some(5), "{ended:?}");
    let report = dir.json("report.json");
    assert_eq!(report["verdict"]["outcome"], "error");
    let reason = report["verdict"]["reasons"][0]["text"].as_str().unwrap();
    assert!(reason.contains("start a worker") && reason.contains("ulimit"), "{reason}");
    assert_eq!(dir.events().last().unwrap()["event"], "finished");
    assert_eq!(processes::servers(place.path()), [0; 0]);
}
