//! One insert command, built byte by byte: the driver would decode and encode each document again.

use bson::{Document, RawDocumentBuf};

use crate::dataset::Documents;

/// A command ends with the document that reaches this: far below what a server takes, and it bounds our memory.
pub const MOST_BYTES: usize = 4 << 20;

const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const STRING: u8 = 0x02;
const BOOLEAN: u8 = 0x08;
const INT32: u8 = 0x10;

/// An insert that was not sent yet.
#[derive(Debug)]
pub struct Batch {
    /// The command: unordered, `w: 1`.
    pub command: RawDocumentBuf,
    /// Documents in it.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Takes keys until they are used up or the command is large enough; `None`: there were no keys.
///
/// # Panics
/// Never: what is built is a well-formed document.
pub fn insert(collection: &str, content: &Documents, keys: &mut impl Iterator<Item = u64>) -> Option<Batch> {
    let mut bytes = Vec::with_capacity(512 << 10);
    let whole = open(&mut bytes);
    name(&mut bytes, STRING, "insert");
    bytes.extend(length(collection.len() + 1).to_le_bytes());
    bytes.extend(collection.as_bytes());
    bytes.push(0);
    name(&mut bytes, BOOLEAN, "ordered");
    bytes.push(0);
    name(&mut bytes, DOCUMENT, "writeConcern");
    let concern = open(&mut bytes);
    name(&mut bytes, INT32, "w");
    bytes.extend(1_i32.to_le_bytes());
    close(&mut bytes, concern);
    name(&mut bytes, ARRAY, "documents");
    let list = open(&mut bytes);
    let (mut documents, mut size) = (0, 0);
    while size < MOST_BYTES {
        let Some(key) = keys.next() else { break };
        name(&mut bytes, DOCUMENT, &documents.to_string());
        let before = bytes.len();
        content.encode(key, 0, &mut bytes);
        size += bytes.len() - before;
        documents += 1;
    }
    close(&mut bytes, list);
    close(&mut bytes, whole);
    let command = RawDocumentBuf::from_bytes(bytes).expect("lengths and ends were just written");
    (documents > 0).then_some(Batch { command, documents, bytes: size as u64 })
}

/// What is wrong with a reply; `None`: every document of the batch is in.
pub fn complaint(reply: &Document, documents: u64) -> Option<String> {
    let of = |list: &str| {
        let first = reply.get_array(list).ok()?.first()?.as_document()?.get_str("errmsg");
        Some(first.unwrap_or("no reason given").to_owned())
    };
    let concern = || {
        let error = reply.get_document("writeConcernError").ok()?;
        Some(error.get_str("errmsg").unwrap_or("write concern not met").to_owned())
    };
    let n = reply.get("n").and_then(|n| n.as_i64().or_else(|| n.as_i32().map(i64::from)));
    let missing =
        || (n != i64::try_from(documents).ok()).then(|| format!("{n:?} of {documents} were written"));
    of("writeErrors").or_else(concern).or_else(missing)
}

/// Begins a document: its length is written when it is closed.
fn open(bytes: &mut Vec<u8>) -> usize {
    let at = bytes.len();
    bytes.extend([0; 4]);
    at
}

fn close(bytes: &mut Vec<u8>, at: usize) {
    bytes.push(0);
    let size = length(bytes.len() - at).to_le_bytes();
    bytes[at..at + 4].copy_from_slice(&size);
}

fn name(bytes: &mut Vec<u8>, kind: u8, name: &str) {
    bytes.push(kind);
    bytes.extend(name.as_bytes());
    bytes.push(0);
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::scenario::Shape;

    #[test]
    fn a_command_is_what_the_driver_would_have_built() {
        let content = Documents::new(Shape::Row, 7);
        let batch = insert("docs", &content, &mut [5, 900].into_iter()).unwrap();
        let read = Document::try_from(&*batch.command).unwrap();
        let documents = [5, 900].map(|key| Document::try_from(&*content.document(key, 0)).unwrap());
        let documents = documents.to_vec();
        let expected =
            doc! { "insert": "docs", "ordered": false, "writeConcern": { "w": 1 }, "documents": documents };
        assert_eq!(read, expected);
        assert_eq!((batch.documents, batch.bytes), (2, 800));
        assert!(insert("docs", &content, &mut std::iter::empty()).is_none());
    }

    #[test]
    fn a_command_ends_when_it_is_large_and_the_next_goes_on() {
        let content = Documents::new(Shape::Row, 7);
        let mut keys = 0..30_000;
        let mut sizes = Vec::new();
        while let Some(batch) = insert("docs", &content, &mut keys) {
            assert!(batch.bytes <= (MOST_BYTES + 400) as u64);
            sizes.push(batch.documents);
        }
        assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (3, 30_000));
    }

    #[test]
    fn only_a_reply_without_any_complaint_is_taken_for_a_success() {
        assert_eq!(complaint(&doc! { "n": 3, "ok": 1.0 }, 3), None);
        assert!(complaint(&doc! { "n": 2, "ok": 1.0 }, 3).is_some());
        assert!(complaint(&doc! { "ok": 1.0 }, 3).is_some());
        let concern = doc! { "n": 3, "writeConcernError": { "code": 64, "errmsg": "waiting" } };
        assert_eq!(complaint(&concern, 3).as_deref(), Some("waiting"));
        let errors = doc! { "n": 3, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "E11000" }] };
        assert_eq!(complaint(&errors, 3).as_deref(), Some("E11000"));
    }
}
