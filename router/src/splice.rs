//! Changes a command without reading all of it: another name for the first field of its body, fields added at the
//! end. Documents in sections of their own stay as they are.

use bson::{RawDocument, RawDocumentBuf};
use wire::{FormatError, Frame, HEADER_BYTES};

/// Header and flags.
const SECTIONS_FROM: usize = HEADER_BYTES + 4;
const CHECKSUM_PRESENT: u32 = 1;
/// The client takes several replies to one request; nobody here sends them.
const EXHAUST_ALLOWED: u32 = 1 << 16;
const CHECKSUM_BYTES: usize = 4;
/// Length, and the zero at its end.
const DOCUMENT_FRAME: usize = 5;

/// The same message with `name` in the place of the first field's name, and the fields of `added` behind the others.
///
/// # Errors
/// When the message is not well formed, or gets too long.
pub(crate) fn renamed(frame: &Frame, name: &str, added: &RawDocument) -> Result<Frame, FormatError> {
    let bytes = frame.bytes();
    let malformed = || FormatError::Document("a message that cannot be taken apart".into());
    let flags_at = HEADER_BYTES..SECTIONS_FROM;
    let flags: [u8; 4] = bytes.get(flags_at.clone()).and_then(|f| f.try_into().ok()).ok_or_else(malformed)?;
    let flags = u32::from_le_bytes(flags);
    let checksum = if flags & CHECKSUM_PRESENT == 0 { 0 } else { CHECKSUM_BYTES };
    let end = bytes.len().checked_sub(checksum).filter(|end| *end >= SECTIONS_FROM).ok_or_else(malformed)?;
    let body = body_at(&bytes[..end]).ok_or_else(malformed)?;
    let mut out = Vec::with_capacity(bytes.len() + name.len() + added.as_bytes().len());
    out.extend_from_slice(&bytes[..body.start]);
    put_body(&mut out, &bytes[body.clone()], name, added).ok_or_else(malformed)?;
    out.extend_from_slice(&bytes[body.end..end]);
    let length = i32::try_from(out.len()).map_err(|_| FormatError::Length(out.len() as i64))?;
    out[..4].copy_from_slice(&length.to_le_bytes());
    let flags = flags & !(CHECKSUM_PRESENT | EXHAUST_ALLOWED);
    out[flags_at].copy_from_slice(&flags.to_le_bytes());
    Frame::from_bytes(out)
}

/// Where the body is.
fn body_at(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut at = SECTIONS_FROM;
    loop {
        let kind = *bytes.get(at)?;
        let length = bytes.get(at + 1..at + 5)?.try_into().ok().map(i32::from_le_bytes)?;
        let section = at + 1..(at + 1).checked_add(usize::try_from(length).ok()?)?;
        bytes.get(section.clone())?;
        if kind == 0 {
            return (section.len() > DOCUMENT_FRAME).then_some(section);
        }
        // A section has at least its own length.
        if section.len() < 4 {
            return None;
        }
        at = section.end;
    }
}

fn put_body(out: &mut Vec<u8>, body: &[u8], name: &str, added: &RawDocument) -> Option<()> {
    let start = out.len();
    let elements = body.get(4..body.len() - 1)?;
    let (kind, rest) = elements.split_first()?;
    let old_end = rest.iter().position(|byte| *byte == 0)?;
    out.extend_from_slice(&[0; 4]);
    out.push(*kind);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&rest[old_end..]);
    let added = added.as_bytes();
    out.extend_from_slice(added.get(4..added.len().checked_sub(1)?)?);
    out.push(0);
    let length = i32::try_from(out.len() - start).ok()?;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Some(())
}

/// The body of a reply, without a copy of it.
pub(crate) fn reply_body(frame: &Frame) -> Option<&RawDocument> {
    let at = body_at(frame.bytes())?;
    RawDocument::from_bytes(&frame.bytes()[at]).ok()
}

/// Whether the sender of a message wants no reply.
pub(crate) fn is_silent(frame: &Frame) -> bool {
    frame.payload().first_chunk().is_some_and(|flags| u32::from_le_bytes(*flags) & wire::MORE_TO_COME != 0)
}

/// No fields.
pub(crate) fn empty() -> RawDocumentBuf {
    RawDocumentBuf::new()
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;
    use wire::{Msg, Sequence};

    use super::*;

    fn insert(flags: u32) -> Frame {
        let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2, "a": "b" }];
        let sequences = vec![Sequence { name: "documents".into(), documents }];
        Msg { flags, body: rawdoc! { "insert": "c", "ordered": true, "$db": "d" }, sequences }
            .encode(7, 0)
            .unwrap()
    }

    #[test]
    fn the_first_field_gets_another_name_and_the_rest_stays() {
        let concern = rawdoc! { "writeConcern": { "w": "majority" } };
        let changed = renamed(&insert(0), "clusterInsert", &concern).unwrap();
        assert_eq!(changed.header().request_id, 7);
        let message = Msg::decode(&changed).unwrap();
        let expected = rawdoc! {
            "clusterInsert": "c", "ordered": true, "$db": "d", "writeConcern": { "w": "majority" }
        };
        assert_eq!(message.body, expected);
        assert_eq!(message.sequences, Msg::decode(&insert(0)).unwrap().sequences);
    }

    #[test]
    fn the_body_may_come_behind_its_documents() {
        // Length, kind 1 first: as some drivers order them.
        let message = Msg::decode(&insert(0)).unwrap();
        let plain = message.encode(7, 0).unwrap();
        let body_length = 1 + message.body.as_bytes().len();
        let (head, sections) = plain.bytes().split_at(SECTIONS_FROM);
        let (body, sequence) = sections.split_at(body_length);
        let turned = Frame::from_bytes([head, sequence, body].concat()).unwrap();
        let changed = Msg::decode(&renamed(&turned, "x", &rawdoc! {}).unwrap()).unwrap();
        assert_eq!(changed.body, rawdoc! { "x": "c", "ordered": true, "$db": "d" });
        assert_eq!(changed.sequences, message.sequences);
    }

    #[test]
    fn checksum_and_exhaust_are_taken_off() {
        let mut bytes = insert(0).bytes().to_vec();
        bytes.extend([1, 2, 3, 4]);
        let length = bytes.len() as i32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[HEADER_BYTES..SECTIONS_FROM]
            .copy_from_slice(&(CHECKSUM_PRESENT | EXHAUST_ALLOWED).to_le_bytes());
        let changed = renamed(&Frame::from_bytes(bytes).unwrap(), "insert", &rawdoc! {}).unwrap();
        assert_eq!(changed.bytes(), insert(0).bytes());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(payload: Vec<u8>) {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes.extend(payload);
            let length = bytes.len() as i32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            let frame = Frame::from_bytes(bytes).unwrap();
            let _changed = renamed(&frame, "clusterFind", &rawdoc! { "a": 1 });
            let _body = reply_body(&frame);
        }

        #[test]
        fn damaged_messages_never_panic(at: prop::sample::Index, to: u8) {
            let mut bytes = insert(0).bytes().to_vec();
            let at = at.index(bytes.len() - 4) + 4;
            bytes[at] = to;
            if let Ok(frame) = Frame::from_bytes(bytes) {
                let _changed = renamed(&frame, "clusterInsert", &rawdoc! { "a": 1 });
            }
        }
    }
}
