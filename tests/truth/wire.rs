//! Our own client, `engine = "wire"`: it passes what the driver passes, and knows more.

use std::time::Duration;

use crate::support::fake_server::FakeServer;
use crate::support::run::{Run, number};
use crate::support::script::{Answer, GREETING, Origin, Rule, Script, When};
use crate::{batches, errors, freeze, operations, silence};

const WIRE: &str = "engine = \"wire\"\n";
const NAMESPACE: &str = "soak.docs";

#[tokio::test]
async fn an_open_loop_counts_every_arrival_of_a_freeze() {
    freeze::open_loop(WIRE).await;
}

#[tokio::test]
async fn a_closed_loop_shows_the_freeze_as_one_long_operation_of_each_worker() {
    freeze::closed_loop(WIRE).await;
}

#[tokio::test]
async fn a_freeze_that_outlasts_the_run_is_not_cut_off() {
    freeze::outlasting(WIRE).await;
}

#[tokio::test]
async fn every_third_insert_finds_no_primary() {
    errors::no_primary(WIRE).await;
}

#[tokio::test]
async fn swallowed_inserts_are_unknown_at_their_deadline() {
    silence::inserts(WIRE).await;
}

#[tokio::test]
async fn swallowed_reads_fail_at_their_deadline() {
    silence::reads(WIRE).await;
}

#[tokio::test]
async fn late_answers_are_never_taken_for_others() {
    silence::late_answers(WIRE).await;
}

#[tokio::test]
async fn a_write_whose_reply_is_cut_off_is_unknown_and_found() {
    batches::cut_reply(WIRE).await;
}

#[tokio::test]
async fn of_an_ordered_batch_counts_what_came_before_the_error() {
    batches::ordered_batch(WIRE).await;
}

#[tokio::test]
async fn a_write_concern_error_acknowledges_nothing() {
    batches::write_concern_error(WIRE).await;
}

#[tokio::test]
async fn the_concerns_in_the_manifest_are_those_on_the_wire() {
    batches::concerns(WIRE).await;
}

#[tokio::test]
async fn an_update_of_unknown_outcome_is_no_corruption() {
    batches::unknown_update(WIRE).await;
}

#[tokio::test]
async fn wrong_content_in_a_scan_or_a_find_is_found() {
    operations::wrong_content(WIRE).await;
}

#[tokio::test]
async fn a_document_that_is_missing_in_a_range_is_found() {
    operations::missing_document(WIRE).await;
}

#[tokio::test]
async fn documents_that_come_twice_in_a_scan_are_found() {
    operations::document_twice(WIRE).await;
}

#[tokio::test]
async fn operations_that_meet_on_a_key_are_no_failures() {
    operations::meeting(WIRE).await;
}

#[tokio::test]
async fn a_find_of_a_document_that_was_updated_finds_nothing_and_is_right() {
    operations::find_of_updated(WIRE).await;
}

#[tokio::test]
async fn a_delete_whose_reply_is_cut_off_may_have_happened() {
    operations::cut_delete(WIRE).await;
}

#[tokio::test]
async fn the_read_concern_and_the_pipeline_of_the_user_are_what_is_sent() {
    operations::read_concern(WIRE).await;
}

fn inserts(seconds: u64, more: &str) -> String {
    format!(
        r#"
name = "wire"
seed = 1
duration = "{seconds}s"
warmup = "0s"
[dataset]
documents = 0
[[workload]]
name = "writers"
op = "insert"
engine = "wire"
{more}
"#
    )
}

/// Every fifth insert is cut off after it left: perhaps applied. Every second connection that is made then
/// is cut off before anything could be sent on it: surely not applied. A driver calls both of them a network
/// error.
#[tokio::test]
async fn what_left_is_unknown_and_what_never_left_has_failed() {
    let rules = vec![
        Rule::insert(When::Every(5), Answer::HangUp),
        Rule { command: GREETING, when: When::Every(2), answer: Answer::HangUp },
    ];
    let service_time = Duration::from_millis(5);
    let server = FakeServer::start(Script { service_time, rules, ..Script::default() });
    let ended = Run::new(&inserts(3, ""), &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, failed, unknown] = ["ok", "failed", "unknown"].map(|name| number(&work[name]));
    assert_eq!((unknown, ok + unknown), (server.count("insert") / 5, server.count("insert")), "{work}");
    assert_eq!(failed, server.greetings() / 2, "{work}");
    assert!(unknown > 3 && failed > 3, "{work}");
    let errors = work["errors"].as_array().unwrap();
    let mut classes: Vec<_> =
        errors.iter().map(|e| (e["class"].as_str().unwrap(), number(&e["count"]))).collect();
    classes.sort_unstable();
    assert_eq!(classes, [("network", unknown), ("not_sent", failed)]);
    let found = ["acknowledged", "present", "unknown_absent", "refused_present", "lost"];
    assert_eq!(found.map(|name| number(&books[name])), [ok, ok, unknown, 0, 0], "{books}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// The server says goodbye after every tenth answer: no operation may be sent into a closed connection.
#[tokio::test]
async fn a_connection_that_was_closed_between_two_operations_costs_none_of_them() {
    let rules = vec![Rule::insert(When::Every(10), Answer::Goodbye)];
    let server = FakeServer::start(Script { rules, ..Script::default() });
    let ended = Run::new(&inserts(4, "rate = \"50/s\""), &server.uri()).finish().await;
    let work = &ended.report()["workloads"][0];
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!((ok + missed, failed, unknown), (200, 0, 0), "{work}");
    let (inserts, connections) = (server.count("insert"), server.greetings());
    assert!(connections.abs_diff(inserts / 10 + 1) <= 1, "{connections} connections for {inserts} inserts");
    let events = std::fs::read_to_string(ended.out().join("events.jsonl")).unwrap();
    let counted = events.lines().find(|line| line.contains("\"connections\"")).unwrap();
    let counted: serde_json::Value = serde_json::from_str(counted).unwrap();
    assert_eq!(
        (number(&counted["opened"]), number(&counted["lost"])),
        (connections, connections - 1),
        "{counted}"
    );
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// Nothing is tried twice, and nothing is left open: at its deadline an operation's connection is closed.
#[tokio::test]
async fn an_operation_that_is_given_up_leaves_no_connection_behind() {
    let origin = Origin::Arrival("insert", 1);
    let silence = Duration::from_secs(1)..Duration::from_secs(5);
    let server = FakeServer::start(Script { origin, swallows: vec![silence], ..Script::default() });
    let more = "workers = 4\ndeadline = \"100ms\"\nrate = \"100/s\"";
    let ended = Run::new(&inserts(8, more), &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!((ok + unknown + missed, failed), (800, 0), "{work}");
    assert_eq!(ok + unknown, server.count("insert"), "each was sent once");
    assert!(unknown > 50, "{work}");
    assert_eq!(number(&report["tester"]["abandoned_operations"]), 0);
    // One for each worker, one that the server has not seen close yet, and those of the monitors.
    assert!(server.most_connections() <= 4 * 2 + 16, "{}", server.most_connections());
    let stored = server.documents(NAMESPACE, |documents| documents.len() as u64);
    assert_eq!((stored, number(&books["present"]), number(&books["lost"])), (ok, ok, 0), "{books}");
    assert_eq!(ended.code_if_not_starved(), 0, "{}", ended.printed());
}

/// A wrong password would be seen only when the run has begun, so it is refused before.
#[tokio::test]
async fn what_our_own_client_cannot_do_is_refused_before_anything_is_touched() {
    for (uri, what) in [
        ("mongodb://me:hunter2@127.0.0.1:9/", "has no authentication yet"),
        ("mongodb://127.0.0.1:9/?tls=true", "has no TLS yet"),
    ] {
        let run = Run::new(&inserts(1, ""), uri);
        let out = run.out();
        let ended = run.finish().await;
        assert_eq!(ended.code, 2, "{}", ended.printed());
        assert!(
            ended.stderr.contains(what) && ended.stderr.contains("engine = \"driver\""),
            "{}",
            ended.stderr
        );
        assert!(!out.exists() && !ended.printed().contains("hunter2"));
    }
}

/// 100,000 documents of 400 bytes need two messages. In the first one of the first batch a document is
/// refused: of that message only what came before it went in, and its second one was never sent.
#[tokio::test]
async fn a_batch_that_fits_into_no_message_is_sent_in_parts() {
    let refused = Answer::WriteErrors { indexes: vec![7], code: 121 };
    let server =
        FakeServer::start(Script { rules: vec![Rule::insert(When::Nth(1), refused)], ..Script::default() });
    let scenario = inserts(2, "rate = \"1/s\"\ndeadline = \"60s\"")
        .replace("op = \"insert\"", "op = { insert = { batch = 100_000 } }");
    let ended = Run::new(&scenario, &server.uri()).finish().await;
    let report = ended.report();
    let (work, books) = (&report["workloads"][0], &report["ledger"]);
    let [ok, failed, unknown, missed] = ["ok", "failed", "unknown", "missed"].map(|name| number(&work[name]));
    assert_eq!((ok + missed, failed, unknown), (1, 1, 0), "{work}");
    assert_eq!(server.count("insert"), 2 * ok + 1, "{work}");
    let found = ["acknowledged", "present", "lost", "refused_present"];
    assert_eq!(found.map(|name| number(&books[name])), [100_000 * ok + 7, 100_000 * ok + 7, 0, 0], "{books}");
}
