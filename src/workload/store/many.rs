//! What answers with many documents mean: each of them is compared, and none may be missing.
//!
//! What must be there is noted before the request is sent: a document that is inserted meanwhile may be
//! seen or not. What is being deleted when the answer has come need not be there.

use std::iter::Peekable;
use std::vec::IntoIter;

use bson::{Bson, RawDocument};

use super::asked::Counted;
use super::judge::{Judge, missing};
use crate::ledger::State;
use crate::outcome::{Cause, Outcome};

impl Judge {
    /// Before a scan of at most `length` documents from a key on.
    pub(super) fn scan(&self, key: u64, length: u32) -> ScanCheck<'_> {
        let expected = self.must_exist_from(key, u64::MAX, length).into_iter().peekable();
        ScanCheck {
            judge: self,
            from: key,
            length,
            expected,
            last: None,
            seen: 0,
            missing: None,
            wrong: None,
        }
    }

    /// Before a find by the value that a field of this key had when it was inserted.
    pub(super) fn find<'a>(&'a self, key: u64, field: &'a str) -> Result<FindCheck<'a>, Outcome> {
        let wanted = value_at(&self.documents.document(key, 0), field).ok_or_else(|| {
            Outcome::Failed(Cause::new(
                "invalid_find",
                format!("key {} has no field {field:?}", self.documents.id(key)),
            ))
        })?;
        Ok(FindCheck { judge: self, key, field, wanted, keys: Vec::new(), wrong: None })
    }

    /// The keys that an aggregation over a range must count, before it is sent.
    pub(super) fn expected(&self, key: u64, length: u32) -> Vec<u64> {
        self.must_exist_from(key, key.saturating_add(length.into()), length)
    }

    /// The answer of an aggregation over a range of keys.
    pub(super) fn counted(
        &self,
        key: u64,
        length: u32,
        expected: Vec<u64>,
        counted: Option<Counted>,
    ) -> Outcome {
        let end = key.saturating_add(length.into());
        let may = (key..end).filter(|key| self.ledger.state(*key) != State::NeverSent).count() as u64;
        let must: Vec<_> = expected.into_iter().filter(|key| self.must_exist(*key)).collect();
        let found = counted.map_or(0, |counted| counted.documents);
        if let Some(Counted { lowest, highest, .. }) = counted
            && !(self.documents.id(key) <= lowest && lowest <= highest && highest < self.documents.id(end))
        {
            return self.wrong_content(format!(
                "asked for keys {} to {}, got {lowest} to {highest}",
                self.documents.id(key),
                self.documents.id(end.saturating_sub(1))
            ));
        }
        if found > may && !self.reads_leftovers {
            return self.wrong_content(format!(
                "{found} documents counted from key {} on, where {may} were sent",
                self.documents.id(key)
            ));
        }
        let must_count = must.len() as u64;
        if found < must_count {
            self.ledger.note_stale_read();
            return missing(format!(
                "{found} documents counted from key {} on, where {must_count} were acknowledged",
                self.documents.id(key)
            ));
        }
        Outcome::Ok
    }

    /// A find did not return the document that it was made for. It is right if that has another version.
    pub(super) fn missed_by_index(&self, key: u64, found: Option<&RawDocument>) -> Outcome {
        match found.map(|found| self.documents.check(found)) {
            Some(Ok((found_key, 0))) if found_key == key => {
                self.ledger.note_stale_read();
                missing(format!(
                    "key {} is there, but was not found by its indexed field",
                    self.documents.id(key)
                ))
            }
            _ => self.read(key, found),
        }
    }

    /// Of the first `most` acknowledged keys from `from` to below `end` those that must be there; none where
    /// reads may be stale.
    fn must_exist_from(&self, from: u64, end: u64, most: u32) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut at = from;
        for _ in 0..if self.reads_are_fresh { most } else { 0 } {
            let Some(key) = self.ledger.next_acknowledged(at).filter(|key| *key < end) else { break };
            if self.ledger.is_majority(key) {
                keys.push(key);
            }
            at = key + 1;
        }
        keys
    }
}

/// Looks at the documents of one scan as they come.
pub(super) struct ScanCheck<'a> {
    judge: &'a Judge,
    from: u64,
    length: u32,
    expected: Peekable<IntoIter<u64>>,
    last: Option<u64>,
    seen: u32,
    missing: Option<u64>,
    wrong: Option<Outcome>,
}

impl ScanCheck<'_> {
    pub(super) fn see(&mut self, raw: &RawDocument) {
        self.seen += 1;
        if self.wrong.is_some() {
            return;
        }
        match self.judge.documents.check(raw) {
            Ok((key, _)) => self.next(key),
            Err(error) => self.wrong = Some(self.judge.wrong_content(error.to_string())),
        }
    }

    fn next(&mut self, key: u64) {
        if key < self.from {
            let text = format!(
                "asked for keys from {} on, got key {}",
                self.judge.documents.id(self.from),
                self.judge.documents.id(key)
            );
            self.wrong = Some(self.judge.wrong_content(text));
        } else if self.last == Some(key) && !self.judge.reads_leftovers {
            self.wrong = Some(
                self.judge
                    .wrong_content(format!("key {} came twice in one scan", self.judge.documents.id(key))),
            );
        } else if let Some(last) = self.last.filter(|last| *last > key) {
            self.wrong = Some(self.judge.wrong_content(format!(
                "key {} came behind key {} in a scan",
                self.judge.documents.id(key),
                self.judge.documents.id(last)
            )));
        }
        while let Some(passed) = self.expected.next_if(|expected| *expected <= key) {
            if passed != key {
                self.is_missing(passed);
            }
        }
        self.last = Some(key);
    }

    fn is_missing(&mut self, key: u64) {
        if self.missing.is_none() && self.judge.must_exist(key) {
            self.missing = Some(key);
        }
    }

    /// After the last document.
    pub(super) fn judge(mut self) -> Outcome {
        if let Some(wrong) = self.wrong {
            return wrong;
        }
        if self.seen < self.length {
            // It came to the end of the collection.
            while let Some(key) = self.expected.next() {
                self.is_missing(key);
            }
        }
        match self.missing {
            Some(key) => self.judge.not_found(key, true),
            None if self.seen > self.length => {
                let text = format!("asked for {} documents, got {}", self.length, self.seen);
                self.judge.wrong_content(text)
            }
            None => Outcome::Ok,
        }
    }
}

/// Looks at the documents of one find as they come.
pub(super) struct FindCheck<'a> {
    judge: &'a Judge,
    key: u64,
    field: &'a str,
    wanted: Bson,
    /// Found so far; no more than the limit of the find.
    keys: Vec<u64>,
    wrong: Option<Outcome>,
}

impl FindCheck<'_> {
    /// The value to ask for.
    pub(super) fn wanted(&self) -> Bson {
        self.wanted.clone()
    }

    pub(super) fn see(&mut self, raw: &RawDocument) {
        if self.wrong.is_some() {
            return;
        }
        self.wrong = match self.judge.documents.check(raw) {
            Err(error) => Some(error.to_string()),
            Ok((key, _)) if value_at(raw, self.field).as_ref() != Some(&self.wanted) => Some(format!(
                "key {} was found by a value of {:?} that it does not have",
                self.judge.documents.id(key),
                self.field
            )),
            Ok((key, _)) if self.keys.contains(&key) && !self.judge.reads_leftovers => {
                Some(format!("key {} came twice in one find", self.judge.documents.id(key)))
            }
            Ok((key, _)) => {
                self.keys.push(key);
                None
            }
        }
        .map(|text| self.judge.wrong_content(text));
    }

    /// After the last document. `Err`: the document that it was made for is not there, although nobody of
    /// this run changed it.
    pub(super) fn judge(self, limit: u32) -> Result<Outcome, u64> {
        if let Some(wrong) = self.wrong {
            return Ok(wrong);
        }
        let suspicious = !self.keys.contains(&self.key)
            && self.keys.len() < limit as usize
            && self.judge.reads_are_fresh
            && self.judge.must_exist(self.key)
            && !self.judge.ledger.is_changed();
        if suspicious { Err(self.key) } else { Ok(Outcome::Ok) }
    }
}

/// The value at a path with dots through nested documents.
fn value_at(raw: &RawDocument, path: &str) -> Option<Bson> {
    match path.split_once('.') {
        Some((outer, inner)) => value_at(raw.get_document(outer).ok()?, inner),
        None => raw.get(path).ok().flatten().and_then(|value| Bson::try_from(value).ok()),
    }
}

#[cfg(test)]
mod tests;
