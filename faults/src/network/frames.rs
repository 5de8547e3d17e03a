//! Where messages begin in a stream that passes in pieces of any size, and what their first bytes say.
//! Nothing is held back for it.

use wire::{HEADER_BYTES, Header, OpCode};

/// Of each message so much is looked at: header, flags, section kind, length and type of the first element,
/// and a command name of up to 37 bytes.
const HEAD_BYTES: usize = 64;

/// Follows one direction of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    /// Bytes of the current message that are in `head`.
    have: usize,
    /// Bytes of the current message that are still to come and not to be looked at.
    skip: usize,
    /// This is no stream of messages (any more).
    lost: bool,
}

/// The beginning of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Its first byte's place in the piece; negative if it came in an earlier one.
    pub at: isize,
    pub length: usize,
    pub is_data: bool,
}

impl Frames {
    pub const fn new() -> Self {
        Self { head: [0; HEAD_BYTES], have: 0, skip: 0, lost: false }
    }

    /// Whether the stream holds something else than messages, so that nothing more is found in it.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The next message whose head is complete, from the `done` bytes of this piece on that were looked at
    /// before; `None` at the end of the piece.
    pub fn next(&mut self, piece: &[u8], done: &mut usize) -> Option<Start> {
        while *done < piece.len() && !self.lost {
            let skipped = self.skip.min(piece.len() - *done);
            self.skip -= skipped;
            *done += skipped;
            let wanted = self.wanted();
            let taken = (wanted - self.have).min(piece.len() - *done);
            self.head[self.have..self.have + taken].copy_from_slice(&piece[*done..*done + taken]);
            self.have += taken;
            *done += taken;
            if self.have < wanted {
                continue;
            }
            if let Some(start) = self.complete(*done) {
                return Some(start);
            }
        }
        None
    }

    /// How many bytes of the current message belong into `head`.
    fn wanted(&self) -> usize {
        match self.header() {
            None => HEADER_BYTES,
            Some(header) => header.length.min(HEAD_BYTES),
        }
    }

    fn header(&self) -> Option<Header> {
        let head = self.head.first_chunk().filter(|_| self.have >= HEADER_BYTES)?;
        Header::decode(head).ok()
    }

    /// Called when `have` reached `wanted`: a header that may want more, or a whole head.
    fn complete(&mut self, done: usize) -> Option<Start> {
        let Some(header) = self.header().filter(|header| !matches!(header.op_code, OpCode::Other(_))) else {
            self.lost = true;
            return None;
        };
        if self.have < self.wanted() {
            return None;
        }
        let start = Start {
            at: done as isize - self.have as isize,
            length: header.length,
            is_data: is_data(header.op_code, &self.head[HEADER_BYTES..self.have]),
        };
        self.skip = header.length - self.have;
        self.have = 0;
        Some(start)
    }
}

/// Commands that read or write what users keep.
const DATA_COMMANDS: [&[u8]; 14] = [
    b"find",
    b"getMore",
    b"insert",
    b"update",
    b"delete",
    b"findAndModify",
    b"findandmodify",
    b"aggregate",
    b"count",
    b"distinct",
    b"bulkWrite",
    b"mapReduce",
    b"commitTransaction",
    b"abortTransaction",
];

/// Whether a request is a data command, by the beginning of its payload.
fn is_data(op_code: OpCode, payload: &[u8]) -> bool {
    match op_code {
        // Handshakes are never compressed; looking inside would need three decompressors.
        OpCode::Compressed => true,
        // Flags, kind of the first section, length of the body, type of its first element; then its name.
        OpCode::Msg => match (payload.get(4), payload.get(10..)) {
            (Some(0), Some(name)) => {
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                DATA_COMMANDS.contains(&&name[..end])
            }
            // Documents before the body: a write.
            (Some(1), _) => true,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        bytes[..4].copy_from_slice(&(length as i32).to_le_bytes());
        bytes[12..16].copy_from_slice(&2013_i32.to_le_bytes());
        let text = [name.as_bytes(), &[0]].concat();
        if length >= 26 + text.len() {
            bytes[26..26 + text.len()].copy_from_slice(&text);
        }
        bytes
    }

    /// All starts, as places in the whole stream, when it comes in pieces of this size.
    fn starts(stream: &[u8], piece_bytes: usize) -> Vec<(isize, usize, bool)> {
        let (mut frames, mut found, mut before) = (Frames::new(), Vec::new(), 0);
        for piece in stream.chunks(piece_bytes) {
            let mut done = 0;
            while let Some(start) = frames.next(piece, &mut done) {
                found.push((before + start.at, start.length, start.is_data));
            }
            before += piece.len() as isize;
        }
        assert!(!frames.is_lost());
        found
    }

    #[test]
    fn messages_are_found_whatever_the_pieces() {
        let stream = [
            message("hello", 200),
            message("find", 40),
            message("", 16),
            message("insert", 5000),
            message("findAndModify", 64),
            message("ping", 65),
        ]
        .concat();
        let expected = [
            (0, 200, false),
            (200, 40, true),
            (240, 16, false),
            (256, 5000, true),
            (5256, 64, true),
            (5320, 65, false),
        ];
        for piece_bytes in (1..300).chain([stream.len()]) {
            assert_eq!(starts(&stream, piece_bytes), expected, "pieces of {piece_bytes}");
        }
    }

    #[test]
    fn something_else_is_left_alone() {
        for bytes in [[0_u8; 100], [0xff; 100], [b'x'; 100]] {
            let (mut frames, mut done) = (Frames::new(), 0);
            assert_eq!(frames.next(&bytes, &mut done), None);
            assert!(frames.is_lost());
        }
    }
}
