//! `mongosoak fault`, and runs with faults, on a deployment that the program did not start.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use bson::doc;
use nix::sys::signal::Signal;
use real::playground::Playground;
use real::tester::{Tester, output};
use real::{PATIENCE, processes};
use serde_json::Value;

fn follower(play: &Playground, leader: &str) -> String {
    play.nodes.iter().map(|(name, ..)| name.clone()).find(|name| name != leader).unwrap()
}

#[tokio::test]
async fn real_one_shot_faults_take_effect_on_a_deployment_of_somebody_else() {
    let play = Playground::start(3).await;
    pause_is_lifted_after_its_time(&play).await;
    a_killed_server_comes_back_as_it_was_started(&play).await;
    what_does_not_come_about_has_its_own_exit_code(&play).await;
    an_interruption_lifts(&play).await;
    stepdown_tells_its_evidence_in_json(&play).await;
    assert_eq!(play.to_heal(), None);
    a_run_with_hooks(&play).await;
}

async fn pause_is_lifted_after_its_time(play: &Playground) {
    let node = follower(play, &play.leader().await);
    let pid = play.first_pid(&node);
    let mut command = play.fault(&["pause", "--target", &node, "--for", "3s"]);
    let mut child = command.spawn().unwrap();
    play.state_of(pid, 'T', true).await;
    assert!(child.wait().await.unwrap().success());
    play.state_of(pid, 'T', false).await;
    assert!(play.ask(&node, doc! { "ping": 1 }).await.is_ok());
}

async fn a_killed_server_comes_back_as_it_was_started(play: &Playground) {
    let node = follower(play, &play.leader().await);
    let pid = play.first_pid(&node);
    let options = doc! { "getCmdLineOpts": 1 };
    let before = play.ask(&node, options.clone()).await.unwrap();
    let ended = play.fault_done(&["kill", "--target", &node, "--for", "1s"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("took effect") && ended.stdout.contains("lifted"), "{}", ended.stdout);
    assert_ne!(processes::state(pid), Some('S'), "the old process is gone");
    let after = play.ask(&node, options).await.unwrap();
    assert_eq!(after.get_document("parsed").unwrap(), before.get_document("parsed").unwrap());
    play.leader().await;
}

async fn what_does_not_come_about_has_its_own_exit_code(play: &Playground) {
    let skipped = play.fault_done(&["partition"]).await;
    assert_eq!(skipped.code, Some(4), "{skipped:?}");
    assert!(skipped.stdout.contains("skipped") && skipped.stdout.contains("managed"), "{}", skipped.stdout);
    for (wrong, says) in [
        (&["kil"][..], "no fault is called"),
        (&["kill", "--target", "node9"], "node1, node2, node3"),
        (&["kill", "-p", "tarjet=primary"], "target"),
        (&["kill", "--for", "soon"], "soon"),
    ] {
        let refused = play.fault_done(wrong).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    // The target is dead already: there is nothing to kill.
    let node = follower(play, &play.leader().await);
    let own = processes::servers(play.place.path());
    let status = play.ask(&node, doc! { "serverStatus": 1 }).await.unwrap();
    let pid = status.get_i64("pid").map(|pid| i32::try_from(pid).unwrap()).unwrap();
    assert!(own.contains(&pid));
    processes::signal(pid, Signal::SIGKILL);
    real::wait_for("its end", PATIENCE, || {
        (!processes::servers(play.place.path()).contains(&pid)).then_some(())
    })
    .await;
    let dead = play.fault_done(&["kill", "--target", &node]).await;
    assert_eq!(dead.code, Some(4), "{dead:?}");
    restart(play, &node).await;
}

/// As the user would who had killed it.
async fn restart(play: &Playground, node: &str) {
    let found = mongosoak::cluster::binary::find(None).await.unwrap();
    let folder = play.place.path().join("play").join(node);
    let mut command = tokio::process::Command::new(&found.path);
    if let Some(libraries) = &found.library_path {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let port = play.port(node).to_string();
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--replSet", "soak", "--port", &port]);
    command.arg("--dbpath").arg(folder.join("db")).arg("--logpath").arg(folder.join("mongod.log"));
    command.args(["--logappend", "--wiredTigerCacheSizeGB", "0.25", "--fork"]);
    let started = output(command, PATIENCE).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    play.leader().await;
}

async fn an_interruption_lifts(play: &Playground) {
    let node = follower(play, &play.leader().await);
    let pid = |play: &Playground| {
        let found = processes::servers(play.place.path());
        let of = |pid: &&i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&format!("/{node}/"))
        };
        *found.iter().find(of).unwrap()
    };
    let mut child = play.fault(&["pause", "--target", &node, "--for", "10m"]).spawn().unwrap();
    let pid = pid(play);
    play.state_of(pid, 'T', true).await;
    processes::signal(i32::try_from(child.id().unwrap()).unwrap(), Signal::SIGINT);
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    play.state_of(pid, 'T', false).await;
}

async fn stepdown_tells_its_evidence_in_json(play: &Playground) {
    let before = play.leader().await;
    // The freeze would outlive the test's patience.
    let ended = play.fault_done(&["stepdown", "--json", "-p", "freeze=5s"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((told["outcome"].as_str(), told["nodes"][0].as_str()), (Some("effective"), Some(&*before)));
    assert!(told["steps"].as_array().unwrap().iter().any(|step| step["step"] == "effect"), "{told:#}");
    assert_ne!(play.leader().await, before);
}

/// The run kills by the user's own command, and starts by the user's own command.
async fn a_run_with_hooks(play: &Playground) {
    let node = follower(play, &play.leader().await);
    let address = format!("127.0.0.1:{}", play.port(&node));
    let hosts: Vec<_> = play.nodes.iter().map(|(_, port, _)| format!("127.0.0.1:{port}")).collect();
    let said = play.place.path().join("said");
    let scenario = format!(
        r#"
name = "attached"
duration = "22s"
warmup = "1s"
[cluster]
uri = "mongodb://{}/?replicaSet=soak"
[cluster.hooks]
kill = "echo kill {{name}} >> {said}; pkill -9 -f -- '[-]-port {{port}}'"
[dataset]
documents = 500
[[workload]]
name = "writers"
workers = 2
rate = "20/s"
op = "insert"
[[fault]]
do = {{ kill = {{ target = "{address}", restart_after = "2s" }} }}
at = ["11s"]
"#,
        hosts.join(","),
        said = said.display(),
    );
    let tester = Tester::run(&play.place, &scenario);
    let dir = tester.dir.clone();
    let ended = tester.end(3 * PATIENCE).await;
    let report = dir.json("report.json");
    assert_eq!(report["faults"][0]["outcome"], "effective", "{:#}", report["faults"][0]);
    assert_eq!(report["faults"][0]["node"], address);
    assert_eq!(report["ledger"]["lost"], 0);
    assert!([Some(0), Some(4)].contains(&ended.code), "{}", ended.stdout);
    assert_eq!(std::fs::read_to_string(&said).unwrap(), format!("kill {address}\n"));
    play.leader().await;
}
