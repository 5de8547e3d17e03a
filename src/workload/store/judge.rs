//! What an answer about one key means, and what of it goes into the ledger. It does not know how the answer
//! came.

use std::sync::Arc;

use bson::RawDocument;

use super::{Outcomes, Request};
use crate::dataset::Documents;
use crate::ledger::{Delete, Ledger, State};
use crate::outcome::{Cause, Outcome};
use crate::scenario::{ReadConcern, ReadPreference, Workload};

/// Judges the answers to one workload.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    pub(super) documents: Documents,
    pub(super) ledger: Arc<Ledger>,
    /// Reads must find what was acknowledged by a majority before they were sent.
    pub(super) reads_are_fresh: bool,
    /// Reads may meet copies that are left over from a move between shards.
    pub(super) reads_leftovers: bool,
    /// What an acknowledged delete is worth.
    delete: Delete,
}

impl Judge {
    pub(super) fn new(workload: &Workload, documents: Documents, ledger: Arc<Ledger>) -> Self {
        let concern = workload.read_concern;
        // A new primary may answer majority reads from before its election for a moment, and `available`
        // promises nothing.
        let fresh = matches!(concern, ReadConcern::Local | ReadConcern::Linearizable);
        Self {
            documents,
            ledger,
            reads_are_fresh: fresh && workload.read_preference == ReadPreference::Primary,
            reads_leftovers: concern == ReadConcern::Available,
            delete: if workload.write_concern.is_majority() { Delete::Majority } else { Delete::Weak },
        }
    }

    /// What was found under a key that was acknowledged when it was chosen.
    pub(super) fn read(&self, key: u64, found: Option<&RawDocument>) -> Outcome {
        let Some(found) = found else {
            return self.not_found(key, self.reads_are_fresh);
        };
        match self.documents.check(found) {
            Ok((found_key, _)) if found_key == key => Outcome::Ok,
            Ok((other, _)) => self.wrong_content(format!(
                "asked for key {}, got key {}",
                self.documents.id(key),
                self.documents.id(other)
            )),
            Err(error) => self.wrong_content(format!("key {}: {error}", self.documents.id(key))),
        }
    }

    /// To be called before a change is sent.
    pub(super) fn will_change(&self) {
        self.ledger.note_change();
    }

    /// An acknowledged change of a key, which matched this many documents. Writes go to the primary.
    pub(super) fn changed(&self, key: u64, matched: u64) -> Outcome {
        if matched == 1 { Outcome::Ok } else { self.not_found(key, true) }
    }

    /// An acknowledged delete of a key that nobody else deletes. One that found nothing has deleted nothing,
    /// so the key stays in the books as it was, and the final check decides whether it was lost.
    pub(super) fn deleted(&self, key: u64, deleted: u64) -> Outcome {
        if deleted == 1 {
            return Outcome::Ok;
        }
        self.ledger.note_stale_read();
        missing(format!("key {} was acknowledged, and was not there to be deleted", self.documents.id(key)))
    }

    /// Books the outcomes of inserts and deletes; other requests leave no trace in the ledger.
    pub(super) fn book(&self, request: Request, outcomes: &Outcomes) {
        match request {
            Request::Insert { first, count } => {
                for (index, key) in (first..first + count).enumerate() {
                    match outcomes.of(index) {
                        Some(Outcome::Ok) => self.ledger.acknowledge(key),
                        Some(Outcome::Failed(_)) => self.ledger.refuse(key),
                        Some(Outcome::Unknown(_)) | None => {}
                    }
                }
            }
            Request::Delete { key } => match outcomes.of(0) {
                Some(Outcome::Ok) => self.ledger.settle_delete(key, self.delete),
                Some(Outcome::Failed(_)) => self.ledger.settle_delete(key, Delete::None),
                Some(Outcome::Unknown(_)) | None => {}
            },
            _ => {}
        }
    }

    /// Whether a key must be there: a majority acknowledged it, and nobody has begun to delete it.
    pub(super) fn must_exist(&self, key: u64) -> bool {
        self.ledger.state(key) == State::Acknowledged && self.ledger.is_majority(key)
    }

    /// The server answered, but not with what was acknowledged. What is being deleted may be gone. A
    /// secondary may lag, and what was acknowledged below majority may be rolled back: those are stale
    /// reads, and legal. The final check decides what is lost.
    pub(super) fn not_found(&self, key: u64, fresh: bool) -> Outcome {
        if self.ledger.state(key) != State::Acknowledged {
            return Outcome::Ok;
        }
        self.ledger.note_stale_read();
        if fresh && self.ledger.is_majority(key) {
            missing(format!("acknowledged key {} was not found", self.documents.id(key)))
        } else {
            Outcome::Ok
        }
    }

    pub(super) fn wrong_content(&self, text: String) -> Outcome {
        self.ledger.note_corrupt_read();
        Outcome::Failed(Cause::new("wrong_content", text))
    }
}

/// Something acknowledged was not there.
pub(super) fn missing(text: String) -> Outcome {
    Outcome::Failed(Cause::new("not_found", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::KeySource;
    use crate::scenario::{Shape, Source, parse};

    fn judge(keys: &str) -> Judge {
        let text = format!("duration = \"1m\"\n[[workload]]\nname = \"w\"\nop = \"delete\"\n{keys}\n");
        let scenario = parse(&Source { path: "x.toml".into(), text }).unwrap();
        Judge::new(&scenario.workloads[0], Documents::new(Shape::Row, 7), Arc::new(Ledger::new(10)))
    }

    fn after_delete(judge: &Judge, key: u64, outcome: Outcome) -> State {
        assert!(judge.ledger.claim_delete(key));
        assert_eq!(judge.ledger.state(key), State::Deleting);
        judge.book(Request::Delete { key }, &Outcomes::One(outcome));
        judge.ledger.state(key)
    }

    #[test]
    fn a_delete_is_booked_by_what_became_of_it_and_by_its_write_concern() {
        let (strong, weak) = (judge(""), judge("write_concern = 1"));
        assert_eq!(after_delete(&strong, 1, Outcome::Ok), State::Deleted);
        assert_eq!(after_delete(&weak, 1, Outcome::Ok), State::DeletedWeakly);
        let refused = Outcome::Failed(Cause::new("not_primary", ""));
        assert_eq!(after_delete(&strong, 2, refused), State::Acknowledged);
        assert_eq!(after_delete(&strong, 3, Outcome::Unknown(Cause::new("network", ""))), State::Deleting);
        // Its answer comes after it was given up.
        strong.book(Request::Delete { key: 3 }, &Outcomes::One(Outcome::Ok));
        assert_eq!(strong.ledger.state(3), State::Deleted);
    }

    #[test]
    fn a_delete_that_finds_nothing_leaves_the_loss_to_be_found() {
        let judge = judge("");
        assert!(judge.ledger.claim_delete(4));
        let outcome = judge.deleted(4, 0);
        assert!(matches!(&outcome, Outcome::Failed(cause) if cause.class == "not_found"), "{outcome:?}");
        judge.book(Request::Delete { key: 4 }, &Outcomes::One(outcome));
        assert_eq!((judge.ledger.state(4), judge.ledger.stale_reads()), (State::Acknowledged, 1));
        assert_eq!(judge.deleted(5, 1), Outcome::Ok);
    }

    #[test]
    fn what_a_delete_took_away_is_no_failure_of_others() {
        let judge = judge("");
        assert!(judge.ledger.claim_delete(1));
        assert_eq!((judge.read(1, None), judge.changed(1, 0)), (Outcome::Ok, Outcome::Ok));
        judge.ledger.settle_delete(1, Delete::Majority);
        assert_eq!((judge.read(1, None), judge.changed(1, 0)), (Outcome::Ok, Outcome::Ok));
        assert_eq!(judge.ledger.stale_reads(), 0);
        // Nobody deletes this one.
        assert!(matches!(judge.read(2, None), Outcome::Failed(_)));
        assert!(matches!(judge.changed(2, 0), Outcome::Failed(_)));
        assert_eq!(judge.ledger.stale_reads(), 2);
    }

    #[test]
    fn a_missing_document_below_majority_may_be_rolled_back() {
        let judge = judge("");
        let key = KeySource::new(false).take(&judge.ledger, 1);
        judge.book(Request::Insert { first: key, count: 1 }, &Outcomes::One(Outcome::Ok));
        assert_eq!((judge.read(key, None), judge.changed(key, 0)), (Outcome::Ok, Outcome::Ok));
        assert_eq!(judge.ledger.stale_reads(), 2);
    }
}
