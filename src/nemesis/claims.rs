//! Who holds which nodes, and who waits for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use faults::View;

use super::guard::{Grip, conflict};

/// What became of an attempt to take nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// They are taken.
    Taken,
    /// This is in the way.
    Refused(String),
    /// A fault ended after the members were looked at: look again.
    Stale,
}

/// The faults that hold nodes, and those that wait for them.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    held: Vec<Grip>,
    /// By their place in the plan: who comes first there is served first.
    waiting: BTreeMap<usize, Grip>,
    ended: u64,
}

impl Claims {
    /// How many faults have let go so far: to be read before the members are looked at.
    pub(super) fn ended(&self) -> u64 {
        self.state().ended
    }

    /// Whether any fault holds a node.
    pub(super) fn any(&self) -> bool {
        !self.state().held.is_empty()
    }

    /// Takes the nodes, unless something is in the way; then the fault stands in the queue.
    pub(super) fn take(&self, place: usize, wants: Grip, view: &View, ended: u64) -> Attempt {
        let mut state = self.state();
        // What was down in that view only because of a fault looks no better; what was well may be hit since.
        if state.ended != ended {
            return Attempt::Stale;
        }
        let earlier = state.waiting.range(..place).map(|(_, waits)| waits);
        let others: Vec<_> = state.held.iter().chain(earlier).collect();
        if let Some(why) = conflict(view, &others, &wants) {
            state.waiting.insert(place, wants);
            return Attempt::Refused(why);
        }
        state.waiting.remove(&place);
        state.held.push(wants);
        Attempt::Taken
    }

    /// The fault at this place waits no longer.
    pub(super) fn leave(&self, place: usize) {
        self.state().waiting.remove(&place);
    }

    /// A fault is over.
    pub(super) fn release(&self, fault: &str) {
        let mut state = self.state();
        state.held.retain(|grip| grip.fault != fault);
        state.ended += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
