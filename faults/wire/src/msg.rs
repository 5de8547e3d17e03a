//! `OP_MSG`: flags, one body, and any number of document sequences.

use bson::RawDocumentBuf;

use crate::bytes::Bytes;
use crate::error::FormatError;
use crate::frame::{Frame, OpCode};

/// Flag bit 0: four bytes of CRC-32C follow the sections.
const CHECKSUM_PRESENT: u32 = 1;

/// Flag bit 1: the sender goes on without waiting. On a request: it wants no reply.
pub const MORE_TO_COME: u32 = 1 << 1;

/// Flag bits that a receiver must refuse when it does not know them.
const REQUIRED_BITS: u32 = 0xffff;

/// An `OP_MSG` without its header.
#[derive(Clone, Debug, PartialEq)]
pub struct Msg {
    /// Flag bits; the checksum bit is taken off when decoding.
    pub flags: u32,
    /// The command or reply document (section kind 0).
    pub body: RawDocumentBuf,
    /// Lists of documents that belong to the body (section kind 1).
    pub sequences: Vec<Sequence>,
}

/// A list of documents that stands outside the body, such as the `documents` of an insert.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The field of the body that it replaces.
    pub name: String,
    /// Its documents.
    pub documents: Vec<RawDocumentBuf>,
}

impl Msg {
    /// A message of a body alone.
    #[must_use]
    pub fn new(body: RawDocumentBuf) -> Self {
        Self { flags: 0, body, sequences: Vec::new() }
    }

    /// Reads the payload of a frame. A checksum is skipped and not verified: no driver sends one
    /// unless asked, and TCP has its own. Documents are checked for their length only; what is
    /// inside shows when they are read.
    ///
    /// # Errors
    /// When the payload is not a well-formed `OP_MSG`.
    pub fn decode(frame: &Frame) -> Result<Self, FormatError> {
        let op_code = frame.header().op_code;
        if op_code != OpCode::Msg {
            return Err(FormatError::OpCode(op_code.into()));
        }
        let (flags, sections) = flags_and_sections(frame.payload())?;
        let mut bytes = Bytes(sections);
        let (mut bodies, mut sequences) = (Vec::new(), Vec::new());
        while !bytes.0.is_empty() {
            match bytes.u8("a section")? {
                0 => bodies.push(bytes.document()?),
                1 => sequences.push(Sequence::decode(bytes.sized("a document sequence")?)?),
                kind => return Err(FormatError::Section(kind)),
            }
        }
        let count = bodies.len();
        let body = bodies.pop().filter(|_| count == 1).ok_or(FormatError::Bodies(count))?;
        Ok(Self { flags, body, sequences })
    }

    /// Writes the message.
    ///
    /// # Errors
    /// [`FormatError::Length`] when it gets too long, [`FormatError::Name`] when a sequence has a
    /// NUL in its name.
    pub fn encode(&self, request_id: i32, response_to: i32) -> Result<Frame, FormatError> {
        if self.sequences.iter().any(|sequence| sequence.name.contains('\0')) {
            return Err(FormatError::Name);
        }
        Frame::build(request_id, response_to, OpCode::Msg, |out| {
            out.extend(self.flags.to_le_bytes());
            out.push(0);
            out.extend(self.body.as_bytes());
            for sequence in &self.sequences {
                out.push(1);
                sequence.encode(out);
            }
        })
    }
}

/// The flags without the checksum bit, and the sections without the checksum.
pub(crate) fn flags_and_sections(payload: &[u8]) -> Result<(u32, &[u8]), FormatError> {
    let mut bytes = Bytes(payload);
    let flags = bytes.u32("the flags")?;
    let unknown = flags & REQUIRED_BITS & !(CHECKSUM_PRESENT | MORE_TO_COME);
    if unknown != 0 {
        return Err(FormatError::Flags(unknown));
    }
    let mut sections = bytes.0;
    if flags & CHECKSUM_PRESENT != 0 {
        let length = sections.len().checked_sub(4).ok_or(FormatError::Truncated("the checksum"))?;
        sections = &sections[..length];
    }
    Ok((flags & !CHECKSUM_PRESENT, sections))
}

impl Sequence {
    /// `bytes` are the whole section behind its kind: length, name, documents.
    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut bytes = Bytes(bytes);
        bytes.i32("a document sequence")?;
        let name = bytes.name()?.to_owned();
        let mut documents = Vec::new();
        while !bytes.0.is_empty() {
            documents.push(bytes.document()?);
        }
        Ok(Self { name, documents })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        out.extend(self.name.as_bytes());
        out.push(0);
        for document in &self.documents {
            out.extend(document.as_bytes());
        }
        // A length that does not fit 31 bits is refused with the whole message.
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, rawdoc};
    use proptest::prelude::*;

    use super::*;

    fn insert() -> Msg {
        let documents = vec![rawdoc! { "_id": 1_i64 }, rawdoc! { "_id": 2_i64, "a": "b" }];
        Msg {
            flags: MORE_TO_COME,
            body: rawdoc! { "insert": "c", "$db": "d" },
            sequences: vec![
                Sequence { name: "documents".into(), documents },
                Sequence { name: "none".into(), documents: Vec::new() },
            ],
        }
    }

    fn frame(payload: &[u8]) -> Frame {
        Frame::build(1, 0, OpCode::Msg, |out| out.extend(payload)).unwrap()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let frame = insert().encode(5, 4).unwrap();
        assert_eq!((frame.header().request_id, frame.header().response_to), (5, 4));
        assert_eq!(Frame::from_bytes(frame.bytes().to_vec()).unwrap(), frame);
        assert_eq!(Msg::decode(&frame).unwrap(), insert());
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let frame = Msg::new(rawdoc! { "a": 1_i32 }).encode(1, 0).unwrap();
        let golden = b"\x21\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x0c\0\0\0\x10a\0\x01\0\0\0\0";
        assert_eq!(frame.bytes(), golden);
    }

    #[test]
    fn a_checksum_is_skipped() {
        let mut payload = insert().encode(1, 0).unwrap().payload().to_vec();
        payload[0] |= 1;
        payload.extend([1, 2, 3, 4]);
        assert_eq!(Msg::decode(&frame(&payload)).unwrap(), insert());
    }

    #[test]
    fn each_flaw_has_its_error() {
        let body = b"\0\x05\0\0\0\0";
        let flaws: [(&[&[u8]], FormatError); 8] = [
            (&[b"\0\0"], FormatError::Truncated("the flags")),
            (&[b"\0\0\0\0"], FormatError::Bodies(0)),
            (&[b"\0\0\0\0", body, body], FormatError::Bodies(2)),
            (&[b"\x04\0\0\0", body], FormatError::Flags(4)),
            (&[b"\x01\0\0\0\0"], FormatError::Truncated("the checksum")),
            (&[b"\0\0\0\0\x02", body], FormatError::Section(2)),
            (&[b"\0\0\0\0\0\xff\xff\xff\xff"], FormatError::Truncated("a document")),
            (&[b"\0\0\0\0", body, b"\x01\x06\0\0\0ab"], FormatError::Truncated("a name")),
        ];
        for (parts, error) in flaws {
            assert_eq!(Msg::decode(&frame(&parts.concat())), Err(error));
        }
    }

    proptest! {
        #[test]
        fn random_payloads_never_panic(payload: Vec<u8>) {
            if let Ok(message) = Msg::decode(&frame(&payload)) {
                prop_assert_eq!(Msg::decode(&message.encode(1, 0).unwrap()), Ok(message));
            }
        }

        /// Almost right is where decoders fail: one byte of a good message is changed.
        #[test]
        fn damaged_messages_never_panic(at: prop::sample::Index, to: u8) {
            let mut payload = insert().encode(1, 0).unwrap().payload().to_vec();
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(message) = Msg::decode(&frame(&payload)) {
                // Whether the contents are BSON shows here; it must not panic either.
                let _contents = Document::try_from(&*message.body);
            }
        }
    }
}
