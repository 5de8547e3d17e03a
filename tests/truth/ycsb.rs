//! YCSB property files, the number of operations, and the kinds of operations told apart.

use std::time::Duration;

use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::Script;

const A: &str = "# workload A\nrecordcount=300\noperationcount=700\nreadproportion=0.5\n\
    updateproportion=0.5\nrequestdistribution=zipfian\nthreadcount=4\nfoo=bar\n";

async fn ycsb(properties: &str, arguments: &[&str]) -> Ended {
    let server = FakeServer::start(Script { service_time: Duration::from_millis(2), ..Script::default() });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("workloada");
    std::fs::write(&file, properties).unwrap();
    let url = format!("mongodb.url={}", server.uri());
    let run = Run::bare(&["run", "--ycsb", file.to_str().unwrap(), "-p", &url, "--seed", "1"]);
    let out = run.out();
    run.arguments(&["--out", out.to_str().unwrap()]).arguments(arguments).finish().await
}

/// `[READ], Operations, 350` by its first two cells.
fn printed(ended: &Ended, of: &str, what: &str) -> f64 {
    let head = format!("[{of}], {what}, ");
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(head.as_str()));
    line.unwrap_or_else(|| panic!("no {head}: {}", ended.printed())).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_file_runs_exactly_its_operations_and_ends_with_ycsbs_summary() {
    let ended = ycsb(A, &["-p", "operationcount=800"]).await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    let report = ended.report();
    let workload = &report["workloads"][0];
    assert_eq!(number(&workload["ok"]), 800, "-p goes before the file");
    let (reads, updates) = (printed(&ended, "READ", "Operations"), printed(&ended, "UPDATE", "Operations"));
    assert_eq!(reads + updates, 800.0);
    // Half of 800, six standard deviations around.
    assert!((315.0..485.0).contains(&reads), "{reads}");
    assert_eq!(printed(&ended, "READ", "Return=OK"), reads);
    let duration_s = report["run"]["duration_s"].as_f64().unwrap();
    assert!(duration_s < 60.0, "its operations end it, not its duration of a year: {duration_s}");
    assert!((printed(&ended, "OVERALL", "RunTime(ms)") - duration_s * 1e3).abs() < 1.0);
    assert!((printed(&ended, "OVERALL", "Throughput(ops/sec)") * duration_s - 800.0).abs() < 1.0);
    let latency = |what: &str| printed(&ended, "UPDATE", what);
    assert!(latency("MinLatency(us)") >= 2_000.0, "the server takes 2 ms");
    assert!(latency("MinLatency(us)") <= latency("AverageLatency(us)"));
    assert!(latency("95thPercentileLatency(us)") <= latency("99thPercentileLatency(us)"));
    assert!(latency("99thPercentileLatency(us)") <= latency("MaxLatency(us)") * 1.001);
    assert!(ended.stderr.contains("ycsb: ignored: foo"), "{}", ended.stderr);
    kinds_add_up(&ended, workload);
    let again = Run::bare(&["report", ended.out().to_str().unwrap(), "--format", "ycsb"]).finish().await;
    assert!(
        ended.stdout.ends_with(&again.stdout) && again.stdout.starts_with("[OVERALL]"),
        "{}",
        again.stdout
    );
}

/// The report, its kinds, and the rows of `operations.csv` are the same operations.
fn kinds_add_up(ended: &Ended, workload: &Value) {
    let ops = workload["ops"].as_array().unwrap();
    assert_eq!(ops.iter().map(|op| op["op"].as_str().unwrap()).collect::<Vec<_>>(), ["read", "update"]);
    for field in ["ok", "failed", "unknown"] {
        let sum: u64 = ops.iter().map(|op| number(&op[field])).sum();
        assert_eq!(sum, number(&workload[field]), "{field}");
        let rows: u64 = ended.rows("operations.csv").iter().map(|row| row.count(field)).sum();
        assert_eq!(rows, sum, "{field}");
    }
    for op in ops {
        assert_eq!(number(&op["response_us"]["count"]), number(&op["ok"]));
    }
    let slowest = ops.iter().map(|op| number(&op["response_us"]["max"])).max();
    assert_eq!(slowest, Some(number(&workload["response_us"]["max"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_kind_of_operation_is_a_kind_too_and_a_rate_ends_with_its_operations() {
    let properties = "recordcount=50\noperationcount=100\nreadproportion=1\nupdateproportion=0\ntarget=200\n\
        threadcount=8\n";
    let ended = ycsb(properties, &[]).await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    let workload = &ended.report()["workloads"][0];
    let sent = number(&workload["ok"]) + number(&workload["failed"]);
    assert_eq!(sent, 100);
    assert_eq!(printed(&ended, "READ", "Operations"), 100.0);
    assert!(ended.starved() || number(&workload["missed"]) == 0, "nothing is intended beyond the last one");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_properties_touch_nothing_and_are_named_with_their_lines() {
    let ended = ycsb("recordcount=x\nrequestdistribution=gauss\n", &["-p", "threads=0"]).await;
    assert_eq!(ended.code, 2, "{}", ended.printed());
    assert!(ended.stderr.contains("workloada:1:1: recordcount cannot be \"x\""), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("workloada:2:1: requestdistribution cannot be \"gauss\""),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("-p threads: threads cannot be \"0\""), "{}", ended.stderr);
    assert!(!ended.out().exists());
}
