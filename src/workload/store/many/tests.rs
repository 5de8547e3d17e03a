//! Answers made by hand: right ones pass, and every defect is found.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;

use super::*;
use crate::dataset::Documents;
use crate::ledger::{Delete, KeySource, Ledger};
use crate::scenario::{Shape, Source, parse};

const LOADED: u64 = 100;

fn judge_of(keys: &str) -> Judge {
    let text = format!("duration = \"1m\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n{keys}\n");
    let scenario = parse(&Source { path: "x.toml".into(), text }).unwrap();
    let ledger = Arc::new(Ledger::new(LOADED));
    Judge::new(&scenario.workloads[0], documents(), ledger)
}

fn judge() -> Judge {
    judge_of("")
}

fn documents() -> Documents {
    Documents::new(Shape::Row, 7)
}

fn document(key: u64) -> RawDocumentBuf {
    documents().document(key, 0)
}

fn class(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Failed(cause) => cause.class,
        Outcome::Unknown(_) => "unknown",
    }
}

/// A scan from key 10 on that finds these.
fn scan(judge: &Judge, length: u32, found: &[u64]) -> String {
    let mut check = judge.scan(10, length);
    found.iter().for_each(|key| check.see(&document(*key)));
    class(&check.judge()).to_owned()
}

#[test]
fn a_scan_finds_all_documents_in_order_and_once() {
    let judge = judge();
    assert_eq!(scan(&judge, 3, &[10, 11, 12]), "ok");
    assert_eq!(scan(&judge, 3, &[10, 12, 13]), "not_found", "11 is missing");
    assert_eq!(scan(&judge, 3, &[11, 12, 13]), "not_found", "10 is missing");
    assert_eq!(judge.ledger.stale_reads(), 2);
    assert_eq!(scan(&judge, 3, &[10, 11]), "not_found", "it ends before the collection does");
    assert_eq!(scan(&judge, 3, &[10, 11, 11]), "wrong_content", "twice");
    assert_eq!(scan(&judge, 3, &[10, 12, 11]), "wrong_content", "out of order");
    assert_eq!(scan(&judge, 3, &[9, 10, 11]), "wrong_content", "before the first");
    assert_eq!(scan(&judge, 3, &[10, 11, 12, 13]), "wrong_content", "too many");
    assert_eq!(judge.ledger.corrupt_reads(), 4);
    assert_eq!(scan(&judge, 200, &(10..LOADED).collect::<Vec<_>>()), "ok", "to the end");
}

#[test]
fn a_scan_compares_every_document() {
    let judge = judge();
    let mut check = judge.scan(10, 2);
    check.see(&document(10));
    let mut bytes = document(11).into_bytes();
    let last_character = bytes.len() - 3;
    bytes[last_character] ^= 1;
    check.see(&RawDocumentBuf::from_bytes(bytes).unwrap());
    assert_eq!(class(&check.judge()), "wrong_content");
    assert_eq!(judge.ledger.corrupt_reads(), 1);
}

#[test]
fn what_is_deleted_before_or_during_a_scan_need_not_be_there() {
    let judge = judge();
    assert!(judge.ledger.claim_delete(11));
    assert_eq!(scan(&judge, 3, &[10, 12, 13]), "ok");
    assert_eq!(scan(&judge, 3, &[10, 11, 12]), "ok", "or may still be there");
    let mut check = judge.scan(20, 2);
    assert!(judge.ledger.claim_delete(21));
    judge.ledger.settle_delete(21, Delete::Majority);
    check.see(&document(20));
    check.see(&document(22));
    assert_eq!(class(&check.judge()), "ok");
    assert_eq!(judge.ledger.stale_reads(), 0);
}

#[test]
fn a_document_that_is_acknowledged_while_a_scan_is_under_way_may_be_seen_or_not() {
    let judge = judge();
    let key = KeySource::new(true).take(&judge.ledger, 1);
    let mut early = judge.scan(LOADED - 1, 5);
    judge.ledger.acknowledge(key);
    early.see(&document(LOADED - 1));
    assert_eq!(class(&early.judge()), "ok");
    let mut later = judge.scan(LOADED - 1, 5);
    later.see(&document(LOADED - 1));
    assert_eq!(class(&later.judge()), "not_found");
}

#[test]
fn stale_reads_are_legal_where_nobody_promises_fresh_ones() {
    for keys in [
        "read_preference = \"secondaryPreferred\"",
        "read_concern = \"majority\"",
        "read_concern = \"available\"",
    ] {
        let judge = judge_of(keys);
        assert_eq!(scan(&judge, 3, &[10, 13]), "ok", "{keys}");
        assert_eq!(class(&judge.counted(10, 5, judge.expected(10, 5), None)), "ok", "{keys}");
        assert_eq!(class(&judge.read(10, None)), "ok", "{keys}");
        assert_eq!(judge.ledger.stale_reads(), 1, "a read by key is counted: {keys}");
    }
    let linearizable = judge_of("read_concern = \"linearizable\"");
    assert_eq!(class(&linearizable.read(10, None)), "not_found");
}

#[test]
fn copies_left_over_from_a_move_between_shards_are_legal_where_they_were_asked_for() {
    let judge = judge_of("read_concern = \"available\"");
    assert_eq!(scan(&judge, 3, &[10, 10, 11]), "ok");
    assert_eq!(scan(&judge, 3, &[11, 10]), "wrong_content", "the order is promised all the same");
}

fn counted(documents: u64, lowest: i64, highest: i64) -> Option<Counted> {
    Some(Counted { documents, lowest, highest })
}

#[test]
fn a_count_lies_between_what_was_acknowledged_and_what_was_sent() {
    let judge = judge();
    let count = |found| class(&judge.counted(10, 5, judge.expected(10, 5), found)).to_owned();
    assert_eq!(count(counted(5, 10, 14)), "ok");
    assert_eq!(count(counted(4, 10, 14)), "not_found");
    assert_eq!(count(None), "not_found");
    assert_eq!(count(counted(6, 10, 14)), "wrong_content", "more than was ever sent");
    assert_eq!(count(counted(5, 9, 14)), "wrong_content", "outside the range");
    assert_eq!(count(counted(5, 10, 15)), "wrong_content", "outside the range");
    assert!(judge.ledger.claim_delete(12));
    assert_eq!((count(counted(4, 10, 14)), count(counted(5, 10, 14))), ("ok".into(), "ok".into()));
    assert_eq!(count(counted(3, 10, 14)), "not_found");
}

#[test]
fn a_find_returns_documents_that_have_the_value() {
    let judge = judge();
    let find = |keys: &[u64]| {
        let mut check = judge.find(10, "int").unwrap();
        assert_eq!(check.wanted(), Bson::Int32(document(10).get_i32("int").unwrap()));
        keys.iter().for_each(|key| check.see(&document(*key)));
        check.judge(10).map(|outcome| class(&outcome).to_owned())
    };
    assert_eq!(find(&[10]), Ok("ok".into()));
    assert_eq!(find(&[11]), Ok("wrong_content".into()), "another value");
    assert_eq!(find(&[10, 10]), Ok("wrong_content".into()), "twice");
    assert_eq!(find(&[]), Err(10), "nobody changed or deleted it");
    assert!(judge.ledger.claim_delete(10));
    assert_eq!(find(&[]), Ok("ok".into()), "somebody deletes it");
    judge.ledger.settle_delete(10, Delete::None);
    assert_eq!(find(&[]), Err(10));
    judge.will_change();
    assert_eq!(find(&[]), Ok("ok".into()), "it may have another value by now");
}

#[test]
fn what_an_index_misses_is_a_finding_only_if_the_document_is_there_as_it_was() {
    let judge = judge();
    assert_eq!(class(&judge.missed_by_index(10, Some(&document(10)))), "not_found");
    assert_eq!(class(&judge.missed_by_index(10, Some(&documents().document(10, 3)))), "ok");
    assert_eq!(class(&judge.missed_by_index(10, None)), "not_found");
    assert_eq!(class(&judge.missed_by_index(10, Some(&document(11)))), "wrong_content");
}

#[test]
fn values_are_found_through_nested_documents() {
    let raw = bson::rawdoc! { "a": { "b": { "c": 5 } } };
    assert_eq!(value_at(&raw, "a.b.c"), Some(Bson::Int32(5)));
    assert_eq!(value_at(&raw, "a.c"), None);
    assert_eq!(value_at(&raw, "a.b.c.d"), None);
}
