//! What a worker asks for next: the kind by the weights of the mix, the key by the distribution.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Lane;
use super::store::Request;
use crate::dataset::Chooser;
use crate::ledger::State;
use crate::scenario::OpKind;

/// Other keys that are tried when the chosen one is not acknowledged.
const KEY_TRIES: u32 = 32;

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

    /// The next request; `None`: nothing was acknowledged yet that it could be about.
    pub(super) fn next(&mut self, lane: &Lane) -> Option<Request> {
        match lane.pick_kind(self.rng.random::<f64>()) {
            OpKind::Insert => {
                let count = u64::from(lane.workload.batch);
                Some(Request::Insert { first: lane.fresh_keys(count), count })
            }
            OpKind::Read => Some(Request::Read { key: self.acknowledged_key(lane)? }),
            OpKind::Update => {
                let key = self.acknowledged_key(lane)?;
                Some(Request::Update { key, version: lane.next_version() })
            }
        }
    }

    /// A key that was acknowledged, by the lane's distribution.
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
        // Another workload's block has hardly begun: its keys are mostly holes.
        ledger.next_acknowledged(key)
    }
}
