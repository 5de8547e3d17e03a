//! Defects that are planted between the load and the check of the data: all are found and named, and
//! nothing else is.

use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::rawdoc;
use mongosoak::dataset;
use mongosoak::scenario::Shape;
use serde_json::Value;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::Script;
use crate::support::store::{Documents, Id};

/// One worker that inserts one by one: its keys are 100, 101 and so on, and of its block of 4,096 keys
/// most are never sent.
fn inserts(concern: &str) -> String {
    format!(
        r#"
name = "defects"
seed = 1
duration = "2s"
warmup = "0s"
[dataset]
documents = 100
[[workload]]
name = "writers"
rate = "50/s"
op = "insert"
write_concern = {concern}
"#
    )
}

async fn run(concern: &str, plant: impl FnOnce(&mut Documents) + Send + 'static) -> Ended {
    let service_time = Duration::from_millis(2);
    let server = FakeServer::start(Script { service_time, ..Script::default() });
    server.before_the_check(plant);
    Run::new(&inserts(concern), &server.uri()).finish().await
}

fn remove(documents: &mut Documents, keys: &[i64]) {
    for key in keys {
        assert!(documents.remove(&Id::Number(*key)).is_some(), "{key} was there");
    }
}

/// Turns one bit of the last character of its text.
pub fn spoil(documents: &mut Documents, key: i64) {
    let document = documents.get_mut(&Id::Number(key)).unwrap();
    let mut bytes = document.as_bytes().to_vec();
    let last_character = bytes.len() - 3;
    bytes[last_character] ^= 1;
    *document = RawDocumentBuf::from_bytes(bytes).unwrap();
}

/// Keys of the samples of one kind.
fn sampled(report: &Value, kind: &str) -> Vec<String> {
    let samples = report["ledger"]["samples"].as_array().unwrap().iter();
    let of_kind = samples.filter(|sample| sample["kind"] == kind);
    of_kind.map(|sample| sample["key"].as_str().unwrap().to_owned()).collect()
}

fn findings(report: &Value) -> [u64; 5] {
    ["lost", "lost_permitted", "corrupt", "alien", "unchecked"].map(|name| number(&report["ledger"][name]))
}

#[tokio::test]
async fn every_planted_defect_is_found_and_named() {
    let ended = run("\"majority\"", |documents| {
        // A loaded one, the first inserted one, and one in the middle.
        remove(documents, &[7, 100, 120]);
        spoil(documents, 105);
        // Its content is right, but nobody sent it.
        documents.insert(Id::Number(4_000), dataset::Documents::new(Shape::Row, 1).document(4_000, 0));
        documents.insert(Id::Number(-5), rawdoc! { "_id": -5_i64 });
        documents.insert(Id::Text("stranger".into()), rawdoc! { "_id": "stranger" });
    })
    .await;
    let report = ended.report();
    assert_eq!(findings(&report), [3, 0, 1, 3, 0], "{}", report["ledger"]);
    assert_eq!(sampled(&report, "lost"), ["7", "100", "120"]);
    assert_eq!(sampled(&report, "corrupt"), ["105"]);
    let aliens = sampled(&report, "alien");
    assert_eq!(aliens, ["4000", "-5", "\"stranger\""]);
    let [checked, present] = ["checked", "present"].map(|name| number(&report["ledger"][name]));
    assert_eq!((checked, present + 4), (number(&report["ledger"]["acknowledged"]), checked));
    assert_eq!(ended.code, 3, "{}", ended.printed());
    assert!(ended.stdout.contains("lost") && ended.stdout.contains("105"), "{}", ended.stdout);
}

/// One of ours under the key of another, and a document of ours that nobody ever sent.
#[tokio::test]
async fn documents_in_wrong_places_are_found() {
    let ended = run("\"majority\"", |documents| {
        let mut swapped = documents[&Id::Number(3)].as_bytes().to_vec();
        // `_id` is the first field: its value begins behind length, type and name.
        swapped[9..17].copy_from_slice(&4_i64.to_le_bytes());
        documents.insert(Id::Number(4), RawDocumentBuf::from_bytes(swapped).unwrap());
    })
    .await;
    let report = ended.report();
    assert_eq!(findings(&report), [0, 0, 1, 0, 0], "{}", report["ledger"]);
    assert_eq!(sampled(&report, "corrupt"), ["4"]);
    assert_eq!(ended.code, 3, "{}", ended.printed());
}

#[tokio::test]
async fn losing_what_one_member_acknowledged_is_permitted() {
    let ended = run("1", |documents| remove(documents, &[100, 110, 120])).await;
    let report = ended.report();
    assert_eq!(findings(&report), [0, 3, 0, 0, 0], "{}", report["ledger"]);
    assert_eq!(sampled(&report, "lost_permitted"), ["100", "110", "120"]);
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    let noted = ended.reasons().iter().any(|reason| reason.starts_with("note: 3 writes are lost"));
    assert!(noted, "{}", ended.printed());
}

/// The load ends with a majority barrier, so its documents may not be lost whatever the workloads ask for.
#[tokio::test]
async fn losing_a_loaded_document_is_never_permitted() {
    let ended = run("1", |documents| remove(documents, &[7, 100])).await;
    assert_eq!(findings(&ended.report()), [1, 1, 0, 0, 0]);
    assert_eq!(ended.code, 3, "{}", ended.printed());
}
