//! The states of keys.

use proptest::prelude::*;

use super::*;

#[test]
fn a_key_goes_from_never_sent_to_one_of_three_ends() {
    let ledger = Ledger::new(10);
    let mut keys = KeySource::new(true);
    let first = keys.take(&ledger, 3);
    assert_eq!(first, 10);
    ledger.acknowledge(first);
    ledger.refuse(first + 1);
    let states: Vec<_> = (first..first + 4).map(|k| ledger.state(k)).collect();
    assert_eq!(states, [State::Acknowledged, State::Refused, State::Unknown, State::NeverSent]);
    assert_eq!(ledger.state(9), State::Acknowledged);
    assert_eq!((ledger.next_acknowledged(9), ledger.next_acknowledged(11)), (Some(9), None));
    assert_eq!(ledger.acknowledged(), 11);
    ledger.refuse(first);
    assert_eq!(ledger.state(first), State::Acknowledged, "an acknowledgement is never taken back");
}

#[test]
fn workloads_of_different_write_concern_never_share_a_block() {
    let ledger = Ledger::new(0);
    let (mut strong, mut weak) = (KeySource::new(true), KeySource::new(false));
    let a: Vec<_> = (0..5_000).map(|_| strong.take(&ledger, 1)).collect();
    let b: Vec<_> = (0..5_000).map(|_| weak.take(&ledger, 1)).collect();
    assert!(a.iter().all(|k| ledger.is_majority(*k)));
    assert!(b.iter().all(|k| !ledger.is_majority(*k)));
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10_000, "no key is handed out twice");
}

#[test]
fn keys_beyond_thirty_two_bits_are_kept_apart() {
    let ledger = Ledger::new(4_294_967_290);
    let mut keys = KeySource::new(true);
    let taken: Vec<_> = (0..20).map(|_| keys.take(&ledger, 1)).collect();
    assert_eq!(taken.first(), Some(&4_294_967_290));
    assert_eq!(taken.last(), Some(&4_294_967_309));
    ledger.acknowledge(4_294_967_309);
    assert_eq!(ledger.state(4_294_967_309), State::Acknowledged);
    assert_eq!(ledger.acknowledged(), 4_294_967_291);
}

#[test]
fn a_batch_never_crosses_a_block() {
    let ledger = Ledger::new(0);
    let mut keys = KeySource::new(true);
    keys.take(&ledger, 4_000);
    assert_eq!(keys.take(&ledger, 200), BLOCK_KEYS);
    assert_eq!(ledger.end(), 2 * BLOCK_KEYS);
    let large = keys.take(&ledger, 3 * BLOCK_KEYS - 1);
    assert_eq!(large, 2 * BLOCK_KEYS, "a batch that is larger than a block gets blocks in a row");
    assert_eq!(ledger.state(large + 3 * BLOCK_KEYS - 2), State::Unknown);
}

fn settled(ledger: &Ledger, key: u64, delete: Delete) -> State {
    assert!(ledger.claim_delete(key), "{key}");
    ledger.settle_delete(key, delete);
    ledger.state(key)
}

#[test]
fn loaded_and_fresh_keys_are_deleted_alike() {
    let ledger = Ledger::new(10_000);
    let mut keys = KeySource::new(true);
    let fresh = keys.take(&ledger, 3);
    ledger.acknowledge(fresh);
    for key in [0, 4_095, 4_096, 9_999, fresh] {
        assert!(ledger.claim_delete(key), "{key}");
        assert_eq!(ledger.state(key), State::Deleting);
        assert!(!ledger.claim_delete(key), "a second delete of {key}");
    }
    ledger.settle_delete(9_999, Delete::Majority);
    ledger.settle_delete(4_096, Delete::None);
    ledger.settle_delete(fresh, Delete::Weak);
    let states = [0, 9_999, 4_096, fresh, 9_998].map(|key| ledger.state(key));
    assert_eq!(
        states,
        [State::Deleting, State::Deleted, State::Acknowledged, State::DeletedWeakly, State::Acknowledged]
    );
    assert_eq!(ledger.acknowledged(), 10_001, "what was acknowledged stays in the books");
}

#[test]
fn only_acknowledged_keys_are_deleted() {
    let ledger = Ledger::new(0);
    let first = KeySource::new(true).take(&ledger, 3);
    ledger.refuse(first + 1);
    assert!((first..first + 5_000).all(|key| !ledger.claim_delete(key)), "unknown, refused, never sent");
    ledger.acknowledge(first);
    assert_eq!(settled(&ledger, first, Delete::Majority), State::Deleted);
    ledger.acknowledge(first);
    assert_eq!(ledger.state(first), State::Deleted, "a late acknowledgement does not bring it back");
}

#[test]
fn the_next_acknowledged_key_is_found_over_deleted_ones_and_holes() {
    let ledger = Ledger::new(100);
    for key in 40..100 {
        settled(&ledger, key, Delete::Majority);
    }
    assert_eq!([0, 39, 40].map(|key| ledger.next_acknowledged(key)), [Some(0), Some(39), None]);
    let fresh = KeySource::new(true).take(&ledger, 5_000);
    ledger.acknowledge(fresh + 4_500);
    assert_eq!(ledger.next_acknowledged(40), Some(fresh + 4_500));
    assert_eq!(ledger.next_acknowledged(fresh + 4_501), None);
    assert_eq!(Ledger::new(0).next_acknowledged(0), None);
}

proptest! {
    #[test]
    fn the_next_acknowledged_key_is_that_of_a_look_at_each(
        loaded in 0_u64..200,
        acknowledged in prop::collection::vec(0_u64..5_000, 0..20),
        deleted in prop::collection::vec(0_u64..300, 0..300),
        from in 0_u64..400,
    ) {
        let ledger = Ledger::new(loaded);
        let first = KeySource::new(true).take(&ledger, 5_000);
        acknowledged.iter().for_each(|key| ledger.acknowledge(first + key));
        for key in deleted {
            let was = ledger.state(key);
            prop_assert_eq!(ledger.claim_delete(key), was == State::Acknowledged);
        }
        let one_by_one = (from..ledger.end()).find(|key| ledger.state(*key) == State::Acknowledged);
        prop_assert_eq!(ledger.next_acknowledged(from), one_by_one);
    }
}
