//! When operations are meant to start. Pure: the caller says what time it is.
//!
//! Open loop: arrival k of a workload is intended at epoch + k / rate, whatever the server does. Workers
//! take arrivals in turn and wait for them. An arrival that waited longer than [`PATIENCE`] for a worker
//! is *missed*: it is never sent, but its wait counts in the response times, so a freeze never vanishes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Moment;

/// How long an arrival waits for a free worker. One second of arrivals is the queue of the open loop:
/// slower than this is not "good" by the definition of an outage.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Hands out arrivals to the workers of one workload.
#[derive(Debug)]
pub struct Pacer {
    epoch: Moment,
    interval_ns: f64,
    next: AtomicU64,
}

/// What to do with an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Send it at its intended start (which may have passed by less than the patience).
    Send(Moment),
    /// It waited too long for a worker: never send it.
    Missed(Moment),
}

impl Pacer {
    /// Arrivals at this rate, the first one at `epoch`.
    #[must_use]
    pub fn new(epoch: Moment, rate_ops_s: f64) -> Self {
        Self { epoch, interval_ns: 1e9 / rate_ops_s, next: AtomicU64::new(0) }
    }

    /// The next arrival, for a worker that is free at `now`. Each arrival is handed out once.
    pub fn take(&self, now: Moment) -> Arrival {
        let intended = self.intended(self.next.fetch_add(1, Ordering::Relaxed));
        if now > intended + PATIENCE { Arrival::Missed(intended) } else { Arrival::Send(intended) }
    }

    /// Arrivals that nobody took and that were intended before `end`, when they waited longer than the
    /// patience: at the end of a run in which all workers are stuck. Hands each out once.
    pub fn take_overdue(&self, end: Moment) -> Vec<Moment> {
        let mut overdue = Vec::new();
        loop {
            let k = self.next.load(Ordering::Relaxed);
            let intended = self.intended(k);
            let stuck = !overdue.is_empty() || end > intended + PATIENCE;
            if intended >= end || !stuck {
                return overdue;
            }
            // A worker that comes free at this very moment may take it first.
            if self.next.compare_exchange(k, k + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                overdue.push(intended);
            }
        }
    }

    /// Intended start of arrival k.
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    #[must_use]
    pub fn intended(&self, k: u64) -> Moment {
        self.epoch + Duration::from_nanos((k as f64 * self.interval_ns).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn arrivals_keep_to_the_rate_for_days() {
        let pacer = Pacer::new(S, 300.0);
        assert_eq!(pacer.intended(0), S);
        assert_eq!(pacer.intended(300), 2 * S);
        assert_eq!(pacer.intended(300 * 86_400 * 7), S + Duration::from_secs(86_400 * 7));
    }

    #[test]
    fn an_arrival_waits_for_a_worker_as_long_as_the_patience_and_no_longer() {
        let pacer = Pacer::new(Duration::ZERO, 1.0);
        assert_eq!(pacer.take(Duration::ZERO), Arrival::Send(Duration::ZERO));
        assert_eq!(pacer.take(2 * S), Arrival::Send(S));
        assert_eq!(pacer.take(4 * S), Arrival::Missed(2 * S));
        assert_eq!(pacer.take(4 * S), Arrival::Send(3 * S));
    }

    #[test]
    fn arrivals_that_nobody_took_are_overdue_only_when_the_workers_were_stuck() {
        let pacer = Pacer::new(Duration::ZERO, 1.0);
        assert!(pacer.take_overdue(S / 2).is_empty());
        assert_eq!(pacer.take_overdue(4 * S), [0, 1, 2, 3].map(|s| s * S));
        assert!(pacer.take_overdue(4 * S).is_empty());
    }
}
