//! A short sweep on a real server: a table with a knee, or the word that there was none in reach.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod real;

use std::time::Duration;

use real::place::Place;
use real::processes;
use real::tester::Tester;

const LONG: Duration = Duration::from_secs(150);

const SWEEP: &str = r#"
name = "short-sweep"
warmup = "2s"
[cluster]
topology = "standalone"
[dataset]
documents = 2000
[[workload]]
name = "readers"
op = "read"
[sweep]
workload = "readers"
workers = [1, 2, 4, 8]
each = "8s"
settle = "2s"
"#;

#[tokio::test]
async fn real_sweep_from_one_to_eight_workers() {
    let place = Place::new();
    let tester = Tester::run(&place, SWEEP);
    let dir = tester.dir.clone();
    let ended = tester.end(LONG).await;
    let report = dir.json("report.json");
    let sweep = &report["sweep"];
    let steps = sweep["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 4, "{ended:?}");
    for (step, workers) in steps.iter().zip([1, 2, 4, 8]) {
        assert_eq!(step["workers"], workers);
        assert!(step["throughput_ops_s"].as_f64().unwrap() > 10.0, "{}", ended.stdout);
        let in_flight = step["in_flight"].as_f64().unwrap();
        // A closed loop keeps its workers busy; how busy they can be depends on the machine.
        assert!(in_flight <= f64::from(workers) * 1.1 && in_flight > 0.2, "{}", ended.stdout);
    }
    // Where the tester was the limit, which a debug build on two processors may be, it must say so.
    let (state, code) = (sweep["knee"]["state"].as_str().unwrap(), ended.code);
    match state {
        "found" | "not_reached" => assert!(sweep["knee"]["step"].is_u64(), "{}", ended.stdout),
        "unclear" => assert_eq!(code, Some(4), "{}", ended.stdout),
        other => panic!("{other}"),
    }
    let text = sweep["knee"]["text"][0].as_str().unwrap();
    assert!(ended.stdout.contains(text), "{}", ended.stdout);
    let plot = std::fs::read_to_string(dir.0.join("sweep.csv")).unwrap();
    assert_eq!(plot.lines().count(), 5, "{plot}");
    assert_eq!(processes::servers(place.path()), [0; 0]);
    eprintln!("{}", ended.stdout);
}
