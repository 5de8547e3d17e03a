//! A command as it came in: what the router must know of it, and where its bytes are.

use bson::{Document, RawDocument};
use wire::hot::Elements;
use wire::{FormatError, Frame, MORE_TO_COME, Sections};

use crate::body;
use crate::refusal::{Failure, Refusal};

/// Fields that make a write retryable or part of a transaction. rtr must never see them: such a `clusterInsert` ends
/// the whole server by a failed assertion.
const TRANSACTION_FIELDS: [&[u8]; 7] = [
    b"txnNumber",
    b"startTransaction",
    b"autocommit",
    b"stmtId",
    b"stmtIds",
    b"txnRetryCounter",
    b"coordinator",
];

/// Fields that only servers send to each other: for rtr a client would be a server.
const INTERNAL_FIELDS: [&[u8]; 10] = [
    b"shardVersion",
    b"databaseVersion",
    b"fromMongos",
    b"needsMerge",
    b"exchange",
    b"runtimeConstants",
    b"startOrContinueTransaction",
    b"clientOperationKey",
    b"$configServerState",
    b"maxTimeMSOpOnly",
];

/// One command of a client.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    pub name: &'a str,
    pub database: &'a str,
    pub sections: Sections<'a>,
    pub request_id: i32,
    /// The sender waits for a reply.
    pub is_answered: bool,
    pub has_read_concern: bool,
    pub has_write_concern: bool,
    /// A field of a transaction or a retryable write that is there.
    pub transaction_field: Option<&'a str>,
    /// A field that only servers may send.
    pub internal_field: Option<&'a str>,
}

impl<'a> Command<'a> {
    /// Finds its way through the fields of a message; looks at none of their contents.
    pub fn of(frame: &'a Frame) -> Result<Self, FormatError> {
        let sections = Sections::of(frame)?;
        let mut command = Self {
            name: "",
            database: "",
            sections,
            request_id: frame.header().request_id,
            is_answered: sections.flags & MORE_TO_COME == 0,
            has_read_concern: false,
            has_write_concern: false,
            transaction_field: None,
            internal_field: None,
        };
        let mut elements = Elements::of(sections.body)?;
        let mut is_first = true;
        let mut database = None;
        while let Some(element) = elements.next_element()? {
            if is_first {
                command.name = text(element.name)?;
                is_first = false;
                continue;
            }
            match element.name {
                b"$db" if element.kind == 0x02 => database = Some(string(element.value)?),
                b"readConcern" => command.has_read_concern = true,
                b"writeConcern" => command.has_write_concern = true,
                name => command.note_field(name)?,
            }
        }
        if is_first {
            return Err(FormatError::Document("empty command".into()));
        }
        command.database = database.ok_or_else(|| FormatError::Document("no $db".into()))?;
        Ok(command)
    }

    fn note_field(&mut self, name: &'a [u8]) -> Result<(), FormatError> {
        if TRANSACTION_FIELDS.contains(&name) {
            self.transaction_field = Some(text(name)?);
        } else if INTERNAL_FIELDS.contains(&name) {
            self.internal_field = Some(text(name)?);
        }
        Ok(())
    }

    /// Refuses what must not reach any server.
    pub fn check(&self) -> Result<(), Refusal> {
        if let Some(field) = self.transaction_field {
            // Drivers know the beginning of this text, and tell their users about `retryWrites=false`.
            return Err(Refusal::illegal(format!(
                "Transaction numbers are not possible here: the stand-in router cannot do transactions or retryable writes ({field} in {})",
                self.name
            )));
        }
        match self.internal_field {
            Some(field) => Err(Refusal::invalid_options(format!("only servers may send {field}"))),
            None => Ok(()),
        }
    }

    /// The message with another body for rtr: the first field under another name, without what belongs to sessions
    /// of the client, and with `more` at its end.
    pub fn renamed(&self, name: &str, more: Option<&RawDocument>) -> Result<Frame, FormatError> {
        let mut result = Ok(());
        let frame = self.sections.with_body(self.request_id, 0, |out| {
            result = body::write(out, self.sections.body, Some(name), is_dropped, more);
        })?;
        result.map(|()| frame)
    }

    /// `database.collection`, if the first field names a collection.
    pub fn namespace(&self) -> Option<String> {
        let first = Elements::of(self.sections.body).ok()?.next_element().ok()??;
        Some(format!("{}.{}", self.database, first.as_text()?))
    }

    /// The collection that the first field names.
    pub fn collection(&self) -> Result<String, Refusal> {
        let first = Elements::of(self.sections.body).ok().and_then(|mut all| all.next_element().ok()?);
        let collection = first.and_then(|first| first.as_text()).filter(|name| !name.is_empty());
        collection.ok_or_else(|| Refusal::bad_value(format!("{} needs the name of a collection", self.name)))
    }

    /// The body as values, without what belongs to the protocol.
    pub fn document(&self) -> Result<Document, Failure> {
        if self.sections.has_sequences() {
            return Err(Refusal::bad_value(format!("{} takes no document sequences", self.name)).into());
        }
        let fields = body::read(self.sections.body)?.into_iter();
        Ok(fields.filter(|(name, _)| name != "$db" && !is_dropped(name.as_bytes())).collect())
    }
}

/// Fields of a request that are taken out: the router has sessions of its own, and no times to compare.
fn is_dropped(name: &[u8]) -> bool {
    name == b"lsid" || body::is_gossip(name)
}

fn text(name: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(name).map_err(|_| FormatError::Name)
}

/// A string value: length, text, NUL.
fn string(value: &[u8]) -> Result<&str, FormatError> {
    let text = value.get(4..).and_then(|text| text.split_last()).ok_or(FormatError::Name)?.1;
    std::str::from_utf8(text).map_err(|_| FormatError::Name)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, doc, rawdoc};
    use proptest::prelude::*;
    use wire::{Msg, Sequence};

    use super::*;

    fn frame(body: RawDocumentBuf) -> Frame {
        Msg::new(body).encode(7, 0).unwrap()
    }

    #[test]
    fn an_insert_becomes_a_cluster_insert_and_its_documents_stay() {
        let documents = vec![rawdoc! { "_id": 1 }];
        let sequences = vec![Sequence { name: "documents".into(), documents }];
        let body =
            rawdoc! { "insert": "c", "lsid": { "id": 1 }, "ordered": true, "$clusterTime": {}, "$db": "d" };
        let sent = Msg { flags: MORE_TO_COME | 0x1_0000, body, sequences: sequences.clone() };
        let frame = sent.encode(7, 0).unwrap();
        let command = Command::of(&frame).unwrap();
        assert_eq!((command.name, command.database, command.is_answered), ("insert", "d", false));
        assert!(!command.has_write_concern);
        let more = rawdoc! { "writeConcern": { "w": "majority" } };
        let renamed = command.renamed("clusterInsert", Some(&more)).unwrap();
        assert_eq!(renamed.header().request_id, 7);
        let body = rawdoc! { "clusterInsert": "c", "ordered": true, "$db": "d", "writeConcern": { "w": "majority" } };
        assert_eq!(Msg::decode(&renamed).unwrap(), Msg { flags: 0, body, sequences });
    }

    #[test]
    fn transactions_and_internal_fields_are_refused() {
        for field in ["txnNumber", "startTransaction", "autocommit", "stmtId", "stmtIds"] {
            let mut body = rawdoc! { "insert": "c", "$db": "d" };
            body.append(bson::raw::CString::try_from(field).unwrap(), 1_i64);
            let refusal = Command::of(&frame(body)).unwrap().check().unwrap_err();
            assert_eq!(refusal.code, 20, "{field}");
            assert!(refusal.message.starts_with("Transaction numbers"));
        }
        let body = rawdoc! { "find": "c", "shardVersion": [], "$db": "d" };
        assert_eq!(Command::of(&frame(body)).unwrap().check().unwrap_err().code, 72);
        let body = rawdoc! { "find": "c", "filter": { "txnNumber": 1 }, "$db": "d" };
        assert_eq!(Command::of(&frame(body)).unwrap().check(), Ok(()));
    }

    #[test]
    fn as_values_it_has_no_protocol_in_it() {
        let frame = frame(rawdoc! { "split": "a.b", "lsid": {}, "middle": { "a": 1 }, "$db": "admin" });
        let command = Command::of(&frame).unwrap();
        assert_eq!(command.document().unwrap(), doc! { "split": "a.b", "middle": { "a": 1 } });
        assert_eq!(command.collection(), Ok("a.b".into()));
    }

    #[test]
    fn what_has_no_name_or_no_database_is_no_command() {
        for body in [rawdoc! {}, rawdoc! { "ping": 1 }, rawdoc! { "ping": 1, "$db": 1 }] {
            assert!(Command::of(&frame(body)).is_err());
        }
        let nameless = frame(rawdoc! { "ping": 1, "$db": "d" });
        assert_eq!(Command::of(&nameless).unwrap().collection().unwrap_err().code, 2);
    }

    proptest! {
        #[test]
        fn damaged_commands_never_panic(at: prop::sample::Index, to: u8) {
            let frame = frame(rawdoc! { "find": "c", "filter": { "a": [1] }, "readConcern": {}, "$db": "d" });
            let mut bytes = frame.bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Ok(frame) = Frame::from_bytes(bytes) && let Ok(command) = Command::of(&frame) {
                let _results = (command.renamed("clusterFind", None), command.namespace(), command.document());
            }
        }
    }
}
