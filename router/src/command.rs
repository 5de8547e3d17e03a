//! A command as a client sent it: its name and document, and the bytes it came in.

use bson::{RawDocument, RawDocumentBuf};
use wire::{FormatError, Frame, Request};

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    /// As it was sent.
    pub frame: Frame,
    request: Request,
}

impl Command {
    /// Reads one.
    ///
    /// # Errors
    /// When the frame holds none.
    pub fn decode(frame: Frame) -> Result<Self, FormatError> {
        let request = Request::decode(&frame)?;
        // What is inside shows when it is read: everything that follows may rely on it.
        for element in request.body.iter() {
            element.map_err(|error| FormatError::Document(error.to_string()))?;
        }
        Ok(Self { frame, request })
    }

    /// Its name, as sent.
    pub fn name(&self) -> &str {
        &self.request.name
    }

    /// The database that it is for.
    pub fn database(&self) -> &str {
        &self.request.database
    }

    /// Its document.
    pub fn body(&self) -> &RawDocument {
        &self.request.body
    }

    /// Its document as something that can be changed, without what belongs to the connection.
    ///
    /// # Errors
    /// When it is not BSON.
    pub fn document(&self) -> Result<bson::Document, FormatError> {
        let mut all =
            bson::Document::try_from(self.body()).map_err(|e| FormatError::Document(e.to_string()))?;
        for name in ["$db", "lsid", "$clusterTime"] {
            all.remove(name);
        }
        Ok(all)
    }

    /// A field of it.
    pub fn has(&self, name: &str) -> bool {
        matches!(self.body().get(name), Ok(Some(_)))
    }

    /// The value of the first field, when it is a text: a collection mostly.
    pub fn subject(&self) -> &str {
        self.body().get_str(self.name()).unwrap_or_default()
    }

    /// `database.collection`.
    pub fn namespace(&self) -> String {
        format!("{}.{}", self.database(), self.subject())
    }

    /// The reply in the form in which it was asked for; `None`: none is wanted.
    ///
    /// # Errors
    /// When it gets too long.
    pub fn reply(&self, document: &RawDocumentBuf) -> Result<Option<Frame>, FormatError> {
        self.request.reply(document, 0)
    }

    /// Whether the sender waits for a reply.
    pub fn wants_reply(&self) -> bool {
        self.request.wants_reply()
    }

    /// Whether it came as the legacy request of a first `hello`.
    pub fn is_legacy(&self) -> bool {
        self.frame.header().op_code == wire::OpCode::Query
    }
}
