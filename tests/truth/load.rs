//! The load: what it does about lost replies, half a load, a frozen server, and what is there already.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawDocumentBuf, rawdoc};
use mongosoak::clock::Clock;
use mongosoak::dataset::Documents;
use mongosoak::scenario::{Dataset, Shape};
use mongosoak::workload::{self, LoadError, Loaded, Loading, Unfinished};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Ended, Run, number};
use crate::support::script::{Answer, Origin, Rule, Script, When};
use crate::support::store::Id;

const NAMESPACE: &str = "soak.docs";
const NOTES: &str = "soak.docs.mongosoak";
const SEED: u64 = 7;

fn scenario(documents: u64) -> String {
    format!(
        r#"
name = "load"
seed = {SEED}
duration = "1s"
warmup = "0s"
[dataset]
documents = {documents}
[[workload]]
name = "writers"
workers = 2
rate = "50/s"
op = "insert"
"#
    )
}

async fn call(command: &str, documents: u64, server: &FakeServer, more: &[&str]) -> Ended {
    let run = Run::command(command, &scenario(documents)).env("MONGOSOAK_URI", &server.uri());
    let out = run.out();
    run.arguments(&["--out", out.to_str().unwrap()]).arguments(more).finish().await
}

fn content() -> Documents {
    Documents::new(Shape::Row, SEED)
}

/// The loader itself, with little patience.
async fn load(documents: u64, server: &FakeServer) -> Result<Loaded, LoadError> {
    load_by(&server.uri(), documents, Duration::from_secs(3)).await
}

async fn load_by(uri: &str, documents: u64, stall: Duration) -> Result<Loaded, LoadError> {
    let at = Loading {
        client: mongodb::Client::with_uri_str(uri).await.unwrap(),
        dataset: Dataset { documents, ..Dataset::default() },
        documents: content(),
        seed: SEED,
        clock: Clock::start(),
        stall,
        stop: CancellationToken::new(),
        counters: Arc::default(),
    };
    let loaded = workload::load(&at, Unfinished::Continue).await;
    at.client.shutdown().immediate(true).await;
    loaded
}

/// Whether exactly the keys below `documents` are there, each with its content.
fn is_whole(server: &FakeServer, documents: u64) -> bool {
    let content = content();
    server.documents(NAMESPACE, |there| {
        let right = |(n, (id, raw)): (u64, (&Id, &RawDocumentBuf))| {
            *id == Id::Number(n as i64) && content.check(raw).is_ok_and(|(key, _)| key == n)
        };
        there.len() as u64 == documents && (0..).zip(there.iter()).all(right)
    })
}

fn note(server: &FakeServer) -> RawDocumentBuf {
    server.documents(NOTES, |notes| notes.values().next().cloned()).expect("there is a note")
}

fn change_note(server: &FakeServer, loaded_to: i64, complete: bool) {
    server.documents(NOTES, |notes| {
        let (id, old) = notes.pop_first().unwrap();
        let mut new = bson::Document::try_from(&*old).unwrap();
        new.insert("loaded_to", loaded_to);
        new.insert("complete", complete);
        notes.insert(id, RawDocumentBuf::try_from(&new).unwrap());
    });
}

fn counted(server: &FakeServer) -> i64 {
    note(server).get_i64("counted").unwrap()
}

/// Adds keys from `from` to before `to`, where they are not there.
fn put(server: &FakeServer, from: u64, to: u64) {
    server.documents(NAMESPACE, |there| {
        for key in from..to {
            there.entry(Id::Number(key as i64)).or_insert_with(|| content().document(key, 0));
        }
    });
}

fn loaded(report: &Value) -> [u64; 2] {
    ["documents", "inserted"].map(|name| number(&report["load"][name]))
}

#[tokio::test]
async fn lost_replies_refusals_and_partial_batches_leave_neither_holes_nor_duplicates() {
    let refused = Answer::Error { code: 10107, labels: vec!["RetryableWriteError"] };
    let partial = Answer::WriteErrors { indexes: vec![3, 17, 999], code: 112 };
    let answers = [Answer::CutReply, Answer::WriteConcernError { code: 64 }, refused, partial];
    let rules = (2..).zip(answers).map(|(n, answer)| Rule::insert(When::Nth(n), answer)).collect();
    let server = FakeServer::start(Script { rules, ..Script::default() });
    let ended = call("load", 9_500, &server, &[]).await;
    assert_eq!(ended.code, 0, "{}", ended.printed());
    assert!(is_whole(&server, 9_500));
    let report = ended.report();
    assert_eq!(loaded(&report), [9_500, 9_500]);
    assert_eq!((&report["load"]["resumed"], &report["load"]["verified"]), (&false.into(), &true.into()));
    let rows = ended.rows("load.csv");
    let sum = |column: &str| rows.iter().map(|row| row.count(column)).sum::<u64>();
    assert_eq!(sum("documents"), 9_500);
    assert!(sum("failed_tries") >= 4, "each of them was noticed");
    assert!(note(&server).get_bool("complete").unwrap());
}

#[tokio::test]
async fn what_a_killed_load_left_is_completed_and_only_that() {
    let server = FakeServer::start(Script::default());
    load(20_000, &server).await.unwrap();
    // As after a kill: the note is behind, chunks in front of it are torn, and everything from 15,000 on is missing.
    server.documents(NAMESPACE, |there| {
        there.retain(|id, _| {
            let Id::Number(key) = *id else { return false };
            key < 9_000 || key < 15_000 && key % 7 != 3 && !(11_000..12_500).contains(&key)
        });
    });
    change_note(&server, 8_500, false);
    let missing = 20_000 - server.documents(NAMESPACE, |there| there.len() as u64);
    let ended = call("load", 20_000, &server, &[]).await;
    assert_eq!(ended.code, 0, "{}", ended.printed());
    assert!(is_whole(&server, 20_000));
    assert_eq!(loaded(&ended.report()), [20_000, missing]);
    assert_eq!(ended.report()["load"]["resumed"], true);
    // A run takes it as it is.
    let ended = call("run", 20_000, &server, &[]).await;
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
    assert_eq!(loaded(&ended.report()), [20_000, 0]);
}

#[tokio::test]
async fn a_note_that_says_too_much_is_found_out_and_the_hole_is_filled() {
    let server = FakeServer::start(Script::default());
    load(5_000, &server).await.unwrap();
    server.documents(NAMESPACE, |there| there.remove(&Id::Number(1_234)));
    // The run sees it by the count, and does not begin.
    let refused = call("run", 5_000, &server, &[]).await;
    assert_eq!(refused.code, 5, "{}", refused.printed());
    let why = refused.reasons().join("\n");
    assert!(why.contains("1 keys are missing") && why.contains("mongosoak load"), "{why}");
    assert!(
        !server.documents(NAMESPACE, |there| there.contains_key(&Id::Number(1_234))),
        "a run does not load"
    );
    let ended = call("load", 5_000, &server, &[]).await;
    assert_eq!((ended.code, is_whole(&server, 5_000)), (0, true), "{}", ended.printed());
    assert_eq!(loaded(&ended.report()), [5_000, 1]);
    let again = call("load", 5_000, &server, &["--no-verify"]).await;
    assert_eq!(again.report()["load"]["verified"], Value::Null);
    assert!(again.stdout.contains("--no-verify"), "{}", again.printed());
}

#[tokio::test]
async fn a_wrong_document_is_a_violation_and_stays_as_it_is() {
    let server = FakeServer::start(Script::default());
    load(3_000, &server).await.unwrap();
    let wrong = rawdoc! { "_id": 77_i64, "v": 0, "other": true };
    server.documents(NAMESPACE, |there| there.insert(Id::Number(77), wrong.clone()));
    let ended = call("load", 3_000, &server, &[]).await;
    assert_eq!(ended.code, 3, "{}", ended.printed());
    assert_eq!(ended.report()["load"]["verified"], false);
    // In a part that is in doubt it ends the load.
    change_note(&server, 0, false);
    let error = load(3_000, &server).await.unwrap_err();
    assert!(matches!(error, LoadError::Foreign { .. }), "{error}");
    assert_eq!(server.documents(NAMESPACE, |there| there[&Id::Number(77)].clone()), wrong);
}

#[tokio::test]
async fn a_run_refuses_partial_and_other_data_and_says_what_to_do() {
    let server = FakeServer::start(Script::default());
    load(2_000, &server).await.unwrap();
    let refused = async |command: &str, documents: u64, more: &[&str], words: &[&str]| {
        let ended = call(command, documents, &server, more).await;
        let why = ended.reasons().join("\n");
        assert_eq!(ended.code, 5, "{}", ended.printed());
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        assert!(is_whole(&server, 2_000), "nothing was written");
    };
    refused("run", 3_000, &[], &["documents = 2000", "documents = 3000", "--drop"]).await;
    refused("load", 2_000, &["--seed", "8"], &["seed 7 is loaded", "seed 8"]).await;
    refused("run", 2_000, &["--set", "dataset.shape=ycsb"], &["shape row", "shape ycsb"]).await;
    change_note(&server, 1_000, false);
    refused("run", 2_000, &[], &["loaded in part", "1000 of 2000", "mongosoak load", "--drop"]).await;
    server.documents(NOTES, |notes| notes.clear());
    refused("run", 2_000, &[], &["not empty"]).await;
    refused("load", 2_000, &["--drop"], &["not empty"]).await;
}

#[tokio::test]
async fn drop_begins_anew_where_the_collection_is_ours() {
    let server = FakeServer::start(Script::default());
    load(2_000, &server).await.unwrap();
    let ended = call("load", 500, &server, &["--drop"]).await;
    assert_eq!((ended.code, is_whole(&server, 500)), (0, true), "{}", ended.printed());
    assert_eq!(server.count("drop"), 1);
}

#[tokio::test]
async fn an_empty_collection_without_a_note_is_not_dropped() {
    let server = FakeServer::start(Script::default());
    server.documents(NAMESPACE, |there| assert!(there.is_empty()));
    let ended = call("load", 500, &server, &["--drop"]).await;
    assert_eq!((ended.code, is_whole(&server, 500)), (0, true), "{}", ended.printed());
    assert_eq!(server.count("drop"), 0);
}

#[tokio::test]
async fn after_a_run_that_deletes_the_count_proves_nothing_and_every_key_is_looked_up() {
    let server = FakeServer::start(Script::default());
    load(1_000, &server).await.unwrap();
    let inserts = call("run", 1_000, &server, &[]).await;
    assert_eq!(inserts.code_if_not_starved(), 0, "{}", inserts.printed());
    assert_eq!((counted(&server), inserts.events("load_checked").len()), (1_000, 0));
    let deletes = call("run", 1_000, &server, &["--set", "workload.writers.op=delete"]).await;
    assert_eq!(deletes.code_if_not_starved(), 0, "{}", deletes.printed());
    assert!(server.documents(NAMESPACE, |there| there.len()) < 1_000, "the run deleted some");
    assert_eq!(counted(&server), -1);
    // Now the count is that of the load again, as it may be after a crash, too.
    put(&server, 0, 1_000);
    let again = call("run", 1_000, &server, &[]).await;
    assert_eq!(again.code_if_not_starved(), 0, "{}", again.printed());
    let checked = again.events("load_checked");
    assert_eq!((checked.len(), &checked[0]["complete"]), (1, &true.into()));
    assert_eq!(counted(&server), 1_000, "every key was there: the count counts again");
}

#[tokio::test]
async fn a_delete_whose_reply_is_lost_is_repeated_and_one_without_effect_ends_the_load() {
    let deletes =
        |when, answer| Script { rules: vec![Rule { command: "delete", when, answer }], ..Script::default() };
    let patience = Duration::from_secs(30);
    let server = FakeServer::start(deletes(When::Nth(1), Answer::CutReply));
    load(1_000, &server).await.unwrap();
    put(&server, 1_000, 1_010);
    let again = load_by(&server.uri(), 1_000, patience).await.unwrap();
    assert_eq!((again.removed, is_whole(&server, 1_000)), (10, true));
    let server = FakeServer::start(deletes(When::Every(1), Answer::WithoutEffect));
    load(1_000, &server).await.unwrap();
    put(&server, 1_000, 1_010);
    let error = load_by(&server.uri(), 1_000, patience).await.unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("_id 1000 was deleted and is there again"), "{error}");
}

#[tokio::test]
async fn what_is_there_is_read_with_the_majority_whatever_the_uri_says() {
    let server = FakeServer::start(Script::default());
    let uri = format!("{}&readConcernLevel=local", server.uri());
    for _ in 0..2 {
        load_by(&uri, 1_000, Duration::from_secs(30)).await.unwrap();
    }
    for command in ["find", "count"] {
        let sent = server.last(command).unwrap();
        let level = sent.get_document("readConcern").and_then(|concern| concern.get_str("level"));
        assert_eq!(level.unwrap(), "majority", "{command}");
    }
}

#[tokio::test]
async fn what_earlier_runs_inserted_is_removed_and_nothing_else() {
    let server = FakeServer::start(Script::default());
    for _ in 0..2 {
        let ended = call("run", 1_000, &server, &[]).await;
        assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
        assert!(server.documents(NAMESPACE, |there| there.len()) > 1_000, "the run inserted some");
    }
    let ended = call("load", 1_000, &server, &[]).await;
    assert_eq!((ended.code, is_whole(&server, 1_000)), (0, true), "{}", ended.printed());
    assert!(number(&ended.report()["load"]["removed"]) > 0);
    for stranger in [Id::Text("a".into()), Id::Number(-1), Id::Number(1_000_000)] {
        let raw = match &stranger {
            Id::Text(text) => rawdoc! { "_id": text.as_str() },
            Id::Number(n) => rawdoc! { "_id": *n },
        };
        server.documents(NAMESPACE, |there| there.insert(stranger.clone(), raw));
        let ended = call("run", 1_000, &server, &[]).await;
        assert_eq!(ended.code, 5, "{}", ended.printed());
        let why = ended.reasons().join("\n");
        assert!(why.contains("did not write"), "{why}");
        assert!(server.documents(NAMESPACE, |there| there.remove(&stranger)).is_some(), "it was left alone");
    }
}

#[tokio::test]
async fn a_frozen_server_ends_the_load_with_what_is_known() {
    let freezes = vec![Duration::ZERO..Duration::from_secs(60)];
    let script = Script { swallows: freezes, origin: Origin::Arrival("insert", 5), ..Script::default() };
    let server = FakeServer::start(script);
    let clock = Clock::start();
    let error = load(50_000, &server).await.unwrap_err();
    assert!(matches!(error, LoadError::Stalled { seconds: 3, .. }), "{error}");
    assert!(clock.now() < Duration::from_secs(30), "it hung for {:?}", clock.now());
    assert!(error.to_string().contains("mongosoak load"), "{error}");
}

#[tokio::test]
async fn a_server_that_refuses_for_good_ends_the_load_at_once() {
    let refused = Answer::Error { code: 13, labels: vec![] };
    let server =
        FakeServer::start(Script { rules: vec![Rule::insert(When::Every(1), refused)], ..Script::default() });
    let error = load(5_000, &server).await.unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
}
