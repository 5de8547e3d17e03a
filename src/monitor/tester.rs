//! The tester watches itself: processor time, memory, and whether it stood still.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Events};

const EVERY: Duration = Duration::from_millis(250);
/// A pause of this length distorts what is measured in its second.
const WORTH_REPORTING: Duration = Duration::from_secs(1);

/// What the process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory, in bytes.
    pub rss_max_bytes: u64,
}

/// What this process has used so far.
#[must_use]
pub fn usage() -> Usage {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Usage::default();
    };
    #[expect(clippy::cast_precision_loss, reason = "microseconds of processor time")]
    let cpu_s = (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6;
    // Linux counts it in KiB.
    let rss_max_bytes = u64::try_from(usage.max_rss()).unwrap_or_default() * 1024;
    Usage { cpu_s, rss_max_bytes }
}

/// Reports when the tester itself stood still, until `stop`.
pub async fn tester(events: Events, stop: CancellationToken) {
    let mut last = events.clock().now();
    while !stop.is_cancelled() {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => {}
        }
        let now = events.clock().now();
        let paused = now.saturating_sub(last + EVERY);
        if paused >= WORTH_REPORTING {
            events.send_at(last + EVERY, Event::OwnPause { seconds: paused.as_secs_f64() }).await;
        }
        last = now;
    }
}
