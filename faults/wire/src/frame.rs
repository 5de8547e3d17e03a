//! Messages as wholes: a header of 16 bytes and a bounded payload.

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::bytes::Bytes;
use crate::error::{FormatError, ReadError};

/// Longest message, header included: the `maxMessageSizeBytes` of every server since 2.4.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// Length of a header.
pub const HEADER_BYTES: usize = 16;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// Legacy reply, `OP_REPLY`: the answer to a [`Query`](OpCode::Query).
    Reply,
    /// Legacy request, `OP_QUERY`: since MongoDB 5.1 only for the first `hello` of a connection.
    Query,
    /// `OP_COMPRESSED`: named so that a proxy can pass it on; not decoded here.
    Compressed,
    /// `OP_MSG`: every request and reply since MongoDB 3.6.
    Msg,
    /// Anything else.
    Other(i32),
}

impl From<i32> for OpCode {
    fn from(number: i32) -> Self {
        match number {
            1 => Self::Reply,
            2004 => Self::Query,
            2012 => Self::Compressed,
            2013 => Self::Msg,
            other => Self::Other(other),
        }
    }
}

impl From<OpCode> for i32 {
    fn from(code: OpCode) -> Self {
        match code {
            OpCode::Reply => 1,
            OpCode::Query => 2004,
            OpCode::Compressed => 2012,
            OpCode::Msg => 2013,
            OpCode::Other(number) => number,
        }
    }
}

/// The first 16 bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the message in bytes, this header included.
    pub length: usize,
    /// Chosen by the sender.
    pub request_id: i32,
    /// `request_id` of the message that this one answers; 0 in requests.
    pub response_to: i32,
    /// What the payload is.
    pub op_code: OpCode,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FormatError::Length`] when the announced length is below 16 or above [`MAX_MESSAGE_BYTES`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FormatError> {
        let mut bytes = Bytes(bytes);
        let announced = bytes.i32("the header")?;
        let length = usize::try_from(announced)
            .ok()
            .filter(|length| (HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(length))
            .ok_or(FormatError::Length(announced.into()))?;
        Ok(Self {
            length,
            request_id: bytes.i32("the header")?,
            response_to: bytes.i32("the header")?,
            op_code: bytes.i32("the header")?.into(),
        })
    }
}

/// One whole message as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    header: Header,
    bytes: Vec<u8>,
}

impl Frame {
    /// Takes bytes that hold exactly one message.
    ///
    /// # Errors
    /// When they are shorter than a header, or not as long as it says.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, FormatError> {
        let head = bytes.first_chunk().ok_or(FormatError::Truncated("the header"))?;
        let header = Header::decode(head)?;
        if header.length != bytes.len() {
            return Err(FormatError::LengthMismatch { announced: header.length, actual: bytes.len() });
        }
        Ok(Self { header, bytes })
    }

    /// Puts a header before a payload that `write` appends.
    ///
    /// # Errors
    /// [`FormatError::Length`] when the message gets longer than [`MAX_MESSAGE_BYTES`].
    pub(crate) fn build(
        request_id: i32,
        response_to: i32,
        op_code: OpCode,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Self, FormatError> {
        let mut bytes = vec![0; 4];
        for field in [request_id, response_to, op_code.into()] {
            bytes.extend(field.to_le_bytes());
        }
        write(&mut bytes);
        let length = bytes.len();
        let announced = i32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE_BYTES);
        let announced = announced.ok_or(FormatError::Length(length as i64))?;
        bytes[..4].copy_from_slice(&announced.to_le_bytes());
        Ok(Self { header: Header { length, request_id, response_to, op_code }, bytes })
    }

    /// Reads the next message of a stream; `None` when the stream ends before its first byte.
    /// Memory grows with what arrives, not with what the header announces. Not safe to cancel.
    ///
    /// # Errors
    /// When the stream fails, ends inside a message, or holds something else.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>, ReadError> {
        let mut head = [0; HEADER_BYTES];
        let first = stream.read(&mut head).await?;
        if first == 0 {
            return Ok(None);
        }
        stream.read_exact(&mut head[first..]).await?;
        let header = Header::decode(&head)?;
        let mut bytes = head.to_vec();
        let missing = header.length - HEADER_BYTES;
        stream.take(missing as u64).read_to_end(&mut bytes).await?;
        if bytes.len() < header.length {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Some(Self { header, bytes }))
    }

    /// Its header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Everything behind the header.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The message as it goes over the wire, header included.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn a_stream_is_cut_into_messages_and_ends_between_them() {
        let one = Frame::build(7, 0, OpCode::Msg, |out| out.extend([1, 2, 3])).unwrap();
        let two = Frame::build(8, 7, OpCode::Other(-5), |_| {}).unwrap();
        let stream = [one.bytes(), two.bytes()].concat();
        let mut rest = stream.as_slice();
        assert_eq!(Frame::read(&mut rest).await.unwrap(), Some(one));
        assert_eq!(Frame::read(&mut rest).await.unwrap(), Some(two));
        assert_eq!(Frame::read(&mut rest).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_stream_that_ends_inside_a_message_is_an_io_error() {
        let frame = Frame::build(7, 0, OpCode::Msg, |out| out.extend([9; 100])).unwrap();
        for end in 1..frame.bytes().len() {
            let error = Frame::read(&mut &frame.bytes()[..end]).await.unwrap_err();
            let ReadError::Io(error) = error else { panic!("{error}") };
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn lengths_are_bounded_on_both_sides() {
        for (length, good) in [(15, false), (16, true), (48_000_000, true), (48_000_001, false), (-1, false)]
        {
            let mut head = [0; HEADER_BYTES];
            head[..4].copy_from_slice(&i32::to_le_bytes(length));
            assert_eq!(Header::decode(&head).is_ok(), good, "{length}");
        }
        let long = Frame::build(0, 0, OpCode::Msg, |out| out.resize(MAX_MESSAGE_BYTES + 1, 0));
        assert_eq!(long, Err(FormatError::Length(48_000_001)));
    }

    proptest! {
        #[test]
        fn random_bytes_are_a_frame_only_when_their_length_says_so(bytes: Vec<u8>) {
            if let Ok(frame) = Frame::from_bytes(bytes.clone()) {
                prop_assert_eq!(frame.bytes(), bytes);
                prop_assert_eq!(frame.header().length, frame.bytes().len());
            }
        }
    }
}
