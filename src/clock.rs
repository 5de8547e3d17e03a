//! The run clock: the only module that reads time.
//!
//! All differences are taken on one monotonic clock; the wall clock is a label, anchored once.

use std::future::poll_fn;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;

/// A moment of the run: time since the clock was made, on the monotonic clock.
pub type Moment = Duration;

/// Monotonic offsets from one origin, with one wall-clock anchor. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    anchor: SystemTime,
}

impl Clock {
    /// A clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads time")]
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now(), anchor: SystemTime::now() }
    }

    /// Time since the origin.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads time")]
    #[must_use]
    pub fn now(&self) -> Moment {
        Instant::now().saturating_duration_since(self.origin)
    }

    /// The wall-clock time that belongs to a moment: anchor plus offset, so it never jumps.
    #[must_use]
    pub fn wall(&self, at: Moment) -> SystemTime {
        self.anchor + at
    }

    /// How far the system's wall clock has moved away from ours since the origin, in seconds
    /// (positive: the system clock is ahead). More than a second means a stepped clock or a
    /// suspended machine.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads time")]
    #[must_use]
    pub fn wall_drift_s(&self) -> f64 {
        let expected = self.wall(self.now());
        match SystemTime::now().duration_since(expected) {
            Ok(ahead) => ahead.as_secs_f64(),
            Err(behind) => -behind.duration().as_secs_f64(),
        }
    }

    /// Sleeps until a moment with the runtime's timer (1 ms granularity). For everything but pacing.
    pub async fn sleep_until(&self, at: Moment) {
        tokio::time::sleep_until((self.origin + at).into()).await;
    }
}

/// A moment as RFC 3339 text in UTC with milliseconds, for logs and file names.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

/// A precise alarm for pacing: a timer of the kernel, good to some ten microseconds where the
/// runtime's own timer rounds up to whole milliseconds. One per worker.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    timer: AsyncFd<Timer>,
}

/// The kernel timer, in the form that the runtime's reactor takes.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// An alarm on this clock.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(clock: Clock) -> std::io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Timer(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        // SAFETY: `Timer` owns its descriptor and always names the same one until it is dropped.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Self { clock, timer: timer.map_err(|e| std::io::Error::other(e.to_string()))? })
    }

    /// Waits until `at`; returns at once when it has passed. Safe to cancel.
    ///
    /// # Errors
    /// When the kernel refuses the timer (never seen).
    pub async fn wait_until(&self, at: Moment) -> std::io::Result<()> {
        loop {
            let now = self.clock.now();
            if at <= now {
                return Ok(());
            }
            let left = TimeSpec::from_duration(at - now);
            self.timer.get_ref().0.set(Expiration::OneShot(left), TimerSetTimeFlags::empty())?;
            let mut ready = self.timer.readable().await?;
            ready.clear_ready();
            // The descriptor is non-blocking and one-shot: re-arming at the next turn resets it.
        }
    }
}

/// The deadlines of one operation after the other, without a timer for each: it stays armed for the
/// deadline of an earlier one, and only when that passes it is set to the current one. One per worker.
#[derive(Debug)]
pub struct Deadline {
    clock: Clock,
    /// Made when first needed, because only then there surely is a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
    armed: Moment,
}

impl Deadline {
    /// Deadlines on this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, sleep: None, armed: Moment::ZERO }
    }

    /// Works until a moment; `None`: it had passed, and the work was dropped. Good to some milliseconds.
    pub async fn bound<T>(&mut self, at: Moment, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_passed(at, context).map(|()| None),
        })
        .await
    }

    fn poll_passed(&mut self, at: Moment, context: &mut Context<'_>) -> Poll<()> {
        let Self { clock, sleep, armed } = self;
        let sleep = sleep.get_or_insert_with(|| {
            *armed = at;
            Box::pin(tokio::time::sleep_until((clock.origin + at).into()))
        });
        loop {
            if *armed > at {
                *armed = at;
                sleep.as_mut().reset((clock.origin + at).into());
            }
            ready!(sleep.as_mut().poll(context));
            if clock.now() >= at {
                return Poll::Ready(());
            }
            *armed = Moment::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_is_never_early_and_can_be_used_again() {
        let clock = Clock::start();
        let alarm = Alarm::new(clock).unwrap();
        for step in 1..=5u64 {
            let at = Duration::from_micros(1_500 * step);
            alarm.wait_until(at).await.unwrap();
            assert!(clock.now() >= at);
        }
        alarm.wait_until(Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn a_deadline_is_never_early_and_never_forgotten() {
        let clock = Clock::start();
        let mut deadline = Deadline::new(clock);
        // Later and earlier ones in turn, with work between them that is done in time.
        for step_ms in [30, 10, 40, 5] {
            let at = clock.now() + Duration::from_millis(step_ms);
            let soon = clock.now() + Duration::from_millis(2);
            let done = deadline.bound(at + Duration::from_secs(60), clock.sleep_until(soon)).await;
            assert_eq!(done, Some(()));
            assert_eq!(deadline.bound(at, std::future::pending::<()>()).await, None);
            assert!(clock.now() >= at && clock.now() < at + Duration::from_secs(20));
        }
        assert_eq!(deadline.bound(Duration::ZERO, std::future::ready(7)).await, Some(7));
    }

    #[test]
    fn wall_time_is_the_anchor_plus_the_offset() {
        let clock = Clock::start();
        let a = clock.wall(Duration::from_secs(1));
        let b = clock.wall(Duration::from_secs(3));
        assert_eq!(b.duration_since(a).unwrap(), Duration::from_secs(2));
        assert!(clock.wall_drift_s().abs() < 1.0);
    }
}
