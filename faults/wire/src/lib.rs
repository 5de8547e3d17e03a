//! The MongoDB wire format: the one place that knows how bytes become commands and replies.
//!
//! `frame` cuts a byte stream into bounded messages; `msg` and `legacy` read and write their
//! contents; `sections` finds the parts of a message without
//! copying them; `request` shows a server any command in one form; `connection` is a small client for
//! admin commands, `hot` one for load. Format: <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/>.
//!
//! Nothing here authenticates, compresses or encrypts, and no input makes it panic: what is
//! malformed becomes a [`FormatError`].

mod bytes;
mod connection;
mod error;
mod frame;
pub mod hot;
mod legacy;
mod msg;
mod request;
mod sections;

pub use connection::{CommandError, Connection};
pub use error::{FormatError, ReadError};
pub use frame::{Frame, HEADER_BYTES, Header, MAX_MESSAGE_BYTES, OpCode};
pub use legacy::{Query, Reply};
pub use msg::{MORE_TO_COME, Msg, Sequence};
pub use request::Request;
pub use sections::Sections;
