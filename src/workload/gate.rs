//! How many workers of a workload may work. Those beyond that number park until it grows.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

/// Lets the first workers of a workload work.
#[derive(Debug)]
pub struct Gate {
    active: AtomicU32,
    changed: Notify,
}

impl Gate {
    /// Open for this many workers.
    pub fn new(active: u32) -> Self {
        Self { active: AtomicU32::new(active), changed: Notify::new() }
    }

    /// From now on for this many. Who is let in starts at once; who is not finishes what it does first.
    pub fn set(&self, active: u32) {
        self.active.store(active, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether the worker of this number may work. Cheap: asked before every operation.
    pub fn is_open(&self, index: usize) -> bool {
        index < self.active.load(Ordering::Acquire) as usize
    }

    /// Waits until the worker of this number may work. Safe to cancel.
    pub async fn wait(&self, index: usize) {
        loop {
            // Made before the look: a change in between is not missed.
            let changed = self.changed.notified();
            if self.is_open(index) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn a_parked_worker_goes_on_as_soon_as_it_is_let_in_and_no_other_does() {
        let gate = Arc::new(Gate::new(1));
        assert!(gate.is_open(0) && !gate.is_open(1));
        let mut parked = JoinSet::new();
        for index in 1..4 {
            let gate = Arc::clone(&gate);
            parked.spawn(async move {
                gate.wait(index).await;
                index
            });
        }
        tokio::task::yield_now().await;
        gate.set(3);
        let mut let_in = Vec::new();
        while let_in.len() < 2 {
            let next = tokio::time::timeout(Duration::from_secs(10), parked.join_next()).await;
            let_in.push(next.expect("a change wakes who is let in").unwrap().unwrap());
        }
        let_in.sort_unstable();
        assert_eq!(let_in, [1, 2]);
        assert!(parked.try_join_next().is_none(), "the fourth stays parked");
        gate.set(0);
        assert!(!gate.is_open(0), "it acts downwards too");
    }
}
