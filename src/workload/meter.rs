//! Sums some seconds of one workload up while it runs, for a search that has to decide what comes next. The
//! recording holds the same seconds; this is only earlier.

use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::latency::{histogram, merge};
use super::stats::Cell;

/// What happened in the seconds of a window.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Seconds that were summed up so far.
    pub seconds: u64,
    /// Acknowledged.
    pub ok: u64,
    /// Failed and unknown.
    pub not_ok: u64,
    /// Never sent.
    pub missed: u64,
    /// Sends that were over 10 ms late although a worker was free.
    pub late_starts: u64,
    /// From the intended start, in microseconds; operations without an answer with the time they had waited.
    pub response: Histogram<u64>,
    /// From the send, acknowledged operations, in microseconds.
    pub service: Histogram<u64>,
}

/// One window at a time; nothing is summed up while there is none.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Option<Window>>);

#[derive(Debug)]
struct Window {
    from: u64,
    to: u64,
    tally: Tally,
}

impl Meter {
    /// Sums up the seconds from `from` to before `to`, counted from the epoch. Both must lie ahead.
    pub fn open(&self, from: u64, to: u64) {
        let (response, service) = (histogram(), histogram());
        let tally = Tally { seconds: 0, ok: 0, not_ok: 0, missed: 0, late_starts: 0, response, service };
        *self.lock() = Some(Window { from, to, tally });
    }

    /// Takes note of a second that is over.
    pub fn add(&self, cell: &Cell) {
        let mut window = self.lock();
        let Some(Window { tally, .. }) = window.as_mut().filter(|w| (w.from..w.to).contains(&cell.second))
        else {
            return;
        };
        tally.seconds += 1;
        tally.ok += cell.ok;
        tally.not_ok += cell.failed + cell.unknown;
        tally.missed += cell.missed;
        tally.late_starts += cell.late_starts;
        merge(&mut tally.response, &cell.response);
        merge(&mut tally.response, &cell.unanswered);
        merge(&mut tally.service, &cell.service);
    }

    /// Ends the window and hands out what it held.
    pub fn close(&self) -> Option<Tally> {
        self.lock().take().map(|window| window.tally)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stats::{Finished, Stats};
    use super::*;
    use crate::outcome::Outcome;

    /// One good operation in each of the first `seconds` seconds; number n takes n + 1 milliseconds.
    fn cells(seconds: u32) -> Vec<Cell> {
        let stats = Stats::new(Duration::ZERO, 1);
        for n in 0..seconds {
            let intended = Duration::from_secs(n.into());
            let finished = intended + Duration::from_millis((n + 1).into());
            let outcome = Some(&Outcome::Ok);
            stats.record(
                0,
                &Finished {
                    intended,
                    sent: Some(intended),
                    finished,
                    worker_was_free: true,
                    outcome,
                    kind: None,
                },
            );
        }
        (0..seconds).map(|_| stats.take().cell).collect()
    }

    #[test]
    fn a_window_holds_its_seconds_and_no_others() {
        let meter = Meter::default();
        for cell in cells(3) {
            meter.add(&cell);
        }
        assert!(meter.close().is_none(), "no window, no sum");
        meter.open(2, 5);
        for cell in cells(8) {
            meter.add(&cell);
        }
        let tally = meter.close().unwrap();
        assert_eq!((tally.seconds, tally.ok, tally.not_ok, tally.missed), (3, 3, 0, 0));
        assert_eq!((tally.response.len(), tally.service.len()), (3, 3));
        assert!((2_990..=3_010).contains(&tally.response.min()), "{}", tally.response.min());
        assert!((4_990..=5_010).contains(&tally.response.max()), "{}", tally.response.max());
        assert!(meter.close().is_none());
    }
}
