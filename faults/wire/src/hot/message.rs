//! A request that is built once and then only filled in.

use std::ops::Range;

use bson::RawDocument;

use super::scan::Elements;
use crate::error::FormatError;
use crate::frame::{HEADER_BYTES, MAX_MESSAGE_BYTES, OpCode};

/// Flags, and the kind of the first section.
const PROLOGUE_BYTES: usize = 5;

/// An `OP_MSG` request: a body that stays, but for its slots, and perhaps a list of documents that is
/// written anew for each exchange.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// Length of what stays.
    fixed: usize,
    /// Where the section of the list begins, at its length.
    list: Option<usize>,
}

impl Message {
    /// A request of a body alone.
    #[must_use]
    pub fn new(body: &RawDocument) -> Self {
        let mut bytes = vec![0; HEADER_BYTES - 4];
        bytes.extend(i32::from(OpCode::Msg).to_le_bytes());
        bytes.extend([0; PROLOGUE_BYTES]);
        bytes.extend(body.as_bytes());
        Self { fixed: bytes.len(), bytes, list: None }
    }

    /// A request of a body and a list in a section of its own, such as the `documents` of an insert. The
    /// name must hold no NUL.
    #[must_use]
    pub fn with_list(body: &RawDocument, name: &str) -> Self {
        let mut message = Self::new(body);
        message.bytes.push(1);
        message.list = Some(message.bytes.len());
        message.bytes.extend([0; 4]);
        message.bytes.extend(name.as_bytes());
        message.bytes.push(0);
        message.fixed = message.bytes.len();
        message
    }

    /// Where the value at this path of the body lies, for [`Message::fill`].
    #[must_use]
    pub fn slot(&self, path: &[&str]) -> Option<Range<usize>> {
        let mut document = body_of(&self.bytes)?;
        let mut value = document;
        for name in path {
            value = Elements::of(document).ok()?.find(name.as_bytes()).ok()??.value;
            document = value;
        }
        let start = value.as_ptr().addr() - self.bytes.as_ptr().addr();
        Some(start..start + value.len())
    }

    /// Puts another value of the same length into a slot.
    ///
    /// # Panics
    /// When the slot is not one of this message, or the value is not as long as it.
    pub fn fill(&mut self, slot: &Range<usize>, value: &[u8]) {
        self.bytes[slot.clone()].copy_from_slice(value);
    }

    /// Takes the documents of the last exchange off; new ones are to be appended, one behind the other.
    /// Only for a message with a list.
    pub fn list(&mut self) -> &mut Vec<u8> {
        self.bytes.truncate(self.fixed);
        &mut self.bytes
    }

    /// The message as it goes over the wire.
    ///
    /// # Errors
    /// When it is longer than a message may be.
    pub(super) fn stamp(&mut self, request_id: i32) -> Result<&[u8], FormatError> {
        let length = self.bytes.len();
        if length > MAX_MESSAGE_BYTES {
            return Err(FormatError::Length(length as i64));
        }
        // It fits: the largest message is far below 2^31 bytes.
        self.bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        self.bytes[4..8].copy_from_slice(&request_id.to_le_bytes());
        if let Some(start) = self.list {
            self.bytes[start..start + 4].copy_from_slice(&((length - start) as u32).to_le_bytes());
        }
        Ok(&self.bytes)
    }
}

fn body_of(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.get(HEADER_BYTES + PROLOGUE_BYTES..)?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    rest.get(..usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;
    use crate::{Frame, Msg, Sequence};

    fn sent(message: &mut Message, id: i32) -> Msg {
        let frame = Frame::from_bytes(message.stamp(id).unwrap().to_vec()).unwrap();
        assert_eq!((frame.header().request_id, frame.header().response_to), (id, 0));
        Msg::decode(&frame).unwrap()
    }

    #[test]
    fn a_slot_is_filled_in_place() {
        let body = |key: i64| rawdoc! { "find": "c", "filter": { "_id": key }, "limit": 1, "$db": "d" };
        let mut message = Message::new(&body(0));
        let slot = message.slot(&["filter", "_id"]).unwrap();
        for (id, key) in [(1, 17_i64), (2, i64::MIN), (-1, 3)] {
            message.fill(&slot, &key.to_le_bytes());
            assert_eq!(sent(&mut message, id), Msg::new(body(key)));
        }
        assert_eq!(message.slot(&["filter", "nothing"]), None);
        assert_eq!(message.slot(&["limit", "_id"]), None);
    }

    #[test]
    fn a_list_is_written_anew_each_time() {
        let body = rawdoc! { "insert": "c", "$db": "d" };
        let mut message = Message::with_list(&body, "documents");
        for count in [3, 1, 0, 2] {
            let documents: Vec<_> = (0..count).map(|key| rawdoc! { "_id": key, "n": count }).collect();
            let list = message.list();
            documents.iter().for_each(|document| list.extend(document.as_bytes()));
            let sequences = vec![Sequence { name: "documents".into(), documents }];
            assert_eq!(sent(&mut message, count), Msg { flags: 0, body: body.clone(), sequences });
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut message = Message::with_list(&rawdoc! { "insert": "c" }, "documents");
        message.list().resize(MAX_MESSAGE_BYTES + 1, 0);
        assert_eq!(message.stamp(1), Err(FormatError::Length(48_000_001)));
    }
}
