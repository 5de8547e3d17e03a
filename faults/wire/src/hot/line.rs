//! One connection, one exchange at a time.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::Message;
use crate::error::FormatError;
use crate::frame::{HEADER_BYTES, Header, OpCode};
use crate::msg::MORE_TO_COME;

/// Replies to operations on single documents fit; for longer ones it grows up to the longest message.
const INBOX_BYTES: usize = 16 << 10;
/// Flags, and the kind of the first section.
const PROLOGUE_BYTES: usize = 5;
/// Flag bit 0: four bytes of CRC-32C follow the sections.
const CHECKSUM_PRESENT: u32 = 1;
/// Flag bits that a receiver must refuse when it does not know them.
const REQUIRED_BITS: u32 = 0xffff;

/// Why an exchange gave no reply. The line can then only be thrown away.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The server cannot have got the request: at least its last byte never left.
    #[error("not sent: {0}")]
    NotSent(io::Error),
    /// The request left as a whole, and the connection broke before the whole reply had come.
    #[error("no reply: {0}")]
    Lost(io::Error),
    /// The request left as a whole, and what came back is no reply to it.
    #[error("not a reply: {0}")]
    NotAReply(String),
}

impl LineError {
    /// Whether the server may have carried the request out.
    #[must_use]
    pub fn was_sent(&self) -> bool {
        !matches!(self, Self::NotSent(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Ready for an exchange.
    Idle,
    /// At least the last byte of the request is still here.
    Sending,
    /// The whole request has left.
    Waiting,
    /// A reply was taken, but more came than was asked for.
    Spoilt,
}

/// One TCP connection to one server.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    inbox: Vec<u8>,
    /// Where the body of the last reply lies in the inbox.
    reply: Range<usize>,
    request_id: i32,
    state: State,
}

impl Line {
    /// Connects to `host:port`, name look-up included. The caller bounds the time.
    ///
    /// # Errors
    /// When nobody listens there, or the name is unknown.
    pub async fn connect(addr: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        // Each request is one small packet that waits for nothing.
        stream.set_nodelay(true)?;
        Ok(Self { stream, inbox: vec![0; INBOX_BYTES], reply: 0..0, request_id: 0, state: State::Idle })
    }

    /// Sends a request and waits for its reply, which is then in [`Line::reply`]. May be dropped at any
    /// time: [`Line::has_sent`] then tells how far it came.
    ///
    /// # Errors
    /// [`LineError`]; the line is then of no use any more.
    pub async fn exchange(&mut self, message: &mut Message) -> Result<(), LineError> {
        self.check_quiet()?;
        self.request_id = self.request_id.wrapping_add(1);
        let stamped = message.stamp(self.request_id);
        let mut rest = stamped.map_err(|e| LineError::NotSent(io::Error::other(e.to_string())))?;
        self.state = State::Sending;
        while !rest.is_empty() {
            match self.stream.write(rest).await {
                Ok(0) => return Err(LineError::NotSent(io::ErrorKind::WriteZero.into())),
                Ok(written) => rest = &rest[written..],
                Err(error) => return Err(LineError::NotSent(error)),
            }
        }
        self.state = State::Waiting;
        let (received, length) = self.receive().await?;
        self.reply = self.open(length).map_err(|e| LineError::NotAReply(e.to_string()))?;
        // What comes behind a reply was not asked for; nothing that follows can be trusted.
        self.state = if received == length { State::Idle } else { State::Spoilt };
        Ok(())
    }

    /// Body of the last reply: one document as it came.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        &self.inbox[self.reply.clone()]
    }

    /// Whether it can be used for another exchange, as far as the kernel knows: not if the server closed
    /// it meanwhile.
    pub fn is_ready(&mut self) -> bool {
        self.check_quiet().is_ok()
    }

    /// Whether the request of an exchange that was dropped had left as a whole, so that the server may
    /// carry it out.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.state == State::Waiting
    }

    /// A connection that the server closed meanwhile must not swallow a request. This costs a system call
    /// only when something has come.
    fn check_quiet(&mut self) -> Result<(), LineError> {
        let error = match self.state {
            State::Idle => match self.stream.try_read(&mut self.inbox) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => error,
                Ok(0) => io::Error::new(io::ErrorKind::NotConnected, "the server had closed the connection"),
                Ok(_) => io::Error::new(io::ErrorKind::InvalidData, "the server spoke without being asked"),
            },
            _ => io::Error::new(io::ErrorKind::NotConnected, "an earlier exchange did not come to its end"),
        };
        self.state = State::Spoilt;
        Err(LineError::NotSent(error))
    }

    /// Reads until a whole message is there; gives what came, and the length of the message.
    async fn receive(&mut self) -> Result<(usize, usize), LineError> {
        let mut received = 0;
        loop {
            match self.stream.read(&mut self.inbox[received..]).await {
                Ok(0) => return Err(LineError::Lost(ended_after(received))),
                Ok(more) => received += more,
                Err(error) => return Err(LineError::Lost(error)),
            }
            let Some(head) = self.inbox[..received].first_chunk::<HEADER_BYTES>() else { continue };
            let header = Header::decode(head).map_err(|e| LineError::NotAReply(e.to_string()))?;
            self.check_header(header)?;
            if received >= header.length {
                return Ok((received, header.length));
            }
            // Memory grows with what arrives, not with what the header announces.
            if received == self.inbox.len() {
                self.inbox.resize((2 * received).min(header.length), 0);
            }
        }
    }

    fn check_header(&self, header: Header) -> Result<(), LineError> {
        if header.op_code != OpCode::Msg {
            let code = FormatError::OpCode(header.op_code.into());
            return Err(LineError::NotAReply(code.to_string()));
        }
        if header.response_to == self.request_id {
            return Ok(());
        }
        let (asked, answered) = (self.request_id, header.response_to);
        Err(LineError::NotAReply(format!("asked {asked}, got the answer to {answered}")))
    }

    /// Finds the body in a message of this length.
    fn open(&self, length: usize) -> Result<Range<usize>, FormatError> {
        let start = HEADER_BYTES + PROLOGUE_BYTES;
        let head =
            self.inbox[..length].get(HEADER_BYTES..start).ok_or(FormatError::Truncated("the flags"))?;
        let flags = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        // More to come would be a reply without a request, the next time.
        let unknown = flags & (REQUIRED_BITS | MORE_TO_COME) & !CHECKSUM_PRESENT;
        if unknown != 0 {
            return Err(FormatError::Flags(unknown));
        }
        if head[4] != 0 {
            return Err(FormatError::Section(head[4]));
        }
        let checksum = if flags & CHECKSUM_PRESENT == 0 { 0 } else { 4 };
        let end = length.checked_sub(checksum).filter(|end| *end >= start);
        let end = end.ok_or(FormatError::Truncated("the checksum"))?;
        let announced = self.inbox[start..end].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if announced.map(u64::from) != Some((end - start) as u64) {
            return Err(FormatError::Truncated("a document"));
        }
        Ok(start..end)
    }
}

fn ended_after(received: usize) -> io::Error {
    let text = match received {
        0 => "the server closed the connection".to_owned(),
        bytes => format!("the server closed the connection after {bytes} bytes of a reply"),
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

#[cfg(test)]
mod tests;
