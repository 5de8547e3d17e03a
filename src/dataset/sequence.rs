//! The shared counter of a sequential choice.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hands the numbers from 0 on out, again and again: everybody who draws from the same one together gets
/// each number once a round.
#[derive(Debug, Default)]
pub struct Sequence(AtomicU64);

impl Sequence {
    /// The next number, below n, which is at least 1. When n has grown, the round goes on into the new
    /// numbers.
    pub fn next(&self, n: u64) -> u64 {
        let within = |at: u64| if at < n { at } else { 0 };
        let after = |at: u64| Some(within(at).saturating_add(1));
        let (Ok(at) | Err(at)) = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        within(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_get_each_number_once_a_round() {
        const N: u64 = 1_000;
        let sequence = Sequence::default();
        let draw = || (0..N).map(|_| sequence.next(N)).collect::<Vec<_>>();
        let mut all = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..5).map(|_| scope.spawn(draw)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
        });
        all.sort_unstable();
        let expected: Vec<_> = (0..N).flat_map(|number| [number; 5]).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn growth_goes_on_into_the_new_numbers_and_shrinking_begins_again() {
        let sequence = Sequence::default();
        assert_eq!([2, 2, 4, 4, 4, 2].map(|n| sequence.next(n)), [0, 1, 2, 3, 0, 1]);
        assert_eq!(sequence.next(2), 0);
        let far = Sequence(AtomicU64::new(9_999_999_999));
        assert_eq!([(); 2].map(|()| far.next(10_000_000_000)), [9_999_999_999, 0]);
    }
}
