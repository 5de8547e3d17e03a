//! Error replies, and the other ways in which a command can end without a reply.

use bson::{Document, doc};
use wire::{CommandError, FormatError};

/// An error as it is sent to a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub code: i32,
    pub code_name: String,
    pub message: String,
}

/// Why there is no reply document.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The client gets an error reply.
    #[error("refused ({}): {}", .0.code, .0.message)]
    Refused(Refusal),
    /// rtr is gone: the client is disconnected, which drivers take for a dead mongos.
    #[error("the server behind the router is lost: {0}")]
    UpstreamLost(String),
    /// The client does not speak the protocol, and is disconnected.
    #[error("not the MongoDB protocol: {0}")]
    Protocol(#[from] FormatError),
}

impl Refusal {
    fn new(code: i32, code_name: &str, message: impl Into<String>) -> Self {
        Self { code, code_name: code_name.into(), message: message.into() }
    }

    /// A command that is not known here, or cannot be done.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(59, "CommandNotFound", message)
    }

    /// A known command in a form that cannot be done.
    pub fn illegal(message: impl Into<String>) -> Self {
        Self::new(20, "IllegalOperation", message)
    }

    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(2, "BadValue", message)
    }

    pub fn invalid_options(message: impl Into<String>) -> Self {
        Self::new(72, "InvalidOptions", message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(13, "Unauthorized", message)
    }

    pub fn namespace_not_found(namespace: &str) -> Self {
        Self::new(26, "NamespaceNotFound", format!("ns not found: {namespace}"))
    }

    pub fn not_sharded(namespace: &str) -> Self {
        Self::new(118, "NamespaceNotSharded", format!("collection {namespace} is not sharded"))
    }

    pub fn shard_not_found(shard: &str) -> Self {
        Self::new(70, "ShardNotFound", format!("shard {shard} does not exist"))
    }

    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(6, "HostUnreachable", message)
    }

    pub fn unsupported_query(message: impl Into<String>) -> Self {
        Self::new(352, "UnsupportedOpQueryCommand", message)
    }

    /// What rtr refused, with its words.
    pub fn of_reply(reply: &Document) -> Self {
        let text = |name| reply.get_str(name).unwrap_or_default().to_owned();
        let code = reply.get_i32("code").unwrap_or_default();
        Self { code, code_name: text("codeName"), message: text("errmsg") }
    }

    /// The reply.
    pub fn document(&self) -> Document {
        doc! { "ok": 0.0, "errmsg": &self.message, "code": self.code, "codeName": &self.code_name }
    }
}

/// What a server refused is refused with its words; what got lost on the way may have happened or not, for which
/// drivers know the code of an unreachable host.
impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Server { code, code_name, message } => Self { code, code_name, message },
            other => Self::unreachable(other.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
