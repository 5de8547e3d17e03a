//! Who holds which nodes, and who waits for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use faults::View;

use super::guard::{Grip, Stand, conflict};

/// What became of an attempt to take nodes.
#[derive(Debug)]
pub(super) enum Attempt<'a> {
    /// They are taken, until this is dropped.
    Taken(Held<'a>),
    /// This is in the way.
    Refused(String),
    /// A fault ended after the members were looked at: look again.
    Stale,
}

/// The nodes of one fault; dropped, others may have them.
#[derive(Debug)]
pub(super) struct Held<'a> {
    claims: &'a Claims,
    fault: String,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.claims.state();
        state.held.retain(|grip| grip.fault != self.fault);
        state.ended += 1;
    }
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
    pub(super) fn take(&self, place: usize, wants: Grip, view: &View, ended: u64) -> Attempt<'_> {
        let mut state = self.state();
        // Its nodes may have looked well then, being about to be hit; now nobody would count them.
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
        let fault = wants.fault.clone();
        state.held.push(Grip { stand: Stand::Holds, ..wants });
        Attempt::Taken(Held { claims: self, fault })
    }

    /// The fault at this place waits no longer.
    pub(super) fn leave(&self, place: usize) {
        self.state().waiting.remove(&place);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
