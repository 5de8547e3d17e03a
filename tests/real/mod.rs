//! What the tests with real servers share: a place on disk that cleans up after itself, the program under
//! test as a child process, and eyes for what it leaves behind.

#![allow(dead_code, reason = "no test program uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(missing_docs, reason = "tests are no interface")]

pub mod disks;
pub mod place;
pub mod processes;
pub mod resources;
pub mod run_dir;
pub mod set;
pub mod tester;

use std::time::{Duration, UNIX_EPOCH};

use mongosoak::clock::Clock;

const POLL: Duration = Duration::from_millis(20);

/// What takes a second on a quiet machine may take this long on a loaded one.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until something is seen; panics after `deadline`.
pub async fn wait_for<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(clock.now() < deadline, "not seen within {deadline:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
}

/// Wall clock, in seconds since 1970.
pub fn now_s() -> f64 {
    let clock = Clock::start();
    clock.wall(clock.now()).duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}
