//! Which session a cursor belongs to. The engine's own `killCursors` knows no cursor of a router, and one that a client
//! forgets would keep documents from being deleted after their chunk has moved: so every read gets a session of ours,
//! and ending that session on the shards ends the cursor.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bson::{Document, Uuid, doc};

/// Sessions that wait for their next read.
const MOST_FREE: usize = 1_000;
/// Cursors that clients hold open; a read that would open one more is closed again at once.
const MOST_OPEN: usize = 100_000;

/// A session of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(Uuid);

impl Session {
    /// As servers name it.
    pub fn lsid(self) -> Document {
        doc! { "id": self.0 }
    }
}

#[derive(Debug)]
struct Open {
    session: Session,
    namespace: String,
    used: Instant,
}

/// A cursor that a client gave up, or that was not used for long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub id: i64,
    pub session: Session,
    pub namespace: String,
}

/// All cursors that clients hold open.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    free: Vec<Session>,
    open: BTreeMap<i64, Open>,
}

impl Cursors {
    /// A session for a read.
    pub fn session(&self) -> Session {
        self.state().free.pop().unwrap_or_else(|| Session(Uuid::new()))
    }

    /// A read has ended, with no cursor left.
    pub fn give_back(&self, session: Session) {
        let mut state = self.state();
        if state.free.len() < MOST_FREE {
            state.free.push(session);
        }
    }

    /// A read has left a cursor. `false`: there are too many, and this one is to be closed.
    pub fn opened(&self, id: i64, session: Session, namespace: String) -> bool {
        let mut state = self.state();
        if state.open.len() >= MOST_OPEN {
            return false;
        }
        state.open.insert(id, Open { session, namespace, used: crate::now() });
        true
    }

    /// The session of a cursor that is read on.
    pub fn used(&self, id: i64) -> Option<Session> {
        let mut state = self.state();
        let open = state.open.get_mut(&id)?;
        open.used = crate::now();
        Some(open.session)
    }

    /// It was read to its end, or is gone.
    pub fn ended(&self, id: i64) {
        let mut state = self.state();
        if let Some(open) = state.open.remove(&id)
            && state.free.len() < MOST_FREE
        {
            state.free.push(open.session);
        }
    }

    /// Takes out a cursor that a client gives up. Its session is not used again: it is ended.
    pub fn close(&self, id: i64) -> Option<Closed> {
        let open = self.state().open.remove(&id)?;
        Some(Closed { id, session: open.session, namespace: open.namespace })
    }

    /// Takes out those that were not used for so long.
    pub fn idle_for(&self, long: Duration) -> Vec<Closed> {
        let mut state = self.state();
        let idle: Vec<_> =
            state.open.iter().filter(|(_, open)| open.used.elapsed() > long).map(|(id, _)| *id).collect();
        let take = |id: i64| {
            let Open { session, namespace, .. } = state.open.remove(&id)?;
            Some(Closed { id, session, namespace })
        };
        idle.into_iter().filter_map(take).collect()
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.state().open.len()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_used_again_unless_its_cursor_was_given_up() {
        let cursors = Cursors::default();
        let first = cursors.session();
        cursors.give_back(first);
        assert_eq!(cursors.session(), first);
        assert!(cursors.opened(7, first, "d.c".into()));
        assert_eq!((cursors.used(7), cursors.used(8), cursors.count()), (Some(first), None, 1));
        let closed = Closed { id: 7, session: first, namespace: "d.c".into() };
        assert_eq!(cursors.close(7), Some(closed));
        assert_eq!((cursors.close(7), cursors.count()), (None, 0));
        assert_ne!(cursors.session(), first);
        cursors.opened(9, first, "d.c".into());
        cursors.ended(9);
        assert_eq!(cursors.session(), first);
    }

    #[test]
    fn what_nobody_reads_on_is_found() {
        let cursors = Cursors::default();
        cursors.opened(1, cursors.session(), "d.c".into());
        assert!(cursors.idle_for(Duration::from_secs(60)).is_empty());
        assert_eq!(cursors.idle_for(Duration::ZERO).len(), 1);
        assert_eq!(cursors.count(), 0);
    }
}
