//! What an answer means, and what of it goes into the ledger. It does not know how the answer came.

use std::sync::Arc;

use bson::RawDocument;

use super::{Outcomes, Request};
use crate::dataset::Documents;
use crate::ledger::Ledger;
use crate::outcome::{Cause, Outcome};
use crate::scenario::{ReadPreference, Workload};

/// Judges the answers to one workload.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    documents: Documents,
    ledger: Arc<Ledger>,
    reads_primary: bool,
}

impl Judge {
    pub(super) fn new(workload: &Workload, documents: Documents, ledger: Arc<Ledger>) -> Self {
        let reads_primary = workload.read_preference == ReadPreference::Primary;
        Self { documents, ledger, reads_primary }
    }

    /// What the documents should hold.
    pub(super) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// What was found under an acknowledged key.
    pub(super) fn read(&self, key: u64, found: Option<&RawDocument>) -> Outcome {
        let Some(found) = found else {
            return self.not_found(key);
        };
        match self.documents.check(found) {
            Ok((found_key, _)) if found_key == key => Outcome::Ok,
            Ok((other, _)) => self.wrong_content(format!("asked for key {key}, got key {other}")),
            Err(error) => self.wrong_content(format!("key {key}: {error}")),
        }
    }

    /// An acknowledged change of an acknowledged key, which matched this many documents.
    pub(super) fn changed(&self, key: u64, matched: u64) -> Outcome {
        if matched == 1 { Outcome::Ok } else { self.not_found(key) }
    }

    /// Books the outcomes of an insert; other requests leave no trace in the ledger.
    pub(super) fn book(&self, request: Request, outcomes: &Outcomes) {
        let Request::Insert { first, count } = request else {
            return;
        };
        for (index, key) in (first..first + count).enumerate() {
            match outcomes.of(index) {
                Some(Outcome::Ok) => self.ledger.acknowledge(key),
                Some(Outcome::Failed(_)) => self.ledger.refuse(key),
                Some(Outcome::Unknown(_)) | None => {}
            }
        }
    }

    /// The server answered, but not with what was acknowledged. A secondary may lag, and what was
    /// acknowledged below majority may be rolled back: those are stale reads, and legal. The final check
    /// decides what is lost.
    fn not_found(&self, key: u64) -> Outcome {
        self.ledger.note_stale_read();
        if self.reads_primary && self.ledger.is_majority(key) {
            Outcome::Failed(Cause::new("not_found", format!("acknowledged key {key} was not found")))
        } else {
            Outcome::Ok
        }
    }

    fn wrong_content(&self, text: String) -> Outcome {
        self.ledger.note_corrupt_read();
        Outcome::Failed(Cause::new("wrong_content", text))
    }
}
