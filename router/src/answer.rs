//! Replies that are made here, and errors as a server words them.

use bson::{Document, RawDocumentBuf, doc};
use wire::{CommandError, FormatError};

/// A refusal, as a server would say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub code: i32,
    pub name: String,
    pub message: String,
}

pub(crate) type Answer = Result<Document, Refusal>;

impl Refusal {
    pub fn new(code: i32, name: &str, message: impl Into<String>) -> Self {
        Self { code, name: name.into(), message: message.into() }
    }

    /// There is no such command here.
    pub fn unknown(command: &str) -> Self {
        Self::new(59, "CommandNotFound", format!("the stand-in router has no command {command}"))
    }

    /// It exists, and cannot be done here.
    pub fn impossible(what: &str) -> Self {
        Self::new(20, "IllegalOperation", format!("the stand-in router cannot do {what}; a mongos can"))
    }

    /// The command is not written as it has to be.
    pub fn malformed(what: impl Into<String>) -> Self {
        Self::new(9, "FailedToParse", what)
    }

    pub fn not_found(namespace: &str) -> Self {
        Self::new(26, "NamespaceNotFound", format!("{namespace} does not exist"))
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Server { code, code_name, message } => Self { code, name: code_name, message },
            // The other end may have done it or not, as after every lost connection.
            other => Self::new(6, "HostUnreachable", other.to_string()),
        }
    }
}

impl From<FormatError> for Refusal {
    fn from(error: FormatError) -> Self {
        Self::malformed(error.to_string())
    }
}

/// The document that is sent.
pub(crate) fn document(answer: Answer) -> RawDocumentBuf {
    let document = match answer {
        Ok(mut reply) => {
            for name in ["$clusterTime", "operationTime", "lastCommittedOpTime", "$gleStats", "$configTime"] {
                reply.remove(name);
            }
            reply.entry("ok".to_owned()).or_insert(1.0.into());
            reply
        }
        Err(refusal) => doc! {
            "ok": 0.0,
            "errmsg": refusal.message,
            "code": refusal.code,
            "codeName": refusal.name,
        },
    };
    RawDocumentBuf::try_from(&document).unwrap_or_default()
}
