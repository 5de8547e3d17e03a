//! A run that is stopped, whenever that happens, leaves a report and no process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use nix::sys::signal::Signal;
use real::place::Place;
use real::run_dir::at_s;
use real::tester::{Ended, STOP_WITHIN, Tester, output, program};
use real::{PATIENCE, now_s, processes, wait_for};
use serde_json::Value;

/// A run of a standalone server or a set, whose phases are as long as asked for.
fn scenario(topology: &str, warmup: &str, documents: u32, fault: &str) -> String {
    format!(
        r#"
name = "stopped"
duration = "10m"
warmup = "{warmup}"
[cluster]
topology = "{topology}"
election_timeout = "5s"
[dataset]
documents = {documents}
[[workload]]
name = "writers"
workers = 4
rate = "50/s"
op = "insert"
deadline = "60s"
{fault}
"#
    )
}

/// The process of a `node_started` event.
fn pid_of(event: &Value) -> i32 {
    i32::try_from(event["pid"].as_i64().unwrap()).unwrap()
}

const KILL_AND_WAIT: &str =
    "[[fault]]\ndo = { kill = { target = \"primary\", restart_after = \"5m\" } }\nat = [\"1s\"]";

/// Waits for the end of a run that was just told to stop, and looks at all that it promises.
async fn ends_in_order(tester: Tester, place: &Place, signal: &str) -> Ended {
    let dir = tester.dir.clone();
    let ended = tester.end(STOP_WITHIN).await;
    println!("{signal}: ended after {:.1} s", ended.took.as_secs_f64());
    assert_eq!(processes::servers(place.path()), [0; 0], "left behind");
    let started = dir.events_named("node_started");
    for server in started.iter().map(pid_of) {
        assert_ne!(processes::state(server), Some('Z'), "{server} was never waited for");
    }
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let report = dir.json("report.json");
    assert_eq!(report["verdict"]["outcome"], "interrupted", "{:#}", report["verdict"]);
    assert_eq!(report["verdict"]["exit_code"], 130);
    assert_eq!(dir.event("interrupted")["signal"], signal);
    assert_eq!(dir.events().last().unwrap()["event"], "finished");
    assert_eq!(dir.events_named("node_exited").len(), started.len(), "{:#?}", dir.events());
    ended
}

#[tokio::test]
async fn real_sigint_while_servers_start() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("replica-set", "1s", 100, ""));
    tester.event("node_started", PATIENCE).await;
    tester.signal(Signal::SIGINT);
    ends_in_order(tester, &place, "SIGINT").await;
}

/// Before it listens to signals it has started nothing.
#[tokio::test]
async fn real_sigint_at_the_very_start() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("standalone", "1s", 100, ""));
    tester.signal(Signal::SIGINT);
    let ended = tester.end(STOP_WITHIN).await;
    assert!(ended.code.is_none_or(|code| code == 130), "{ended:?}");
    assert_eq!(processes::servers(place.path()), [0; 0]);
}

#[tokio::test]
async fn real_sigterm_while_documents_are_loaded() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("standalone", "1s", 20_000_000, ""));
    tester.phase("load", PATIENCE).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    tester.signal(Signal::SIGTERM);
    let dir = tester.dir.clone();
    ends_in_order(tester, &place, "SIGTERM").await;
    assert!(!dir.reached("warm_up"));
}

#[tokio::test]
async fn real_sighup_in_the_warm_up() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("standalone", "5m", 100, ""));
    tester.phase("warm_up", PATIENCE).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    tester.signal(Signal::SIGHUP);
    let dir = tester.dir.clone();
    ends_in_order(tester, &place, "SIGHUP").await;
    assert!(!dir.reached("measure"));
    assert_eq!(dir.json("report.json")["run"]["duration_s"], 0.0);
}

/// The operations under way wait for a server that will not come back: nobody waits for them.
#[tokio::test]
async fn real_sigint_while_a_fault_holds() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("standalone", "1s", 100, KILL_AND_WAIT));
    tester.event("fault_effective", PATIENCE).await;
    let server = pid_of(&tester.dir.event("node_started"));
    assert_eq!(processes::state(server), None, "killed, but never waited for");
    tokio::time::sleep(Duration::from_secs(2)).await;
    tester.signal(Signal::SIGINT);
    let dir = tester.dir.clone();
    ends_in_order(tester, &place, "SIGINT").await;
    let report = dir.json("report.json");
    assert!(report["run"]["duration_s"].as_f64().unwrap() > 2.0);
    assert_eq!(report["faults"][0]["outcome"], "effective");
    assert!(report["faults"][0]["lifted_s"].is_null());
}

#[tokio::test]
async fn real_sigint_twice_while_a_set_has_no_primary() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("replica-set", "1s", 100, KILL_AND_WAIT));
    tester.event("fault_effective", PATIENCE).await;
    tester.signal(Signal::SIGINT);
    tokio::time::sleep(Duration::from_millis(200)).await;
    tester.signal(Signal::SIGINT);
    let ended = ends_in_order(tester, &place, "SIGINT").await;
    assert!(ended.took < Duration::from_secs(5), "the second one means at once: {:?}", ended.took);
}

/// Brings a run to its last check and freezes its server there, so that the check cannot end.
async fn frozen_at_verification(place: &Place) -> Tester {
    let short = scenario("standalone", "0s", 100_000, "").replace("10m", "2s");
    let tester = Tester::run(place, &short);
    let server = pid_of(&tester.event("node_started", PATIENCE).await);
    tester.phase("verify", PATIENCE).await;
    processes::signal(server, Signal::SIGSTOP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    tester
}

#[tokio::test]
async fn real_sigint_while_the_check_waits_for_a_frozen_server() {
    let place = Place::new();
    let tester = frozen_at_verification(&place).await;
    let dir = tester.dir.clone();
    assert!(dir.events_named("verified").is_empty(), "the check was over before the server was frozen");
    tester.signal(Signal::SIGINT);
    ends_in_order(tester, &place, "SIGINT").await;
}

#[tokio::test]
async fn real_sigint_during_the_check() {
    let place = Place::new();
    let long = scenario("standalone", "0s", 300_000, "").replace("10m", "1s");
    let tester = Tester::run(&place, &long);
    tester.phase("verify", PATIENCE).await;
    tester.signal(Signal::SIGINT);
    let dir = tester.dir.clone();
    ends_in_order(tester, &place, "SIGINT").await;
    // What was not read back is not called good.
    let ledger = &dir.json("report.json")["ledger"];
    assert!(ledger["unchecked"].as_u64().unwrap() > 0, "{ledger:#}");
    assert!(ledger["incomplete_because"].is_string(), "{ledger:#}");
}

/// A tester that is killed takes its servers along, and its directory can still be judged.
#[tokio::test]
async fn real_kill_9_of_the_tester() {
    let place = Place::new();
    let tester = Tester::run(&place, &scenario("replica-set", "1s", 100, ""));
    let dir = tester.dir.clone();
    let rows = || dir.seconds("writers").len();
    wait_for("four seconds", PATIENCE, || (dir.reached("measure") && rows() >= 4).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    tester.signal(Signal::SIGKILL);
    let killed_s = now_s();
    tester.end(STOP_WITHIN).await;
    wait_for("end of the servers", Duration::from_secs(5), || {
        processes::servers(place.path()).is_empty().then_some(())
    })
    .await;

    let judged = output(program(&["report", dir.0.to_str().unwrap()]), PATIENCE).await;
    assert_eq!(judged.code, Some(5), "{judged:?}");
    assert!(judged.stdout.contains("did not end in order"), "{}", judged.stdout);
    let report = dir.json("report.json");
    assert_eq!(report["verdict"]["outcome"], "error");
    let seconds = dir.seconds("writers");
    assert!(seconds.iter().copied().eq(0..seconds.len() as u64), "a second is missing: {seconds:?}");
    let measured_s = killed_s - at_s(dir.events_named("phase").last().unwrap());
    assert!(seconds.len() as f64 >= measured_s - 2.0, "{seconds:?}, killed after {measured_s} s");
    assert!(report["workloads"][0]["ok"].as_u64().unwrap() > 0, "{:#}", report["workloads"]);
}
