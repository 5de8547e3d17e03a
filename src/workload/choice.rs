//! What a worker asks for next: the kind by the weights of the mix, the key by the distribution.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Lane;
use super::store::Request;
use crate::dataset::Chooser;
use crate::ledger::State;
use crate::scenario::{Aggregation, Op};

/// Other keys that are tried when the chosen one is not acknowledged, or deleted.
const KEY_TRIES: u32 = 32;

/// The operations of a workload, by weight.
#[derive(Debug)]
pub(super) struct Mix {
    /// Upper edge of each in [0, 1).
    edges: Vec<(f64, Op)>,
}

impl Mix {
    pub(super) fn new(parts: &[(Op, f64)]) -> Self {
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let mut edge = 0.0;
        let mut part = |(op, weight): &(Op, f64)| {
            edge += weight / total;
            (edge, op.clone())
        };
        Self { edges: parts.iter().map(&mut part).collect() }
    }

    /// The operation at this place of [0, 1).
    fn at(&self, uniform: f64) -> &Op {
        // The last edge may be a little less than 1.
        let found = self.edges.iter().find(|(edge, _)| uniform < *edge).or(self.edges.last());
        found.map_or(&Op::Read, |(_, op)| op)
    }
}

/// The choices of one worker; each has a stream of random numbers of its own.
#[derive(Debug)]
pub(super) struct Choice {
    rng: ChaCha8Rng,
    chooser: Option<Chooser>,
}

impl Choice {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self { rng: ChaCha8Rng::from_seed(seed), chooser: None }
    }

    /// The next request; `None`: nothing was acknowledged yet, or is left, that it could be about.
    pub(super) fn next(&mut self, lane: &Lane) -> Option<Request> {
        Some(match lane.mix.at(self.rng.random::<f64>()) {
            Op::Insert { batch, .. } => {
                let count = u64::from(*batch);
                Request::Insert { first: lane.fresh_keys(count), count }
            }
            Op::Read => Request::Read { key: self.acknowledged_key(lane)? },
            Op::Find { .. } => Request::Find { key: self.acknowledged_key(lane)? },
            Op::Scan { length } => {
                Request::Scan { key: self.acknowledged_key(lane)?, length: self.up_to(*length) }
            }
            Op::Update => Request::Update { key: self.acknowledged_key(lane)?, version: lane.next_version() },
            Op::Replace => {
                Request::Replace { key: self.acknowledged_key(lane)?, version: lane.next_version() }
            }
            Op::ReadModifyWrite => {
                Request::ReadModifyWrite { key: self.acknowledged_key(lane)?, version: lane.next_version() }
            }
            Op::Delete => Request::Delete { key: self.key_to_delete(lane)? },
            Op::Aggregate(Aggregation::Length(length)) => {
                Request::Count { key: self.acknowledged_key(lane)?, length: *length }
            }
            Op::Aggregate(Aggregation::Pipeline(_)) => {
                Request::Pipeline { key: self.acknowledged_key(lane)? }
            }
        })
    }

    /// A whole number from 1 to `most`. Written out because libraries change their method between versions,
    /// and a run must be repeatable from its seed.
    fn up_to(&mut self, most: u32) -> u32 {
        let scaled = u64::from(self.rng.next_u32()) * u64::from(most);
        1 + (scaled >> 32) as u32
    }

    /// A key that nobody else deletes.
    fn key_to_delete(&mut self, lane: &Lane) -> Option<u64> {
        for _ in 0..KEY_TRIES {
            let key = self.acknowledged_key(lane)?;
            if lane.ledger.claim_delete(key) {
                return Some(key);
            }
        }
        None
    }

    /// A key that was acknowledged and not deleted, by the lane's distribution.
    fn acknowledged_key(&mut self, lane: &Lane) -> Option<u64> {
        let Lane { ledger, workload, sequence, .. } = lane;
        // The newest keys are those of the inserts; other choices stay with the loaded ones, if any.
        let newest = workload.distribution.is_by_age();
        let keys = if newest || ledger.loaded() == 0 { ledger.high_water() } else { ledger.loaded() };
        match &mut self.chooser {
            Some(chooser) => chooser.follow(keys),
            none => *none = Chooser::new(workload.distribution, keys).ok(),
        }
        let chooser = self.chooser.as_ref()?;
        let mut key = chooser.choose(sequence, &mut self.rng);
        for _ in 0..KEY_TRIES {
            if ledger.state(key) == State::Acknowledged {
                return Some(key);
            }
            key = chooser.choose(sequence, &mut self.rng);
        }
        // Another workload's block has hardly begun, so its keys are mostly holes; or most were deleted.
        ledger.next_acknowledged(key).or_else(|| ledger.next_acknowledged(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_chosen_by_its_weights() {
        let mix = Mix::new(&[(Op::Read, 3.0), (Op::Update, 1.0)]);
        assert_eq!(
            [0.0, 0.74, 0.76, 0.999].map(|at| mix.at(at)),
            [&Op::Read, &Op::Read, &Op::Update, &Op::Update]
        );
        assert_eq!(mix.at(1.0), &Op::Update, "beyond the last edge, by rounding");
    }

    #[test]
    fn lengths_are_drawn_from_one_to_the_most_and_both_ends_come() {
        let mut choice = Choice::new([7; 32]);
        let drawn: Vec<_> = (0..1_000).map(|_| choice.up_to(10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&10)));
        let mean = f64::from(drawn.iter().sum::<u32>()) / 1_000.0;
        assert!((5.0..6.0).contains(&mean), "{mean}");
        assert_eq!(choice.up_to(1), 1);
    }
}
