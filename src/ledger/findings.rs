//! Judges the keys of a range by what was found under them.

use bson::RawDocument;

use super::{Ledger, State};
use crate::recording::{Finding, Ledger as Books};

/// Findings of each kind kept for the report; all are counted.
const MAX_SAMPLES: usize = 20;

/// Adds the counts of one range.
pub(super) fn add(sum: &mut Books, part: &Books) {
    sum.checked += part.checked;
    sum.present += part.present;
    sum.deleted += part.deleted;
    sum.delete_unknown += part.delete_unknown;
    sum.lost += part.lost;
    sum.lost_permitted += part.lost_permitted;
    sum.unknown_present += part.unknown_present;
    sum.unknown_absent += part.unknown_absent;
    sum.refused_present += part.refused_present;
    sum.duplicates += part.duplicates;
    sum.corrupt += part.corrupt;
    sum.alien += part.alien;
    for found in &part.samples {
        sample(sum, &found.kind, found.key.clone(), &found.detail);
    }
}

/// Books the keys of `from..to`, none of which is there.
pub(super) fn absent(ledger: &Ledger, part: &mut Books, from: u64, to: u64) {
    for key in from..to {
        let state = ledger.state(key);
        part.checked += u64::from(was_acknowledged(state));
        match state {
            State::Acknowledged if ledger.is_majority(key) => {
                part.lost += 1;
                sample(part, "lost", ledger.shown(key), "acknowledged with majority, absent");
            }
            State::Acknowledged => {
                part.lost_permitted += 1;
                sample(part, "lost_permitted", ledger.shown(key), "acknowledged below majority, absent");
            }
            State::Deleting => part.delete_unknown += 1,
            State::DeletedWeakly | State::Deleted => part.deleted += 1,
            State::Unknown => part.unknown_absent += 1,
            State::NeverSent | State::Refused => {}
        }
    }
}

/// Books a key whose document is there, with the right content.
pub(super) fn present(ledger: &Ledger, part: &mut Books, key: u64) {
    let state = ledger.state(key);
    part.checked += u64::from(was_acknowledged(state));
    match state {
        State::Acknowledged => part.present += 1,
        State::Deleting => part.delete_unknown += 1,
        State::Deleted => {
            part.lost += 1;
            sample(
                part,
                "lost",
                ledger.shown(key),
                "its delete was acknowledged with majority, yet it is there",
            );
        }
        State::DeletedWeakly => {
            part.lost_permitted += 1;
            let detail = "its delete was acknowledged below majority, and it is there";
            sample(part, "lost_permitted", ledger.shown(key), detail);
        }
        State::Unknown => part.unknown_present += 1,
        State::Refused => part.refused_present += 1,
        State::NeverSent => {
            part.alien += 1;
            sample(part, "alien", ledger.shown(key), "present under a key that was never sent");
        }
    }
}

/// Books a document in the key space whose content is not that of its key.
pub(super) fn wrong(
    ledger: &Ledger,
    part: &mut Books,
    (key, raw): (Option<u64>, &RawDocument),
    detail: &str,
) {
    let Some((key, state)) = key.map(|key| (key, ledger.state(key))) else {
        return stranger(part, raw);
    };
    part.checked += u64::from(was_acknowledged(state));
    if state == State::NeverSent {
        return stranger(part, raw);
    }
    part.corrupt += 1;
    sample(part, "corrupt", ledger.shown(key), detail);
}

/// Books a second document for a key.
pub(super) fn duplicate(ledger: &Ledger, part: &mut Books, key: u64) {
    part.duplicates += 1;
    sample(part, "duplicate", ledger.shown(key), "there is a second document under this key");
}

/// Books a document that cannot be ours.
pub(super) fn stranger(part: &mut Books, raw: &RawDocument) {
    part.alien += 1;
    sample(part, "alien", shown_id(raw), "not a document of this run");
}

const fn was_acknowledged(state: State) -> bool {
    matches!(state, State::Acknowledged | State::Deleting | State::DeletedWeakly | State::Deleted)
}

/// The `_id` as one would type it into a shell: `-5`, `"text"`, `{"$oid":"..."}`.
fn shown_id(raw: &RawDocument) -> String {
    let id = raw.get("_id").ok().flatten().and_then(|id| bson::Bson::try_from(id).ok());
    id.map_or_else(|| "none".into(), |id| id.into_relaxed_extjson().to_string())
}

/// Keeps a finding for the report while there is room.
pub(super) fn sample(part: &mut Books, kind: &str, key: String, detail: &str) {
    if part.samples.iter().filter(|sample| sample.kind == kind).count() < MAX_SAMPLES {
        part.samples.push(Finding { kind: kind.into(), key, detail: detail.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Documents;
    use crate::ledger::{Delete, KeySource};
    use crate::scenario::Shape;

    /// Five loaded keys: 0 untouched, 1 deleted for good, 2 deleted weakly, 3 perhaps deleted, 4 not deleted
    /// after all; and an inserted one that was deleted for good.
    fn ledger() -> Ledger {
        let ledger = Ledger::new(5);
        let inserted = KeySource::new(false).take(&ledger, 1);
        ledger.acknowledge(inserted);
        let deletes = [Delete::Majority, Delete::Weak, Delete::Unknown, Delete::None];
        for (key, delete) in (1..5).zip(deletes).chain([(inserted, Delete::Majority)]) {
            assert!(ledger.claim_delete(key));
            ledger.settle_delete(key, delete);
        }
        ledger
    }

    fn kinds(books: &Books) -> Vec<(&str, &str)> {
        books.samples.iter().map(|finding| (finding.kind.as_str(), finding.key.as_str())).collect()
    }

    fn adds_up(books: &Books) -> bool {
        let all = books.present + books.deleted + books.delete_unknown;
        books.checked == all + books.lost + books.lost_permitted + books.corrupt
    }

    #[test]
    fn what_was_deleted_is_rightly_absent() {
        let mut books = Books::default();
        absent(&ledger(), &mut books, 0, 6);
        assert_eq!((books.checked, books.deleted, books.delete_unknown), (6, 3, 1));
        assert_eq!(kinds(&books), [("lost", "0"), ("lost", "4")], "nobody deleted these");
        assert!(adds_up(&books), "{books:?}");
    }

    #[test]
    fn what_comes_back_after_its_delete_was_acknowledged_is_found() {
        let (ledger, mut books) = (ledger(), Books::default());
        (0..6).for_each(|key| present(&ledger, &mut books, key));
        assert_eq!((books.checked, books.present, books.deleted, books.delete_unknown), (6, 2, 0, 1));
        assert_eq!(kinds(&books), [("lost", "1"), ("lost_permitted", "2"), ("lost", "5")]);
        assert!(books.samples[0].detail.contains("its delete was acknowledged with majority"));
        assert!(adds_up(&books), "{books:?}");
    }

    #[test]
    fn wrong_content_under_a_deleted_key_is_corrupt() {
        let (ledger, mut books) = (ledger(), Books::default());
        let other_seed = Documents::new(Shape::Row, 99).document(1, 0);
        wrong(&ledger, &mut books, (Some(1), &other_seed), "string is not as written");
        assert_eq!((kinds(&books), books.checked), (vec![("corrupt", "1")], 1));
        let never_sent = Documents::new(Shape::Row, 99).document(4_000, 0);
        wrong(&ledger, &mut books, (Some(4_000), &never_sent), "");
        assert_eq!((books.corrupt, books.alien, books.checked), (1, 1, 1));
        assert!(adds_up(&books), "{books:?}");
    }

    #[test]
    fn ranges_are_added_up() {
        let ledger = ledger();
        let (mut first, mut second, mut sum) = (Books::default(), Books::default(), Books::default());
        absent(&ledger, &mut first, 0, 3);
        (3..6).for_each(|key| present(&ledger, &mut second, key));
        add(&mut sum, &first);
        add(&mut sum, &second);
        assert_eq!((sum.checked, sum.deleted, sum.delete_unknown, sum.lost), (6, 2, 1, 2));
        assert!(adds_up(&sum), "{sum:?}");
    }
}
