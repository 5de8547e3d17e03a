//! `availability.csv`: what became of the operations by the time they were *intended*.
//!
//! Pieces of 100 ms wait until nothing can change about them; then ten pieces in which everything was
//! good become one row of a second, and nothing is lost.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use super::files::{Appender, csv_text};
use crate::workload::PieceCell;

/// Columns; `ok_1s` counts operations that were acknowledged within 1 s of their intended start.
pub const HEADER: &str =
    "from_ms,width_ms,workload,scheduled,not_ok,ok_1s,ok_2s,ok_5s,ok_10s,ok_30s,ok_60s\n";

/// Pieces per second.
const PER_SECOND: u64 = 10;

/// The pieces of one workload that may still change.
#[derive(Debug)]
pub struct Availability {
    settled_after_s: usize,
    /// Of the seconds since then: what was intended before this second was in a worker's hands, or done.
    handed_out_s: VecDeque<u64>,
    /// By number from the start of the measured phase.
    open: BTreeMap<u64, PieceCell>,
}

impl Availability {
    /// An operation is booked at the latest this long after a worker took it.
    pub fn new(settled_after: Duration) -> Self {
        let settled_after_s =
            usize::try_from(settled_after.as_secs()).unwrap_or(usize::MAX).saturating_add(1);
        Self { settled_after_s, handed_out_s: VecDeque::new(), open: BTreeMap::new() }
    }

    /// Adds the changes of one second. `zero` is the number of the first measured piece; what was
    /// intended before it belongs to the warm-up.
    pub fn add(&mut self, changes: &BTreeMap<u64, PieceCell>, zero: u64) {
        for (number, change) in changes {
            let Some(number) = number.checked_sub(zero) else {
                continue;
            };
            let piece = self.open.entry(number).or_default();
            piece.scheduled += change.scheduled;
            piece.not_ok += change.not_ok;
            for (sum, more) in piece.ok_within.iter_mut().zip(change.ok_within) {
                *sum += more;
            }
        }
    }

    /// Writes what cannot change any more once second `now_s` was taken, the next one; the oldest arrival
    /// without a worker had `waited` then.
    pub fn write_settled(
        &mut self,
        now_s: u64,
        waited: Duration,
        lane: &str,
        to: &mut Appender,
    ) -> io::Result<()> {
        let waited_s = waited.as_secs() + u64::from(waited.subsec_nanos() > 0);
        self.handed_out_s.push_back(now_s.saturating_sub(waited_s));
        if self.handed_out_s.len() <= self.settled_after_s {
            return Ok(());
        }
        let settled = self.handed_out_s.pop_front().unwrap_or(0) * PER_SECOND;
        let later = self.open.split_off(&settled);
        let ready = std::mem::replace(&mut self.open, later);
        write(&ready, lane, to)
    }

    /// Writes everything: nothing is in flight any more.
    pub fn write_rest(&mut self, lane: &str, to: &mut Appender) -> io::Result<()> {
        write(&std::mem::take(&mut self.open), lane, to)
    }
}

fn write(pieces: &BTreeMap<u64, PieceCell>, lane: &str, to: &mut Appender) -> io::Result<()> {
    let mut pieces = pieces.iter().peekable();
    while let Some((number, _)) = pieces.peek() {
        let second = **number / PER_SECOND;
        let mut inside = Vec::new();
        while let Some(piece) = pieces.next_if(|(n, _)| **n / PER_SECOND == second) {
            inside.push(piece);
        }
        if inside.iter().all(|(_, piece)| is_good(piece)) {
            let sum = |f: &dyn Fn(&PieceCell) -> u64| inside.iter().map(|(_, piece)| f(piece)).sum::<u64>();
            let scheduled = sum(&|p| p.scheduled);
            let whole = PieceCell { scheduled, not_ok: 0, ok_within: [scheduled; 6] };
            row(second * 1_000, 1_000, &whole, lane, to)?;
        } else {
            for (number, piece) in inside {
                row(number * 100, 100, piece, lane, to)?;
            }
        }
    }
    Ok(())
}

fn is_good(piece: &PieceCell) -> bool {
    piece.ok_within[0] == piece.scheduled
}

fn row(from_ms: u64, width_ms: u64, piece: &PieceCell, lane: &str, to: &mut Appender) -> io::Result<()> {
    let ok: Vec<_> = piece.ok_within.iter().map(u64::to_string).collect();
    let PieceCell { scheduled, not_ok, .. } = piece;
    let ok = ok.join(",");
    to.write_line(&format!("{from_ms},{width_ms},{},{scheduled},{not_ok},{ok}", csv_text(lane)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(n: u64) -> PieceCell {
        PieceCell { scheduled: n, not_ok: 0, ok_within: [n; 6] }
    }

    fn written(pieces: &[(u64, PieceCell)], settle_at: u64, waited: Duration) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let mut to = Appender::create(&path, "").unwrap();
        let mut all = Availability::new(Duration::from_secs(1));
        all.add(&pieces.iter().copied().collect(), 100);
        for second in 0..=settle_at {
            all.write_settled(second, waited, "w", &mut to).unwrap();
        }
        to.flush().unwrap();
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn a_good_second_is_one_row_and_a_bad_one_keeps_its_pieces() {
        let bad = PieceCell { scheduled: 5, not_ok: 1, ok_within: [3, 4, 4, 4, 4, 4] };
        let text = written(
            &[(99, good(9)), (100, good(5)), (103, good(7)), (110, good(5)), (115, bad)],
            9,
            Duration::ZERO,
        );
        assert_eq!(
            text,
            "0,1000,w,12,0,12,12,12,12,12,12\n1000,100,w,5,0,5,5,5,5,5,5\n1500,100,w,5,1,3,4,4,4,4,4\n"
        );
    }

    #[test]
    fn what_may_still_change_is_not_written() {
        assert_eq!(written(&[(100, good(5))], 2, Duration::ZERO), "");
    }

    #[test]
    fn arrivals_that_still_wait_keep_their_pieces_open() {
        let pieces = [(100, good(5)), (130, good(5))];
        assert_eq!(written(&pieces, 9, Duration::from_secs(5)), "0,1000,w,5,0,5,5,5,5,5,5\n");
        assert_eq!(written(&pieces, 9, Duration::from_secs(7)), "");
    }
}
