//! One direction of one connection: what was read goes on, as fast and as far as the rules let it.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::book::Lane;
use super::conn::Conn;
use super::frames::Frames;
use super::now;
use super::queue::{Front, Jitter, Piece, Queue};
use super::rule::Effect;
use super::upstream::Socket;

/// Most bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// After so many reads the others have their turn, so that a change of the rules reaches all of them soon.
const READS_IN_TURN: usize = 4;

thread_local! {
    /// Where all connections of a thread read to. What cannot be written at once is copied to a queue, so that
    /// an idle connection costs no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Requests.
    Up,
    /// Replies.
    Down,
}

/// The connection is to be reset.
#[derive(Debug)]
pub(crate) struct Broken;

#[derive(Debug)]
pub(crate) struct Flow {
    way: Way,
    queue: Queue,
    frames: Frames,
    jitter: Jitter,
    /// When bandwidth lets the next bytes pass.
    next_read: Option<Instant>,
    /// Bytes of the current reply that pass before it is cut.
    cut_left: Option<u64>,
    /// Whether something was seen waiting behind the current stall.
    waiting_seen: bool,
    /// The sender ended, or the rules let nothing more pass.
    read_all: bool,
    /// The end was passed on.
    pub done: bool,
    /// Something moved since this was last set to `false`.
    pub moved: bool,
    /// When it has to be polled again though no socket is ready.
    pub wake_at: Option<Instant>,
}

impl Flow {
    /// `number` is that of the connection: it decides the jitter.
    pub fn new(way: Way, number: u64) -> Self {
        Self {
            way,
            queue: Queue::default(),
            frames: Frames::new(),
            jitter: Jitter::new(number * 2 + u64::from(way == Way::Down)),
            next_read: None,
            cut_left: None,
            waiting_seen: false,
            read_all: false,
            done: false,
            moved: false,
            wake_at: None,
        }
    }

    /// Puts in what was read of the stream before there was a flow.
    pub fn preload(&mut self, bytes: &[u8], lane: &Lane, conn: &Conn) {
        let passes = self.inspect(bytes, lane, conn);
        self.enqueue(&bytes[..passes], passes < bytes.len(), lane);
    }

    /// Called when the rules changed.
    pub fn change(&mut self, lane: &Lane) {
        self.waiting_seen &= lane.stalled;
        if lane.delay.is_none() {
            self.queue.release();
        }
        if lane.bytes_per_s.is_none() {
            self.next_read = None;
        }
        if lane.cut_after.is_none() {
            self.cut_left = None;
        }
    }

    /// Moves what can be moved. `Ready` only when nothing more will ever come.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut Socket, &mut Socket),
        lane: &Lane,
        conn: &Conn,
    ) -> Poll<Result<(), Broken>> {
        self.wake_at = None;
        if self.done {
            return Poll::Ready(Ok(()));
        }
        if lane.stalled {
            return self.poll_stalled(cx, from, lane);
        }
        for _ in 0..READS_IN_TURN {
            ready!(self.poll_write_queue(cx, to))?;
            if self.done {
                return Poll::Ready(Ok(()));
            }
            // A queue that is not empty here waits for its time; one that is full is not read into.
            if self.read_all || self.queue.is_full() || self.waits_for_bandwidth(lane) {
                return Poll::Pending;
            }
            ready!(self.poll_read(cx, (&mut *from, &mut *to), lane, conn))?;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks whether something waits, and leaves it there.
    fn poll_stalled(&mut self, cx: &mut Context<'_>, from: &Socket, lane: &Lane) -> Poll<Result<(), Broken>> {
        if !self.waiting_seen && (!self.queue.is_empty() || from.poll_read_ready(cx).is_ready()) {
            self.waiting_seen = true;
            lane.stall_acted();
        }
        Poll::Pending
    }

    /// Writes what is due. `Pending` when the receiver takes no more.
    fn poll_write_queue(&mut self, cx: &mut Context<'_>, to: &mut Socket) -> Poll<Result<(), Broken>> {
        while let Some(front) = self.queue.front() {
            if let Some(due) = self.queue.due().filter(|due| *due > now()) {
                self.wake_at = Some(due);
                break;
            }
            let written = match front {
                Front::Bytes(bytes) => {
                    ready!(Pin::new(&mut *to).poll_write(cx, bytes)).map_err(|_| Broken)?
                }
                Front::End => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx)).map_err(|_| Broken)?;
                    self.done = true;
                    0
                }
                Front::Reset => return Poll::Ready(Err(Broken)),
            };
            self.queue.wrote(written);
            self.moved = true;
        }
        Poll::Ready(Ok(()))
    }

    fn waits_for_bandwidth(&mut self, lane: &Lane) -> bool {
        let Some(rate) = lane.bytes_per_s else { return false };
        let Some(at) = self.next_read.filter(|at| *at > now()) else { return rate == 0 };
        self.wake_at = Some(self.wake_at.map_or(at, |due| due.min(at)));
        true
    }

    /// Reads once, and passes on what the rules allow, through the queue if it has to wait.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        (from, to): (&mut Socket, &mut Socket),
        lane: &Lane,
        conn: &Conn,
    ) -> Poll<Result<(), Broken>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let most = lane.bytes_per_s.map_or(READ_BYTES, read_bytes_at);
            let mut buffer = ReadBuf::new(&mut scratch[..most]);
            ready!(Pin::new(from).poll_read(cx, &mut buffer)).map_err(|_| Broken)?;
            let bytes = buffer.filled();
            self.moved = true;
            if bytes.is_empty() {
                self.read_all = true;
                self.push(Piece::End, lane);
                return Poll::Ready(Ok(()));
            }
            self.pay_bandwidth(bytes.len(), lane);
            let passes = self.inspect(bytes, lane, conn);
            let mut rest = &bytes[..passes];
            if self.queue.is_empty()
                && lane.delay.is_none()
                && let Poll::Ready(written) = Pin::new(to).poll_write(cx, rest)
            {
                rest = &rest[written.map_err(|_| Broken)?..];
            }
            self.enqueue(rest, passes < bytes.len(), lane);
            Poll::Ready(Ok(()))
        })
    }

    fn pay_bandwidth(&mut self, bytes: usize, lane: &Lane) {
        if let Some(rate) = lane.bytes_per_s.filter(|rate| *rate > 0) {
            let now = now();
            let from = self.next_read.map_or(now, |at| at.max(now));
            self.next_read = Some(from + Duration::from_secs_f64(bytes as f64 / rate as f64));
            lane.acted(|effect| matches!(effect, Effect::Bandwidth { .. }));
        }
    }

    fn enqueue(&mut self, bytes: &[u8], cut: bool, lane: &Lane) {
        if !bytes.is_empty() {
            self.push(Piece::Bytes(bytes.to_vec()), lane);
        }
        if cut {
            self.read_all = true;
            self.push(Piece::Reset, lane);
        }
    }

    fn push(&mut self, piece: Piece, lane: &Lane) {
        let due = lane.delay.map(|lag| now() + self.jitter.draw(&lag));
        if due.is_some() {
            lane.acted(|effect| matches!(effect, Effect::Delay { .. }));
        }
        self.queue.push(due, piece);
    }

    /// Counts, and says how many of the bytes pass: fewer than all when the connection is to be reset there.
    fn inspect(&mut self, bytes: &[u8], lane: &Lane, conn: &Conn) -> usize {
        let passes = match self.way {
            Way::Up => self.inspect_requests(bytes, lane, conn),
            Way::Down => self.inspect_replies(bytes, lane),
        };
        conn.passed(self.way, passes as u64);
        if !lane.rules.is_empty() {
            lane.passed(passes as u64);
        }
        passes
    }

    fn inspect_requests(&mut self, bytes: &[u8], lane: &Lane, conn: &Conn) -> usize {
        let mut done = 0;
        while let Some(start) = self.frames.next(bytes, &mut done) {
            if !start.is_data {
                continue;
            }
            conn.count_data_command();
            if lane.drops && drop_one(lane) {
                return usize::try_from(start.at).unwrap_or(0);
            }
        }
        bytes.len()
    }

    fn inspect_replies(&mut self, bytes: &[u8], lane: &Lane) -> usize {
        let mut done = 0;
        while let Some(start) = self.frames.next(bytes, &mut done) {
            let cut_after = lane.cut_after.filter(|bytes| (start.length as u64) > *bytes);
            if let (Some(cut_after), None) = (cut_after, self.cut_left) {
                // From the first byte of this piece on; the reply may have begun in an earlier one.
                self.cut_left = Some(cut_after.saturating_add_signed(start.at as i64));
            }
        }
        let Some(cut_after) = lane.cut_after else { return bytes.len() };
        // What is no stream of messages is cut as if one reply began when it was first seen.
        if self.cut_left.is_none() && self.frames.is_lost() {
            self.cut_left = Some(cut_after);
        }
        let Some(left) = &mut self.cut_left else { return bytes.len() };
        if *left >= bytes.len() as u64 {
            *left -= bytes.len() as u64;
            return bytes.len();
        }
        lane.acted(|effect| matches!(effect, Effect::CutReply { .. }));
        *left as usize
    }
}

/// Asks every rule, so that each counts for itself.
fn drop_one(lane: &Lane) -> bool {
    let mut dropped = false;
    for active in lane.rules.iter().filter(|active| active.drops()) {
        active.acted();
        dropped = true;
    }
    dropped
}

/// At a low rate small pieces, so that they come evenly: what passes in 50 ms.
fn read_bytes_at(rate: u64) -> usize {
    usize::try_from(rate / 20).unwrap_or(READ_BYTES).clamp(1, READ_BYTES)
}
