//! An `OP_MSG` whose contents stay where they lie: for whoever changes the body and passes the rest on.

use crate::bytes::Bytes;
use crate::error::FormatError;
use crate::frame::{Frame, OpCode};
use crate::msg;

/// The parts of an `OP_MSG`, not copied. Of the document sequences only the lengths were checked.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a> {
    /// Flag bits; the checksum bit is taken off.
    pub flags: u32,
    /// The command or reply document, as long as it says.
    pub body: &'a [u8],
    /// Document sequences before and behind the body, with their kinds and lengths.
    around: [&'a [u8]; 2],
}

impl<'a> Sections<'a> {
    /// Finds the parts of a frame.
    ///
    /// # Errors
    /// When the payload is not an `OP_MSG` of one body and any number of sequences.
    pub fn of(frame: &'a Frame) -> Result<Self, FormatError> {
        let op_code = frame.header().op_code;
        if op_code != OpCode::Msg {
            return Err(FormatError::OpCode(op_code.into()));
        }
        let (flags, sections) = msg::flags_and_sections(frame.payload())?;
        let mut bytes = Bytes(sections);
        let (mut body, mut bodies) = (None, 0);
        while !bytes.0.is_empty() {
            let start = sections.len() - bytes.0.len();
            match bytes.u8("a section")? {
                0 => {
                    let document = bytes.sized("a document")?;
                    bodies += 1;
                    body = Some((start, document, sections.len() - bytes.0.len()));
                }
                1 => {
                    bytes.sized("a document sequence")?;
                }
                kind => return Err(FormatError::Section(kind)),
            }
        }
        match body {
            Some((start, body, end)) if bodies == 1 => {
                Ok(Self { flags, body, around: [&sections[..start], &sections[end..]] })
            }
            _ => Err(FormatError::Bodies(bodies)),
        }
    }

    /// Whether there are document sequences.
    #[must_use]
    pub fn has_sequences(&self) -> bool {
        self.around.iter().any(|part| !part.is_empty())
    }

    /// The same sequences around another body, which `write` appends as one document; no flags.
    ///
    /// # Errors
    /// [`FormatError::Length`] when the message gets too long.
    pub fn with_body(
        &self,
        request_id: i32,
        response_to: i32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Frame, FormatError> {
        Frame::build(request_id, response_to, OpCode::Msg, |out| {
            let more = self.body.len() + self.around[0].len() + self.around[1].len();
            out.reserve(more + ROOM_FOR_CHANGES);
            out.extend([0; 4]);
            out.push(0);
            write(out);
            self.around.iter().for_each(|part| out.extend(*part));
        })
    }
}

/// So much longer a changed body may be before the message is copied once more.
const ROOM_FOR_CHANGES: usize = 256;

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;

    use super::*;
    use crate::{MORE_TO_COME, Msg, Sequence};

    fn message() -> Msg {
        let sequences =
            vec![Sequence { name: "documents".into(), documents: vec![rawdoc! { "_id": 1 }, rawdoc! {}] }];
        Msg { flags: MORE_TO_COME, body: rawdoc! { "insert": "c", "$db": "d" }, sequences }
    }

    fn frame(payload: &[u8]) -> Frame {
        Frame::build(1, 0, OpCode::Msg, |out| out.extend(payload)).unwrap()
    }

    #[test]
    fn the_body_is_replaced_and_the_rest_stays() {
        let frame = message().encode(5, 0).unwrap();
        let sections = Sections::of(&frame).unwrap();
        assert_eq!(sections.flags, MORE_TO_COME);
        assert_eq!(sections.body, message().body.as_bytes());
        assert!(sections.has_sequences());
        let body = rawdoc! { "clusterInsert": "c", "more": true };
        let changed = sections.with_body(5, 7, |out| out.extend(body.as_bytes())).unwrap();
        assert_eq!((changed.header().request_id, changed.header().response_to), (5, 7));
        assert_eq!(Msg::decode(&changed).unwrap(), Msg { flags: 0, body, ..message() });
    }

    #[test]
    fn a_body_behind_its_sequences_is_found() {
        let whole = message().encode(1, 0).unwrap();
        let (flags, rest) = whole.payload().split_at(4);
        let (body, sequences) = rest.split_at(1 + message().body.as_bytes().len());
        let frame = frame(&[flags, sequences, body].concat());
        let sections = Sections::of(&frame).unwrap();
        let same = sections.with_body(1, 0, |out| out.extend(sections.body)).unwrap();
        assert_eq!(Msg::decode(&same).unwrap(), Msg { flags: 0, ..message() });
    }

    proptest! {
        /// Both readers of a message accept the same ones, but for what is inside sequences.
        #[test]
        fn damaged_messages_are_judged_as_by_the_whole_reader(at: prop::sample::Index, to: u8) {
            let mut payload = message().encode(1, 0).unwrap().payload().to_vec();
            let at = at.index(payload.len());
            payload[at] = to;
            let frame = frame(&payload);
            let sections = Sections::of(&frame);
            if let Ok(message) = Msg::decode(&frame) {
                prop_assert_eq!(message.body.as_bytes(), sections.unwrap().body);
            }
        }

        #[test]
        fn random_payloads_never_panic(payload: Vec<u8>) {
            let frame = frame(&payload);
            if let Ok(sections) = Sections::of(&frame) {
                prop_assert!(sections.with_body(1, 0, |out| out.extend(sections.body)).is_ok());
            }
        }
    }
}
