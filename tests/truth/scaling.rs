//! A server that does one command at a time, so its capacity is known: the knee and the highest rate must be
//! there, and nowhere else.

use std::time::Duration;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::Script;

/// 20 ms a command: 50 a second, and no more. Slow enough for a machine on which threads wake up late.
const CAPACITY: f64 = 50.0;
/// What a late thread held back before some seconds is counted in them.
const MOST: f64 = 1.1 * CAPACITY;

fn serial() -> FakeServer {
    let service_time = Duration::from_millis(20);
    FakeServer::start(Script { service_time, serial: true, ..Script::default() })
}

/// 64 workers keep more than a second's worth of its work in the server.
const MANY: &str = "workers = 64";

/// Every command takes 50 ms, however many there are.
fn parallel() -> FakeServer {
    FakeServer::start(Script { service_time: Duration::from_millis(50), ..Script::default() })
}

fn readers(workload: &str, steps: &str) -> String {
    format!(
        r#"
name = "scaling"
seed = 1
warmup = "1s"
[dataset]
documents = 200
[[workload]]
name = "readers"
op = "read"
{workload}
{steps}
"#
    )
}

fn throughputs(ended: &Ended) -> Vec<f64> {
    let steps = ended.report()["sweep"]["steps"].as_array().unwrap().clone();
    steps.iter().map(|step| step["throughput_ops_s"].as_f64().unwrap()).collect()
}

#[tokio::test]
async fn more_workers_than_the_server_can_serve_do_not_help() {
    let steps = "[sweep]\nworkload = \"readers\"\nworkers = [1, 4, 16]\neach = \"8s\"\nsettle = \"2s\"";
    let ended = Run::new(&readers("", steps), &serial().uri()).finish().await;
    let report = ended.report();
    let sweep = &report["sweep"];
    assert_eq!(report["run"]["duration_s"], 24.0);
    let began: Vec<_> =
        ended.events("sweep_step").iter().map(|e| (e["t_s"].clone(), e["workers"].clone())).collect();
    assert_eq!(began, [(0.0.into(), 1.into()), (8.0.into(), 4.into()), (16.0.into(), 16.into())]);
    // Those that park finish first, and nobody who should be parked sends: the last 6 s of each step are counted, but for
    // the very last second, in which everything in flight ends.
    let rows = ended.rows("timeline.csv");
    assert!(rows.iter().all(|row| row.count("workers_alive") == 16));
    for (index, step) in sweep["steps"].as_array().unwrap().iter().enumerate() {
        let from = 8 * index + 2;
        let to = if index == 2 { 23 } else { 8 * (index + 1) };
        let ok: u64 = rows[from..to].iter().map(|row| row.count("ok")).sum();
        assert_eq!(number(&step["ok"]), ok, "{step}");
        assert_eq!(number(&step["response_us"]["count"]), ok, "its latency is that of the same operations");
    }
    assert_eq!(ended.rows("sweep.csv").len(), 3);
    check_own_seconds(&ended);
    assert!(ended.stdout.contains("scaling"), "{}", ended.printed());
    if ended.starved() {
        return;
    }
    for ops_s in throughputs(&ended) {
        assert!((0.5 * CAPACITY..=MOST).contains(&ops_s), "{}", ended.printed());
    }
    let in_flight = |index: usize| sweep["steps"][index]["in_flight"].as_f64().unwrap();
    assert!(in_flight(0) <= 1.1 && (3.0..=4.4).contains(&in_flight(1)), "{}", ended.printed());
    assert!((13.0..=17.6).contains(&in_flight(2)), "{}", ended.printed());
    assert_eq!(sweep["knee"]["state"], "found", "{}", ended.printed());
    assert!(sweep["knee"]["load"].as_f64().unwrap() <= 4.0, "{}", ended.printed());
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// `tester.csv` has a row for each second, and its processor time is that of the whole phase.
fn check_own_seconds(ended: &Ended) {
    let rows = ended.rows("tester.csv");
    let sum = |column| rows.iter().map(|row| row.number(column).unwrap()).sum::<f64>();
    let whole_s = ended.report()["tester"]["cpu_s"].as_f64().unwrap();
    let seconds: Vec<u64> = rows.iter().map(|row| row.count("t_s")).collect();
    assert!(seconds.is_sorted_by(|a, b| a < b), "{seconds:?}");
    assert!(rows.iter().all(|row| row.count("rss_bytes") > 1 << 20 && row.count("descriptors") > 10));
    if ended.starved() {
        return;
    }
    assert!((22..=26).contains(&rows.len()), "{seconds:?}");
    assert!((sum("cpu_s") - whole_s).abs() < 0.2 * whole_s + 0.1, "{} and {whole_s}", sum("cpu_s"));
}

#[tokio::test]
async fn a_server_that_never_slows_down_has_no_knee_in_reach() {
    let steps = "[sweep]\nworkload = \"readers\"\nworkers = [1, 2, 4]\neach = \"8s\"\nsettle = \"2s\"";
    let ended = Run::new(&readers("", steps), &parallel().uri()).finish().await;
    let report = ended.report();
    if !ended.starved() {
        assert_eq!(report["sweep"]["knee"]["state"], "not_reached", "{}", ended.printed());
    }
    assert_eq!(ended.code_if_not_starved(), 0, "all steps were measured: {}", ended.printed());
}

#[tokio::test]
async fn a_sweep_over_rates_ends_at_the_capacity() {
    let steps = "[sweep]\nworkload = \"readers\"\nrate = [\"15/s\", \"40/s\", \"100/s\"]\neach = \"8s\"\nsettle = \"2s\"";
    let ended = Run::new(&readers(MANY, steps), &serial().uri()).finish().await;
    let report = ended.report();
    let [low, middle, over] = throughputs(&ended)[..] else { panic!("{report:#}") };
    assert!(over <= MOST, "{}", ended.printed());
    if ended.starved() {
        return;
    }
    assert!((14.0..=16.0).contains(&low) && (38.0..=42.0).contains(&middle), "{}", ended.printed());
    let last = &report["sweep"]["steps"][2];
    // Half of what arrives is never sent, and that is the server's doing: 64 workers wait for it.
    assert!(number(&last["missed"]) > 120 && last["no_verdict"].is_null(), "{last:#}");
    assert!(number(&last["response_us"]["p99"]) > 900_000, "{last:#}");
    assert_eq!(report["sweep"]["knee"]["p99_doubled_at"], 100.0, "{}", ended.printed());
    assert_eq!(ended.code_if_not_starved(), 0, "overload is what the step was for: {}", ended.printed());
}

fn search(workers: u32, from: u32, p99: &str) -> String {
    let steps = format!(
        "[find_max]\nworkload = \"readers\"\np99 = \"{p99}\"\nfrom = \"{from}/s\"\nto = \"10k/s\"\neach = \"4s\"\n\
         settle = \"1s\"\nprecision = 0.2"
    );
    readers(&format!("workers = {workers}"), &steps)
}

#[tokio::test]
async fn the_highest_rate_is_found_below_the_capacity() {
    let ended = Run::new(&search(64, 10, "300ms"), &serial().uri()).finish().await;
    let found = &ended.report()["find_max"];
    let probes = found["probes"].as_array().unwrap();
    for probe in probes {
        // The probe is what the recording says of the same seconds.
        let (from, to) = (number(&probe["from_s"]) as usize, number(&probe["to_s"]) as usize);
        let rows = &ended.rows("timeline.csv")[from..to];
        assert_eq!(number(&probe["ok"]), rows.iter().map(|row| row.count("ok")).sum::<u64>());
        assert_eq!(number(&probe["missed"]), rows.iter().map(|row| row.count("missed")).sum::<u64>());
    }
    assert!(ended.stdout.contains("find-max"), "{}", ended.printed());
    // What is found held twice, whatever the machine did; on a starved one there may be no answer.
    let Some(rate) = found["rate_ops_s"].as_f64() else {
        assert_eq!(ended.code, 4, "{}", ended.printed());
        assert!(ended.starved(), "{}", ended.printed());
        return;
    };
    assert!(rate <= CAPACITY, "{}", ended.printed());
    let held = |probe: &&serde_json::Value| probe["rate_ops_s"] == rate && probe["holds"] == true;
    assert_eq!(probes.iter().filter(held).count(), 2, "{}", ended.printed());
    assert!(rate >= 0.5 * CAPACITY, "{}", ended.printed());
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

#[tokio::test]
async fn a_search_says_when_the_tester_is_the_limit() {
    // Four workers at 50 ms: 80 a second, and a server that could do any number.
    let ended = Run::new(&search(4, 50, "500ms"), &parallel().uri()).finish().await;
    let found = &ended.report()["find_max"];
    assert_eq!(ended.code, 4, "{}", ended.printed());
    assert!(found["rate_ops_s"].is_null(), "{}", ended.printed());
    assert!(found["why"].as_str().unwrap().contains("tester itself is the limit"), "{}", ended.printed());
    assert!(
        ended.reasons()[0].contains("the highest rate of workload readers was not found"),
        "{}",
        ended.printed()
    );
}

#[tokio::test]
async fn a_range_above_the_capacity_is_no_answer() {
    let scenario = search(64, 1_000, "300ms");
    let ended = Run::new(&scenario, &serial().uri()).finish().await;
    assert_eq!(ended.code, 4, "{}", ended.printed());
    let why = ended.report()["find_max"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("even the lowest rate, 1000/s") || ended.starved(), "{why}");
}

/// A scenario that knows nothing of a search, and would run for two seconds.
#[tokio::test]
async fn the_command_line_can_search_any_scenario() {
    let server = parallel();
    let plain =
        readers("workers = 4\nrate = \"10/s\"", "").replace("seed = 1", "seed = 1\nduration = \"2s\"");
    let arguments =
        ["--workload", "readers", "--p99", "500ms", "--from", "10/s", "--to", "20/s", "--each", "2s"];
    let more = ["--settle", "1s", "--precision", "25%"];
    let search = Run::command("find-max", &plain).arguments(&arguments).arguments(&more);
    let out = search.out();
    let ended = search.arguments(&["--out", out.to_str().unwrap(), "--uri", &server.uri()]).finish().await;
    assert_eq!(ended.code, 4, "the range is too small: {}", ended.printed());
    let found = &ended.report()["find_max"];
    let probes = found["probes"].as_array().unwrap();
    assert!(probes.iter().all(|p| p["rate_ops_s"] == 10.0 || p["rate_ops_s"] == 20.0), "{}", ended.printed());
    if !ended.starved() {
        assert!(found["why"].as_str().unwrap().contains("raise `to`"), "{}", ended.printed());
        assert_eq!(found["at_least_ops_s"], 20.0, "{}", ended.printed());
    }
    let nothing = Run::command("find-max", &plain).finish().await;
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("--workload and --p99"), "{}", nothing.printed());
    let half = Run::command("find-max", &plain).arguments(&["--workload", "readers"]).finish().await;
    assert_eq!(half.code, 2);
    assert!(half.stderr.contains(r#""p99" in [find_max] is missing"#), "{}", half.printed());
}
