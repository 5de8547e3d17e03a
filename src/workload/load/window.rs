//! Which keys are written next, and up to where everything is written: consecutive chunks, handed out to several
//! writers, within a window of bounded length.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Keys between the first that is not written yet and the last that may be handed out. It bounds our memory of
/// what was finished out of order, and what a later load has to look at again.
const WINDOW_KEYS: u64 = 64_000;

/// The keys of one pass over the collection.
#[derive(Debug)]
pub struct Window {
    end: u64,
    chunk_keys: u64,
    places: Mutex<Places>,
    moved: Notify,
}

#[derive(Debug)]
struct Places {
    next: u64,
    written_to: u64,
    /// Start and end of chunks that were finished before one in front of them.
    ahead: BTreeMap<u64, u64>,
}

impl Window {
    /// The keys of `keys`, in chunks of at most `chunk_keys`.
    pub fn new(keys: Range<u64>, chunk_keys: u64) -> Self {
        let places = Places { next: keys.start, written_to: keys.start, ahead: BTreeMap::new() };
        Self {
            end: keys.end,
            chunk_keys: chunk_keys.max(1),
            places: Mutex::new(places),
            moved: Notify::new(),
        }
    }

    /// The next chunk, once the window has room for it; `None`: all were handed out.
    pub async fn claim(&self) -> Option<Range<u64>> {
        loop {
            // Before the look, so that a move in between is not missed.
            let moved = self.moved.notified();
            {
                let mut places = self.lock();
                if places.next >= self.end {
                    return None;
                }
                if places.next - places.written_to < WINDOW_KEYS {
                    let from = places.next;
                    places.next = self.end.min(from + self.chunk_keys);
                    return Some(from..places.next);
                }
            }
            moved.await;
        }
    }

    /// A chunk is written.
    pub fn finish(&self, chunk: Range<u64>) {
        let mut places = self.lock();
        places.ahead.insert(chunk.start, chunk.end);
        while let Some(end) = {
            let at = places.written_to;
            places.ahead.remove(&at)
        } {
            places.written_to = end;
        }
        drop(places);
        self.moved.notify_waiters();
    }

    /// Every key below is written.
    pub fn written_to(&self) -> u64 {
        self.lock().written_to
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    proptest! {
        #[test]
        fn each_key_is_handed_out_once_and_the_edge_never_passes_one_that_is_not_written(
            from in 0_u64..5_000, keys in 0_u64..5_000, chunk in 1_u64..700, order: Vec<prop::sample::Index>,
        ) {
            let window = Window::new(from..from + keys, chunk);
            let (mut open, mut expected) = (Vec::new(), from);
            for pick in order {
                if let Some(Some(claimed)) = now(window.claim()) {
                    prop_assert_eq!(claimed.start, expected);
                    expected = claimed.end;
                    open.push(claimed);
                }
                if pick.index(2) == 0 && !open.is_empty() {
                    window.finish(open.swap_remove(pick.index(open.len())));
                }
                let lowest_open = open.iter().map(|c| c.start).min().unwrap_or(expected);
                prop_assert_eq!(window.written_to(), lowest_open);
            }
            while let Some(Some(claimed)) = now(window.claim()) {
                expected = claimed.end;
                open.push(claimed);
            }
            open.into_iter().for_each(|chunk| window.finish(chunk));
            prop_assert_eq!((expected, window.written_to()), (from + keys, from + keys));
        }
    }

    #[tokio::test]
    async fn a_chunk_that_is_stuck_holds_the_others_back_and_then_lets_them_go() {
        let window = Window::new(0..10 * WINDOW_KEYS, 1_000);
        let first = window.claim().await.unwrap();
        while let Some(Some(claimed)) = now(window.claim()) {
            window.finish(claimed);
        }
        assert_eq!(window.written_to(), 0);
        assert!(window.lock().ahead.len() as u64 * 1_000 < WINDOW_KEYS, "bounded");
        let waiting = window.claim();
        window.finish(first);
        assert_eq!(waiting.await, Some(WINDOW_KEYS..WINDOW_KEYS + 1_000));
        assert_eq!(window.written_to(), WINDOW_KEYS);
    }
}
