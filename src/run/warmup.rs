//! The warm-up: driven, not judged. It decides with which second the measured phase begins.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use crate::clock::{Clock, Moment};
use crate::event::{Live, LiveRow};
use crate::scenario::Warmup;

/// An automatic warm-up lasts at most this long ...
const LONGEST: Duration = Duration::from_secs(300);
/// ... and at most this share of the measured phase.
const LARGEST_SHARE: u32 = 3;
/// Steady: the last five seconds differ from the five before by no more than this share.
const STEADY: f64 = 0.05;
const HALF: usize = 5;

/// Waits for the end of the warm-up. The moment is a whole second after the epoch, and a little ahead, so
/// that everybody hears of it in time.
pub async fn run(ctx: &Context, live: &mut watch::Receiver<Live>, epoch: Moment) -> Moment {
    match ctx.scenario.warmup {
        Warmup::Fixed(length) => {
            let seconds = Duration::from_secs(length.as_secs_f64().ceil() as u64);
            // The announcement must reach the recorder before the first measured second.
            ctx.clock.sleep_until((epoch + seconds).saturating_sub(Duration::from_millis(500))).await;
            epoch + seconds
        }
        Warmup::Auto => {
            let longest = LONGEST.min(ctx.scenario.duration / LARGEST_SHARE);
            tokio::select! {
                () = steady(live) => {}
                () = ctx.clock.sleep_until(epoch + longest) => {}
            }
            next_second(ctx.clock, epoch)
        }
    }
}

/// The second after the next whole one.
fn next_second(clock: Clock, epoch: Moment) -> Moment {
    epoch + Duration::from_secs(clock.now().saturating_sub(epoch).as_secs() + 2)
}

/// Returns when throughput has become steady and nothing fails.
async fn steady(live: &mut watch::Receiver<Live>) {
    let mut recent: VecDeque<(u64, u64)> = VecDeque::new();
    while live.changed().await.is_ok() {
        let rows = live.borrow_and_update().rows.clone();
        let sum = |f: &dyn Fn(&LiveRow) -> u64| rows.iter().map(f).sum::<u64>();
        recent.push_back((sum(&|r| r.ok), sum(&|r| r.not_ok)));
        if recent.len() > 2 * HALF {
            recent.pop_front();
        }
        if is_steady(&recent) {
            return;
        }
    }
    // The sampler is gone: somebody else says why.
    std::future::pending::<()>().await;
}

#[expect(clippy::cast_precision_loss, reason = "operations per second")]
fn is_steady(recent: &VecDeque<(u64, u64)>) -> bool {
    let failed: u64 = recent.iter().map(|(_, not_ok)| not_ok).sum();
    let half = |from: usize| recent.iter().skip(from).take(HALF).map(|(ok, _)| *ok).sum::<u64>() as f64;
    let (before, after) = (half(0), half(HALF));
    recent.len() == 2 * HALF && failed == 0 && after > 0.0 && (after - before).abs() <= STEADY * after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_means_ten_seconds_without_errors_and_without_a_trend() {
        let flat: VecDeque<_> = (0..10).map(|i| (1_000 + i % 3, 0)).collect();
        assert!(is_steady(&flat));
        let climbing: VecDeque<_> = (0..10).map(|i| (500 + 50 * i, 0)).collect();
        assert!(!is_steady(&climbing));
        let short: VecDeque<_> = flat.iter().take(9).copied().collect();
        assert!(!is_steady(&short));
        let failing: VecDeque<_> = (0..10).map(|i| (1_000, u64::from(i == 4))).collect();
        assert!(!is_steady(&failing));
        assert!(!is_steady(&(0..10).map(|_| (0, 0)).collect()), "nothing is not steady");
    }
}
