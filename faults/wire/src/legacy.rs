//! `OP_QUERY` and `OP_REPLY`: many drivers still send the first `hello` of a connection this way,
//! because they do not know yet whether the server speaks `OP_MSG`.

use bson::{RawDocument, RawDocumentBuf};

use crate::bytes::Bytes;
use crate::error::FormatError;
use crate::frame::{Frame, OpCode};

/// Flag bit 3 of a reply, set by every server.
const AWAIT_CAPABLE: u32 = 1 << 3;

/// A legacy request.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Full name of the collection; a command goes to `<database>.$cmd`.
    pub collection: String,
    /// The command.
    pub query: RawDocumentBuf,
}

impl Query {
    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// When the payload is not a well-formed `OP_QUERY`.
    pub fn decode(frame: &Frame) -> Result<Self, FormatError> {
        let op_code = frame.header().op_code;
        if op_code != OpCode::Query {
            return Err(FormatError::OpCode(op_code.into()));
        }
        let mut bytes = Bytes(frame.payload());
        bytes.u32("the flags")?;
        let collection = bytes.name()?.to_owned();
        bytes.i32("the number to skip")?;
        bytes.i32("the number to return")?;
        let query = bytes.document()?;
        if !bytes.0.is_empty() {
            bytes.document()?; // which fields to return
        }
        match bytes.0.len() {
            0 => Ok(Self { collection, query }),
            count => Err(FormatError::Trailing(count)),
        }
    }

    /// Writes the request.
    ///
    /// # Errors
    /// [`FormatError::Length`] when it gets too long, [`FormatError::Name`] when the collection has
    /// a NUL in its name.
    pub fn encode(&self, request_id: i32) -> Result<Frame, FormatError> {
        if self.collection.contains('\0') {
            return Err(FormatError::Name);
        }
        Frame::build(request_id, 0, OpCode::Query, |out| {
            out.extend([0; 4]);
            out.extend(self.collection.as_bytes());
            out.push(0);
            out.extend(0_i32.to_le_bytes());
            out.extend((-1_i32).to_le_bytes()); // one document, no cursor
            out.extend(self.query.as_bytes());
        })
    }
}

/// A legacy reply of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer.
    pub document: RawDocumentBuf,
}

impl Reply {
    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// When the payload is not an `OP_REPLY` of exactly one document.
    pub fn decode(frame: &Frame) -> Result<Self, FormatError> {
        let op_code = frame.header().op_code;
        if op_code != OpCode::Reply {
            return Err(FormatError::OpCode(op_code.into()));
        }
        let mut bytes = Bytes(frame.payload());
        bytes.u32("the flags")?;
        bytes.i64("the cursor")?;
        bytes.i32("the start")?;
        bytes.i32("the number of documents")?;
        let document = bytes.document()?;
        match bytes.0.len() {
            0 => Ok(Self { document }),
            count => Err(FormatError::Trailing(count)),
        }
    }

    /// Writes a reply of one document.
    ///
    /// # Errors
    /// [`FormatError::Length`] when it gets too long.
    pub fn encode(document: &RawDocument, request_id: i32, response_to: i32) -> Result<Frame, FormatError> {
        Frame::build(request_id, response_to, OpCode::Reply, |out| {
            out.extend(AWAIT_CAPABLE.to_le_bytes());
            out.extend(0_i64.to_le_bytes()); // no cursor
            out.extend(0_i32.to_le_bytes()); // from the first document on
            out.extend(1_i32.to_le_bytes()); // one document
            out.extend(document.as_bytes());
        })
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let query = Query { collection: "admin.$cmd".into(), query: rawdoc! { "isMaster": 1 } };
        assert_eq!(Query::decode(&query.encode(3).unwrap()).unwrap(), query);
        let document = rawdoc! { "ok": 1.0 };
        let frame = Reply::encode(&document, 9, 3).unwrap();
        assert_eq!((frame.header().request_id, frame.header().response_to), (9, 3));
        assert_eq!(Reply::decode(&frame).unwrap(), Reply { document });
    }

    proptest! {
        #[test]
        fn random_payloads_never_panic(payload: Vec<u8>) {
            for op_code in [OpCode::Query, OpCode::Reply] {
                let frame = Frame::build(1, 0, op_code, |out| out.extend(&payload)).unwrap();
                prop_assert!(Query::decode(&frame).is_err() || op_code == OpCode::Query);
                prop_assert!(Reply::decode(&frame).is_err() || op_code == OpCode::Reply);
            }
        }
    }
}
