//! What can be wrong with a message.

use crate::frame::MAX_MESSAGE_BYTES;

/// Bytes that are not the MongoDB wire format, or not the part of it that we speak.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The header announces a length that no message can have.
    #[error("message length {0} is outside 16 to {MAX_MESSAGE_BYTES}")]
    Length(i64),
    /// The message holds fewer or more bytes than its header announces.
    #[error("message of {actual} bytes announces {announced}")]
    LengthMismatch {
        /// Bytes according to the header.
        announced: usize,
        /// Bytes that are there.
        actual: usize,
    },
    /// An operation that is not spoken here.
    #[error("operation code {0} is not supported here")]
    OpCode(i32),
    /// The message ends in the middle of something.
    #[error("message ends inside {0}")]
    Truncated(&'static str),
    /// Flag bits 0 to 15 must be understood; these are not.
    #[error("unknown required flag bits {0:#x}")]
    Flags(u32),
    /// A section of an unknown kind.
    #[error("unknown section kind {0}")]
    Section(u8),
    /// A message has exactly one body; this one has none or several.
    #[error("message has {0} bodies instead of one")]
    Bodies(usize),
    /// A name that is not UTF-8, or holds a NUL.
    #[error("a name is not a valid string")]
    Name,
    /// Not BSON.
    #[error("malformed document: {0}")]
    Document(String),
    /// Bytes behind the end of the contents.
    #[error("{0} bytes behind the last section")]
    Trailing(usize),
}

impl FormatError {
    pub(crate) fn bson(error: bson::error::Error) -> Self {
        Self::Document(error.to_string())
    }
}

/// Why no message could be read from a stream.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed, or ended inside a message (`UnexpectedEof`).
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The stream holds something else than messages; it cannot be read any further.
    #[error(transparent)]
    Format(#[from] FormatError),
}
