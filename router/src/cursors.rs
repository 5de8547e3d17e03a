//! Which session is behind which open cursor.
//!
//! rtr opens its cursors on the shards, and can neither be told to close one nor closes them itself before ten
//! minutes have gone. So each command that may open a cursor runs under a session of ours, and ending the
//! session on the shards ends the cursor. Sessions are used again when their cursor has ended: at any time there
//! are about as many as there are open cursors.
//!
//! Ages are counted in ticks of the sweeper, so that nothing here reads time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::Uuid;

/// Sessions that are kept to be used again.
const POOL_MAX: usize = 1_000;

/// Sessions that wait to be ended. What does not fit is left to the time-out of the shards.
const CONDEMNED_MAX: usize = 10_000;

/// A cursor is given up when it was idle for more than so many ticks.
pub(crate) const TICKS_MAX: u32 = 4;

/// A session to be ended on the shards, and the cursor that was opened under it, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condemned {
    pub session: Uuid,
    /// Id, database and collection.
    pub cursor: Option<(i64, String, String)>,
}

/// All cursors and sessions of a router.
#[derive(Debug)]
pub(crate) struct Cursors {
    inner: Mutex<Inner>,
    max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<i64, Open>,
    pool: Vec<Uuid>,
    condemned: Vec<Condemned>,
    totals: Totals,
}

#[derive(Debug)]
struct Open {
    session: Uuid,
    database: String,
    collection: String,
    idle_ticks: u32,
    /// A `getMore` is under way: however long it waits, it is not idle.
    busy: u32,
}

/// Numbers for the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub open: u64,
    pub pooled: u64,
    pub opened: u64,
    pub killed: u64,
    pub timed_out: u64,
    /// Ended because there were too many.
    pub evicted: u64,
    /// Sessions that were not ended because too many waited for it.
    pub forgotten: u64,
}

impl Cursors {
    pub fn new(max: usize) -> Self {
        Self { inner: Mutex::default(), max }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session for one command that may open a cursor.
    pub fn lease(&self) -> Lease<'_> {
        let session = self.lock().pool.pop().unwrap_or_default();
        Lease { cursors: self, session, is_settled: false }
    }

    /// The session under which a cursor was opened, for one `getMore`; `None` if it is not known (any more).
    pub fn resume(&self, id: i64) -> Option<Resumed<'_>> {
        let mut inner = self.lock();
        let open = inner.open.get_mut(&id)?;
        open.busy += 1;
        Some(Resumed { cursors: self, id, session: open.session })
    }

    /// Takes cursors out to be ended; the second list holds those that are not known.
    pub fn take(&self, ids: &[i64]) -> (Vec<Condemned>, Vec<i64>) {
        let mut inner = self.lock();
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for id in ids {
            match inner.remove(*id) {
                Some(condemned) => known.push(condemned),
                None => unknown.push(*id),
            }
        }
        inner.totals.killed += known.len() as u64;
        (known, unknown)
    }

    /// Makes all cursors one tick older, and returns what is to be ended now.
    pub fn tick(&self) -> Vec<Condemned> {
        let mut inner = self.lock();
        let mut late = Vec::new();
        for (id, open) in inner.open.iter_mut().filter(|(_, open)| open.busy == 0) {
            open.idle_ticks += 1;
            if open.idle_ticks > TICKS_MAX {
                late.push(*id);
            }
        }
        inner.totals.timed_out += late.len() as u64;
        let late: Vec<_> = late.into_iter().filter_map(|id| inner.remove(id)).collect();
        let mut condemned = std::mem::take(&mut inner.condemned);
        condemned.extend(late);
        condemned
    }

    pub fn totals(&self) -> Totals {
        let inner = self.lock();
        Totals { open: inner.open.len() as u64, pooled: inner.pool.len() as u64, ..inner.totals }
    }
}

impl Inner {
    fn remove(&mut self, id: i64) -> Option<Condemned> {
        let Open { session, database, collection, .. } = self.open.remove(&id)?;
        Some(Condemned { session, cursor: Some((id, database, collection)) })
    }

    fn keep(&mut self, session: Uuid) {
        if self.pool.len() < POOL_MAX {
            self.pool.push(session);
        }
    }

    fn condemn(&mut self, condemned: Condemned) {
        if self.condemned.len() < CONDEMNED_MAX {
            self.condemned.push(condemned);
        } else {
            self.totals.forgotten += 1;
        }
    }

    fn evict_one(&mut self) {
        let idlest = self.open.iter().filter(|(_, open)| open.busy == 0);
        let idlest = idlest.max_by_key(|(_, open)| open.idle_ticks).map(|(id, _)| *id);
        if let Some(condemned) = idlest.and_then(|id| self.remove(id)) {
            self.totals.evicted += 1;
            self.condemn(condemned);
        }
    }
}

/// The right to use a session for one command. Dropped without a word about the outcome, the session is ended
/// on the shards: the command may have opened a cursor that nobody knows of.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    cursors: &'a Cursors,
    pub session: Uuid,
    is_settled: bool,
}

impl Lease<'_> {
    /// The command left no cursor behind.
    pub fn no_cursor(mut self) {
        self.is_settled = true;
        self.cursors.lock().keep(self.session);
    }

    /// The command left this cursor open.
    pub fn opened(mut self, id: i64, database: &str, collection: &str) {
        self.is_settled = true;
        let mut inner = self.cursors.lock();
        if inner.open.len() >= self.cursors.max {
            inner.evict_one();
        }
        inner.totals.opened += 1;
        let (database, collection) = (database.to_owned(), collection.to_owned());
        let open = Open { session: self.session, database, collection, idle_ticks: 0, busy: 0 };
        if let Some(before) = inner.open.insert(id, open) {
            // rtr uses an id again only after the cursor has ended.
            inner.keep(before.session);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cursors.lock().condemn(Condemned { session: self.session, cursor: None });
        }
    }
}

/// A cursor with a `getMore` under way.
#[derive(Debug)]
pub(crate) struct Resumed<'a> {
    cursors: &'a Cursors,
    id: i64,
    pub session: Uuid,
}

impl Resumed<'_> {
    /// The last batch came: the session is free.
    pub fn exhausted(self) {
        let mut inner = self.cursors.lock();
        if inner.remove(self.id).is_some() {
            inner.keep(self.session);
        }
    }

    /// rtr does not know it any more; who knows what the shards do.
    pub fn gone(self) {
        let mut inner = self.cursors.lock();
        if let Some(condemned) = inner.remove(self.id) {
            inner.condemn(condemned);
        }
    }
}

impl Drop for Resumed<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.cursors.lock().open.get_mut(&self.id) {
            open.busy = open.busy.saturating_sub(1);
            open.idle_ticks = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(cursors: &Cursors, id: i64) -> Uuid {
        let lease = cursors.lease();
        let session = lease.session;
        lease.opened(id, "d", "c");
        session
    }

    #[test]
    fn a_session_is_used_again_after_its_cursor_has_ended() {
        let cursors = Cursors::new(10);
        let session = open(&cursors, 5);
        assert_ne!(cursors.lease().session, session);
        cursors.resume(5).unwrap().exhausted();
        assert!(cursors.resume(5).is_none());
        let lease = cursors.lease();
        assert_eq!(lease.session, session);
        lease.no_cursor();
        assert_eq!(cursors.totals().pooled, 1);
    }

    #[test]
    fn an_idle_cursor_is_given_up_and_one_that_is_waited_for_is_not() {
        let cursors = Cursors::new(10);
        let idle = open(&cursors, 1);
        open(&cursors, 2);
        let waiting = cursors.resume(2);
        assert!((0..TICKS_MAX).all(|_| cursors.tick().is_empty()));
        let condemned = Condemned { session: idle, cursor: Some((1, "d".into(), "c".into())) };
        assert_eq!(cursors.tick(), [condemned]);
        drop(waiting);
        assert!((0..TICKS_MAX).all(|_| cursors.tick().is_empty()));
        assert_eq!(cursors.tick().len(), 1);
        let totals = cursors.totals();
        assert_eq!((totals.open, totals.opened, totals.timed_out), (0, 2, 2));
    }

    #[test]
    fn a_command_without_an_outcome_condemns_its_session() {
        let cursors = Cursors::new(10);
        let session = cursors.lease().session;
        assert_eq!(cursors.tick(), [Condemned { session, cursor: None }]);
        assert_eq!(cursors.tick(), []);
        open(&cursors, 7);
        cursors.resume(7).unwrap().gone();
        assert_eq!(cursors.tick().len(), 1);
    }

    #[test]
    fn killed_cursors_are_told_from_unknown_ones() {
        let cursors = Cursors::new(10);
        open(&cursors, 1);
        let (known, unknown) = cursors.take(&[1, 2, 1]);
        assert_eq!((known.len(), unknown), (1, vec![2, 1]));
    }

    #[test]
    fn everything_is_bounded() {
        let cursors = Cursors::new(3);
        (0..100).for_each(|id| {
            open(&cursors, id);
        });
        let totals = cursors.totals();
        assert_eq!((totals.open, totals.evicted), (3, 97));
        let leases: Vec<_> = (0..POOL_MAX + 9).map(|_| cursors.lease()).collect();
        leases.into_iter().for_each(Lease::no_cursor);
        assert_eq!(cursors.totals().pooled, POOL_MAX as u64);
        (0..CONDEMNED_MAX + 9).for_each(|_| drop(cursors.lease()));
        assert_eq!(cursors.tick().len(), CONDEMNED_MAX);
        assert_eq!(cursors.totals().forgotten, 97 + 9);
    }
}
