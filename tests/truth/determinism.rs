//! The same seed means the same plan and the same documents, whatever else is different.

use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::Run;
use crate::support::script::Script;

const FAULTS: &str = r#"
name = "same"
duration = "1h"
[dataset]
documents = 3_000_000_000
[[workload]]
name = "w"
workers = 4
op = "update"
[[fault]]
do = { kill = { target = "secondary" } }
first = "3m"
every = "3m"
[[fault]]
do = "stop"
at = ["6m", "500ms"]
"#;

const INSERTS: &str = r#"
name = "same"
duration = "1s"
warmup = "0s"
[dataset]
documents = 1_500
[[workload]]
name = "w"
op = "insert"
"#;

async fn plan(scenario: &str, seed: &str) -> String {
    let ended = Run::command("plan", scenario).arguments(&["--json", "--seed", seed]).finish().await;
    assert_eq!(ended.code, 0, "{}", ended.printed());
    assert!(!ended.out().exists(), "a plan touches nothing");
    ended.stdout
}

fn faults(plan: &str) -> Value {
    serde_json::from_str::<Value>(plan).unwrap()["faults"].clone()
}

#[tokio::test]
async fn a_seed_decides_the_plan_to_the_byte() {
    let first = plan(FAULTS, "42").await;
    assert_eq!(plan(FAULTS, "42").await, first);
    assert!(faults(&first).as_array().unwrap().len() > 15);
    let more = FAULTS.replace("workers = 4", "workers = 64\nrate = \"100/s\"");
    assert_eq!(faults(&plan(&more, "42").await), faults(&first));
    assert_ne!(faults(&plan(FAULTS, "43").await), faults(&first));
}

/// Documents of a run by its seed: the loaded ones, and the first inserted ones.
async fn documents(seed: &str, workers: u32) -> Vec<(String, Vec<u8>)> {
    let server = FakeServer::start(Script::default());
    let scenario = format!("{INSERTS}workers = {workers}\n");
    let ended = Run::new(&scenario, &server.uri()).arguments(&["--seed", seed]).finish().await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    server.documents("soak.docs", |documents| {
        let all = documents.iter().map(|(key, document)| (key.to_string(), document.as_bytes().to_vec()));
        all.take(1_510).collect()
    })
}

#[tokio::test]
async fn a_seed_decides_the_documents_to_the_byte() {
    let first = documents("7", 1).await;
    assert_eq!(first.len(), 1_510);
    assert!(documents("7", 1).await == first, "the same seed, other documents");
    assert!(documents("7", 3).await[..1_500] == first[..1_500], "other workers, other documents");
    let other = documents("8", 1).await;
    assert!(
        other.iter().zip(&first).all(|(a, b)| a.0 == b.0 && a.1 != b.1),
        "another seed, the same documents"
    );
}
