//! How many operations of a workload the measured phase is for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Drive, Lane};
use crate::clock::Moment;

/// The operations of a workload's measured phase: workers take one before they send, and say when it has
/// ended. When all have ended, the budget is spent.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    taken: AtomicU64,
    ended: AtomicU64,
    /// Operations sent before this moment cost nothing; nanoseconds on the run clock.
    from: AtomicU64,
    spent: CancellationToken,
}

/// Leave to send one operation.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Ticket {
    /// Of the warm-up, or of a workload without a budget.
    Free,
    /// One of the budget.
    Counted,
}

impl Budget {
    /// `limit` is at least 1. Until [`Budget::count_from`] every operation is free.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            taken: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            from: AtomicU64::new(u64::MAX),
            spent: CancellationToken::new(),
        }
    }

    /// What is sent from this moment on counts.
    pub(super) fn count_from(&self, from: Moment) {
        self.from.store(u64::try_from(from.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Leave to send one now; `None`: all operations are taken.
    pub(super) fn take(&self, now: Moment) -> Option<Ticket> {
        if !self.counts(now) {
            return Some(Ticket::Free);
        }
        let one_more = |taken| (taken < self.limit).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok().then_some(Ticket::Counted)
    }

    fn counts(&self, now: Moment) -> bool {
        now >= Duration::from_nanos(self.from.load(Ordering::Relaxed))
    }

    /// Nothing more is to be sent; what is under way may still go on.
    pub(super) fn is_exhausted(&self, now: Moment) -> bool {
        self.counts(now) && self.taken.load(Ordering::Relaxed) >= self.limit
    }

    /// Nothing was sent.
    pub(super) fn give_back(&self, ticket: &Ticket) {
        if *ticket == Ticket::Counted {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The operation has ended, well or not.
    pub(super) fn ended(&self, ticket: &Ticket) {
        if *ticket == Ticket::Counted && self.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.limit {
            self.spent.cancel();
        }
    }

    /// Cancelled when all operations have ended.
    pub(super) fn spent(&self) -> &CancellationToken {
        &self.spent
    }
}

impl Lane {
    /// Leave to send an operation; `None`: the measured phase has had all of them.
    pub(super) fn take_operation(&self, now: Moment) -> Option<Ticket> {
        self.budget.as_ref().map_or(Some(Ticket::Free), |budget| budget.take(now))
    }

    /// All operations of the budget were sent: no later arrival was ever intended.
    pub(super) fn is_exhausted(&self, now: Moment) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.is_exhausted(now))
    }

    pub(super) fn operation_ended(&self, ticket: &Ticket) {
        self.budget.iter().for_each(|budget| budget.ended(ticket));
    }

    pub(super) fn operation_not_sent(&self, ticket: &Ticket) {
        self.budget.iter().for_each(|budget| budget.give_back(ticket));
    }
}

impl Drive {
    /// What is intended from this moment on counts against the workloads' numbers of operations.
    /// [`Drive::measure`] does it too; without a warm-up it would be too late for the first ones.
    pub fn count_from(&self, start: Moment) {
        self.budgets().for_each(|budget| budget.count_from(start));
    }

    /// Returns when every workload that has a number of operations has ended all of them; never, if there
    /// is none.
    pub async fn spent(&self) {
        if self.budgets().next().is_none() {
            std::future::pending::<()>().await;
        }
        for budget in self.budgets() {
            budget.spent().cancelled().await;
        }
    }

    fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.lanes.iter().filter_map(|lane| lane.budget.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Moment = Duration::from_secs;

    #[test]
    fn a_budget_is_spent_when_its_last_operation_has_ended_not_before() {
        let budget = Budget::new(3);
        assert_eq!(budget.take(S(1)), Some(Ticket::Free), "nothing counts before the phase is known");
        budget.count_from(S(5));
        assert_eq!(budget.take(S(4)), Some(Ticket::Free));
        let tickets = [(); 3].map(|()| budget.take(S(5)).unwrap());
        assert_eq!(budget.take(S(6)), None, "all are taken");
        assert!(budget.is_exhausted(S(6)) && !budget.is_exhausted(S(4)));
        budget.give_back(&tickets[2]);
        assert!(!budget.is_exhausted(S(6)));
        budget.ended(&Ticket::Free);
        budget.ended(&tickets[0]);
        budget.ended(&tickets[1]);
        assert!(!budget.spent().is_cancelled(), "one was given back");
        let last = budget.take(S(7)).unwrap();
        assert_eq!(budget.take(S(7)), None);
        budget.ended(&last);
        assert!(budget.spent().is_cancelled());
    }

    #[test]
    fn a_budget_beyond_thirty_two_bits_is_counted_to_its_end() {
        let budget = Budget::new(5_000_000_000);
        budget.count_from(S(0));
        budget.taken.store(4_999_999_999, Ordering::Relaxed);
        budget.ended.store(4_999_999_999, Ordering::Relaxed);
        let last = budget.take(S(1)).unwrap();
        assert_eq!(budget.take(S(1)), None);
        budget.ended(&last);
        assert!(budget.spent().is_cancelled());
    }

    #[test]
    fn workers_together_never_take_too_many() {
        let budget = Budget::new(10_000);
        budget.count_from(S(0));
        let work = || std::iter::from_fn(|| budget.take(S(1))).inspect(|ticket| budget.ended(ticket)).count();
        let total: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(total, 10_000);
        assert!(budget.spent().is_cancelled());
    }
}
