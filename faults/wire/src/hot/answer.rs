//! What a reply says, read in one pass and without copies.

use super::scan::{Element, Elements};
use crate::error::FormatError;

/// The fields of a reply that decide what became of a command.
#[derive(Clone, Debug, Default)]
pub struct Answer<'a> {
    /// The command as a whole was carried out. Single writes may still have failed.
    pub ok: bool,
    /// Documents written, matched or deleted.
    pub n: i64,
    /// Documents changed by updates.
    pub n_modified: i64,
    /// Cursor to read on from; 0: there is no more.
    pub cursor_id: i64,
    code: Option<Element<'a>>,
    code_name: Option<Element<'a>>,
    message: Option<Element<'a>>,
    labels: Option<&'a [u8]>,
    write_errors: Option<&'a [u8]>,
    write_concern_error: Option<&'a [u8]>,
    batch: Option<&'a [u8]>,
}

/// Why something was refused: a command, one write of it, or its write concern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Position of the write in its command; 0 for others.
    pub index: usize,
    /// The server's number; 0 when it sent none.
    pub code: i32,
    /// The number's name; empty when it sent none.
    pub code_name: String,
    /// Its text.
    pub message: String,
}

impl<'a> Answer<'a> {
    /// Reads the body of a reply.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn read(body: &'a [u8]) -> Result<Self, FormatError> {
        let mut answer = Self::default();
        let mut elements = Elements::of(body)?;
        while let Some(element) = elements.next_element()? {
            match element.name {
                b"ok" => answer.ok = element.is_true(),
                b"n" => answer.n = element.as_i64().unwrap_or_default(),
                b"nModified" => answer.n_modified = element.as_i64().unwrap_or_default(),
                b"cursor" => answer.cursor(element.as_document())?,
                b"code" => answer.code = Some(element),
                b"codeName" => answer.code_name = Some(element),
                b"errmsg" => answer.message = Some(element),
                b"errorLabels" => answer.labels = element.as_document(),
                b"writeErrors" => answer.write_errors = element.as_document(),
                b"writeConcernError" => answer.write_concern_error = element.as_document(),
                _ => {}
            }
        }
        Ok(answer)
    }

    fn cursor(&mut self, cursor: Option<&'a [u8]>) -> Result<(), FormatError> {
        let Some(cursor) = cursor else { return Ok(()) };
        let mut elements = Elements::of(cursor)?;
        while let Some(element) = elements.next_element()? {
            match element.name {
                b"firstBatch" | b"nextBatch" => self.batch = element.as_document(),
                b"id" => self.cursor_id = element.as_i64().unwrap_or_default(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nothing to tell but that it was done.
    #[must_use]
    pub fn is_plain_success(&self) -> bool {
        self.ok && self.write_errors.is_none() && self.write_concern_error.is_none()
    }

    /// The first document of a cursor's batch, as it lies there; `None`: the batch is empty, or there is
    /// none.
    ///
    /// # Errors
    /// When the batch is not BSON.
    pub fn first(&self) -> Result<Option<&'a [u8]>, FormatError> {
        self.documents()?.next_document()
    }

    /// All documents of a cursor's batch.
    ///
    /// # Errors
    /// When the batch is not BSON.
    pub fn documents(&self) -> Result<Batch<'a>, FormatError> {
        self.batch.map(Elements::of).transpose().map(Batch)
    }

    /// Why the command as a whole was refused; only when it is not `ok`.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal {
            index: 0,
            code: self.code.and_then(number).unwrap_or_default(),
            code_name: self.code_name.and_then(|e| e.as_text()).unwrap_or_default(),
            message: self.message.and_then(|e| e.as_text()).unwrap_or_default(),
        }
    }

    /// Whether the reply carries this error label.
    #[must_use]
    pub fn has_label(&self, label: &str) -> bool {
        let labels = self.labels.and_then(|labels| Elements::of(labels).ok());
        let Some(mut labels) = labels else { return false };
        while let Ok(Some(element)) = labels.next_element() {
            if element.as_text().is_some_and(|text| text == label) {
                return true;
            }
        }
        false
    }

    /// The writes that were refused.
    ///
    /// # Errors
    /// When the list is not BSON.
    pub fn write_errors(&self) -> Result<Vec<Refusal>, FormatError> {
        let Some(list) = self.write_errors else { return Ok(Vec::new()) };
        let mut batch = Batch(Some(Elements::of(list)?));
        let mut errors = Vec::new();
        while let Some(document) = batch.next_document()? {
            let mut error = Refusal::read(document)?;
            error.index = index(document)?;
            errors.push(error);
        }
        Ok(errors)
    }

    /// Why the write concern was not met.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn write_concern_error(&self) -> Result<Option<Refusal>, FormatError> {
        self.write_concern_error.map(Refusal::read).transpose()
    }
}

/// The documents of an array.
#[derive(Clone, Debug)]
pub struct Batch<'a>(Option<Elements<'a>>);

impl<'a> Batch<'a> {
    /// The next one, as it lies there; `None` at the end.
    ///
    /// # Errors
    /// When the array is not BSON, or holds something else than documents.
    pub fn next_document(&mut self) -> Result<Option<&'a [u8]>, FormatError> {
        let Some(elements) = &mut self.0 else { return Ok(None) };
        let Some(element) = elements.next_element()? else { return Ok(None) };
        let other = || FormatError::Document("a list of documents holds something else".into());
        element.as_document().ok_or_else(other).map(Some)
    }
}

impl Refusal {
    fn read(document: &[u8]) -> Result<Self, FormatError> {
        let mut refusal = Self::default();
        let mut elements = Elements::of(document)?;
        while let Some(element) = elements.next_element()? {
            match element.name {
                b"code" => refusal.code = number(element).unwrap_or_default(),
                b"codeName" => refusal.code_name = element.as_text().unwrap_or_default(),
                b"errmsg" => refusal.message = element.as_text().unwrap_or_default(),
                _ => {}
            }
        }
        Ok(refusal)
    }
}

/// Whose write it was must be known for sure.
fn index(error: &[u8]) -> Result<usize, FormatError> {
    let index = Elements::of(error)?.find(b"index")?.and_then(|element| element.as_i64());
    let index = index.and_then(|index| usize::try_from(index).ok());
    index.ok_or_else(|| FormatError::Document("a write error without its index".into()))
}

fn number(element: Element<'_>) -> Option<i32> {
    element.as_i64().and_then(|number| i32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};
    use proptest::prelude::*;

    use super::*;

    fn busy_reply() -> RawDocumentBuf {
        rawdoc! {
            "cursor": { "firstBatch": [{ "_id": 7_i64 }, { "_id": 8_i64 }], "id": 5_i64, "ns": "d.c" },
            "n": 9, "nModified": 2_i64, "ok": 1.0, "errorLabels": ["A", "B"],
            "writeErrors": [{ "index": 4, "code": 11000, "errmsg": "E11000", "keyValue": { "_id": 4 } }],
            "writeConcernError": { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "waiting" },
            "operationTime": bson::Timestamp { time: 1, increment: 1 },
        }
    }

    #[test]
    fn every_field_that_decides_is_read() {
        let reply = busy_reply();
        let answer = Answer::read(reply.as_bytes()).unwrap();
        assert_eq!((answer.ok, answer.n, answer.n_modified, answer.cursor_id), (true, 9, 2, 5));
        assert!(!answer.is_plain_success());
        assert_eq!(answer.first().unwrap().unwrap(), rawdoc! { "_id": 7_i64 }.as_bytes());
        let mut batch = answer.documents().unwrap();
        let count = std::iter::from_fn(|| batch.next_document().unwrap()).count();
        assert_eq!(count, 2);
        assert!(answer.has_label("B") && !answer.has_label("C"));
        let errors = answer.write_errors().unwrap();
        assert_eq!((errors.len(), errors[0].index, errors[0].code), (1, 4, 11000));
        let concern = answer.write_concern_error().unwrap().unwrap();
        assert_eq!((concern.code, concern.code_name.as_str()), (64, "WriteConcernTimeout"));
    }

    #[test]
    fn a_refusal_is_no_success() {
        let reply = rawdoc! { "ok": 0.0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "no" };
        let answer = Answer::read(reply.as_bytes()).unwrap();
        assert!(!answer.ok && !answer.is_plain_success());
        let refusal = answer.refusal();
        assert_eq!((refusal.code, refusal.message.as_str()), (10107, "no"));
        let silent = rawdoc! {};
        assert!(!Answer::read(silent.as_bytes()).unwrap().ok, "without a word nothing is ok");
        let empty = rawdoc! { "cursor": { "firstBatch": [], "id": 0_i64 }, "ok": 1.0 };
        assert_eq!(Answer::read(empty.as_bytes()).unwrap().first(), Ok(None));
    }

    #[test]
    fn a_write_error_of_nobody_knows_which_write_is_refused() {
        let reply = rawdoc! { "ok": 1.0, "writeErrors": [{ "index": "a", "code": 1 }] };
        assert!(Answer::read(reply.as_bytes()).unwrap().write_errors().is_err());
        let reply = rawdoc! { "ok": 1.0, "writeErrors": [{ "code": 1 }] };
        assert!(Answer::read(reply.as_bytes()).unwrap().write_errors().is_err());
        let reply = rawdoc! { "ok": 1.0, "writeErrors": [1] };
        assert!(Answer::read(reply.as_bytes()).unwrap().write_errors().is_err());
    }

    proptest! {
        #[test]
        fn damaged_replies_never_panic(at: prop::sample::Index, to: u8) {
            let mut bytes = busy_reply().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Ok(answer) = Answer::read(&bytes) {
                let _read = (answer.first(), answer.write_errors(), answer.write_concern_error());
                let _refusal = (answer.refusal(), answer.has_label("B"));
            }
        }
    }
}
