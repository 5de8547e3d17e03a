//! A command as a server sees it, in whichever way it was sent.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use crate::error::FormatError;
use crate::frame::{Frame, OpCode};
use crate::legacy::{Query, Reply};
use crate::msg::{MORE_TO_COME, Msg, Sequence};

/// One command that waits for its reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Name of the command, as sent: the first field of the body.
    pub name: String,
    /// Database that it is for.
    pub database: String,
    /// The command document.
    pub body: RawDocumentBuf,
    sequences: Vec<Sequence>,
    request_id: i32,
    answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Msg,
    Legacy,
    Unwanted,
}

impl Request {
    /// Reads a command out of an `OP_MSG` or a legacy `OP_QUERY`.
    ///
    /// # Errors
    /// When the frame is neither, or has no command name or no database.
    pub fn decode(frame: &Frame) -> Result<Self, FormatError> {
        let (body, sequences, database, answer) = if frame.header().op_code == OpCode::Query {
            let Query { collection, query } = Query::decode(frame)?;
            let database = collection.split('.').next().unwrap_or_default().to_owned();
            (query, Vec::new(), database, Answer::Legacy)
        } else {
            let Msg { flags, body, sequences } = Msg::decode(frame)?;
            let database = body.get_str("$db").map_err(FormatError::bson)?.to_owned();
            let unwanted = flags & MORE_TO_COME != 0;
            (body, sequences, database, if unwanted { Answer::Unwanted } else { Answer::Msg })
        };
        let first = body.iter().next().ok_or_else(|| FormatError::Document("empty command".into()))?;
        let name = first.map_err(FormatError::bson)?.0.to_string();
        Ok(Self { name, database, body, sequences, request_id: frame.header().request_id, answer })
    }

    /// The documents of a list, such as `documents` of an insert: from its own section, or from the
    /// array of that name in the body; empty when there is neither.
    ///
    /// # Errors
    /// When the body is not BSON, or the array holds something else than documents.
    pub fn list(&self, name: &str) -> Result<Vec<RawDocumentBuf>, FormatError> {
        if let Some(sequence) = self.sequences.iter().find(|sequence| sequence.name == name) {
            return Ok(sequence.documents.clone());
        }
        let Some(RawBsonRef::Array(array)) = self.body.get(name).map_err(FormatError::bson)? else {
            return Ok(Vec::new());
        };
        let document = |element: bson::error::Result<RawBsonRef<'_>>| {
            let element = element.map_err(FormatError::bson)?;
            let document = element.as_document().ok_or_else(|| not_a_document(name))?;
            Ok(document.to_owned())
        };
        array.into_iter().map(document).collect()
    }

    /// The reply in the form in which it was asked for; `None` when the sender wants none.
    ///
    /// # Errors
    /// [`FormatError::Length`] when it gets too long.
    pub fn reply(&self, document: &RawDocument, request_id: i32) -> Result<Option<Frame>, FormatError> {
        match self.answer {
            Answer::Msg => Msg::new(document.to_owned()).encode(request_id, self.request_id).map(Some),
            Answer::Legacy => Reply::encode(document, request_id, self.request_id).map(Some),
            Answer::Unwanted => Ok(None),
        }
    }
}

fn not_a_document(list: &str) -> FormatError {
    FormatError::Document(format!("{list} holds something else than documents"))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;

    use super::*;

    fn decode(message: Msg) -> Result<Request, FormatError> {
        Request::decode(&message.encode(6, 0).unwrap())
    }

    #[test]
    fn both_forms_look_the_same_and_are_answered_in_kind() {
        let query = Query { collection: "admin.$cmd".into(), query: rawdoc! { "isMaster": 1 } };
        let legacy = Request::decode(&query.encode(5).unwrap()).unwrap();
        let modern = decode(Msg::new(rawdoc! { "isMaster": 1, "$db": "admin" })).unwrap();
        let reply = rawdoc! { "ok": 1.0 };
        for (request, op_code, id) in [(legacy, OpCode::Reply, 5), (modern, OpCode::Msg, 6)] {
            assert_eq!((request.name.as_str(), request.database.as_str()), ("isMaster", "admin"));
            let header = request.reply(&reply, 1).unwrap().unwrap().header();
            assert_eq!((header.op_code, header.response_to), (op_code, id));
        }
    }

    #[test]
    fn a_list_may_be_in_the_body_or_in_a_section() {
        let documents = vec![rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }];
        let body = rawdoc! { "insert": "c", "$db": "d" };
        let sequences = vec![Sequence { name: "documents".into(), documents: documents.clone() }];
        let section = decode(Msg { flags: MORE_TO_COME, body: body.clone(), sequences }).unwrap();
        assert_eq!(section.list("documents").unwrap(), documents);
        assert_eq!(section.reply(&rawdoc! {}, 1), Ok(None));

        let body = rawdoc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }], "$db": "d" };
        let request = decode(Msg::new(body)).unwrap();
        assert_eq!(request.list("documents").unwrap(), documents);
        assert_eq!(request.list("updates").unwrap(), Vec::<RawDocumentBuf>::new());
    }

    #[test]
    fn a_command_needs_a_name_and_a_database() {
        assert!(decode(Msg::new(rawdoc! { "ping": 1 })).is_err());
        assert!(decode(Msg::new(rawdoc! {})).is_err());
        assert!(
            decode(Msg::new(rawdoc! { "insert": "c", "documents": [1], "$db": "d" }))
                .unwrap()
                .list("documents")
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn random_payloads_never_panic(payload: Vec<u8>, op_code: i32) {
            for op_code in [OpCode::Msg, OpCode::Query, op_code.into()] {
                let frame = Frame::build(1, 0, op_code, |out| out.extend(&payload)).unwrap();
                if let Ok(request) = Request::decode(&frame) {
                    // Lists are read late: they must not panic either.
                    let _list = request.list("documents");
                }
            }
        }
    }
}
