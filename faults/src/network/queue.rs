//! What was read and is not written yet: pieces with the moment at which they may go on, in order.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::book::Lag;

/// Most bytes that wait in one direction of one connection; then nothing more is read, and the sender feels
/// it, as on a line with so much in flight. Under a delay of 100 ms it allows 2.5 MB/s a connection.
pub(crate) const QUEUE_BYTES_MAX: usize = 256 << 10;

/// What a piece costs beside its bytes, so that many small pieces are bounded as well.
const PIECE_BYTES: usize = 64;

/// One piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    /// The sender has sent all it will.
    End,
    /// The connection is to be reset here.
    Reset,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pieces: VecDeque<(Option<Instant>, Piece)>,
    /// Bytes of the first piece that were written.
    written: usize,
    bytes: usize,
    last_due: Option<Instant>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= QUEUE_BYTES_MAX
    }

    /// Appends a piece that may go on when it is due; `None`: at once. No piece overtakes another.
    pub fn push(&mut self, due: Option<Instant>, piece: Piece) {
        self.last_due = self.last_due.max(due);
        self.bytes += cost(&piece);
        self.pieces.push_back((self.last_due, piece));
    }

    /// When the first piece may go on; `None` when it may at once, or there is none.
    pub fn due(&self) -> Option<Instant> {
        self.pieces.front().and_then(|(due, _)| *due)
    }

    /// Nothing waits for its time any more.
    pub fn release(&mut self) {
        self.last_due = None;
        self.pieces.iter_mut().for_each(|(due, _)| *due = None);
    }

    /// The first piece, as far as it was not written yet.
    pub fn front(&self) -> Option<Front<'_>> {
        self.pieces.front().map(|(_, piece)| match piece {
            Piece::Bytes(bytes) => Front::Bytes(&bytes[self.written..]),
            Piece::End => Front::End,
            Piece::Reset => Front::Reset,
        })
    }

    /// So many bytes of the first piece were written; with all of them it is gone.
    pub fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        let Some((_, piece)) = self.pieces.front() else { return };
        if !matches!(piece, Piece::Bytes(all) if self.written < all.len()) {
            self.bytes -= cost(piece);
            self.written = 0;
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            self.pieces.shrink_to(4);
        }
    }
}

fn cost(piece: &Piece) -> usize {
    PIECE_BYTES + if let Piece::Bytes(bytes) = piece { bytes.len() } else { 0 }
}

/// The first piece of a queue.
pub(crate) enum Front<'a> {
    Bytes(&'a [u8]),
    End,
    Reset,
}

/// Draws the jitter of one stream: SplitMix64.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub const fn new(stream: u64) -> Self {
        Self(stream)
    }

    /// How long the next piece takes.
    pub fn draw(&mut self, lag: &Lag) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0 ^ lag.seed.rotate_left(32);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let part = (z >> 11) as f64 / (1_u64 << 53) as f64;
        lag.delay + lag.jitter.mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_piece_overtakes_another() {
        let start = crate::network::now();
        let mut queue = Queue::default();
        for (ms, text) in [(30, "a"), (10, "b"), (40, "c")] {
            let due = Some(start + Duration::from_millis(ms));
            queue.push(due, Piece::Bytes(text.into()));
        }
        let mut dues = Vec::new();
        while let Some(Front::Bytes(bytes)) = queue.front() {
            dues.push((bytes.to_vec(), queue.due().unwrap() - start));
            queue.wrote(1);
        }
        let ms = Duration::from_millis;
        assert_eq!(dues, [(b"a".to_vec(), ms(30)), (b"b".to_vec(), ms(30)), (b"c".to_vec(), ms(40))]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn small_pieces_fill_it_too() {
        let mut queue = Queue::default();
        let mut count = 0;
        while !queue.is_full() {
            queue.push(None, Piece::Bytes(vec![0]));
            count += 1;
        }
        assert_eq!(count, QUEUE_BYTES_MAX.div_ceil(PIECE_BYTES + 1));
    }

    #[test]
    fn jitter_is_even_and_repeatable() {
        let lag = |seed| Lag { delay: Duration::from_millis(5), jitter: Duration::from_millis(10), seed };
        let draw = |seed, stream| {
            let mut jitter = Jitter::new(stream);
            (0..1000).map(|_| jitter.draw(&lag(seed)).as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        let first = draw(1, 1);
        assert_eq!(first, draw(1, 1));
        assert_ne!(first, draw(2, 1));
        assert_ne!(first, draw(1, 2));
        assert!(first.iter().all(|ms| (5.0..15.0).contains(ms)));
        let mean = first.iter().sum::<f64>() / 1000.0;
        assert!((9.5..10.5).contains(&mean), "{mean}");
    }
}
