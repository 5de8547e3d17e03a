//! How service came back: first failure, first success, and sustained recovery.
//!
//! Sustained recovery is the earliest second t, at or after the effect, from which on normal operation
//! holds for the whole hold time. Two conditions must be met:
//!
//! * every 5 s mean that lies fully inside [t, t + hold) is normal, sliding by 1 s: means, because a
//!   single second of a healthy database may be slow;
//! * the second t itself has reached the throughput: otherwise a steep rise would count up to two
//!   seconds too early, pulled up by the better half of its first mean.
//!
//! What was not reached is *censored*: a lower bound with a reason, never a zero.

use std::ops::Range;

use super::baseline::ERROR_SHARE;
use super::outage;
use super::window::{Window, second_of};
use crate::recording::{Second, WorkloadRecording};
use crate::report::data::{Baseline, Recovery};
use crate::scenario::Measures;

/// Length of the means, in seconds; also that of `Second::p99_5s_us`.
const MEAN: usize = 5;
/// The hold shrinks to this share of the time that is left, between these bounds in seconds.
const HOLD_SHARE: f64 = 1.0 / 3.0;
const HOLD_S: Range<f64> = 10.0..60.0;
/// A gap that ends this close to the end of the window ended with it, not with a success: recorded
/// times are rounded to the millisecond.
const OPEN_S: f64 = 0.002;

/// What normal operation is, for one fault and workload.
struct Normal<'a> {
    rows: &'a [Second],
    throughput: f64,
    p99_us: Option<f64>,
    error_share: f64,
}

/// Which conditions a search asks for.
#[derive(Clone, Copy)]
enum Ask {
    All,
    Throughput,
    Latency,
}

/// Result of a search: where the hold was met, or up to where it surely had not begun.
enum Found {
    At(usize),
    NotBefore(usize),
}

/// Measures the recovery of one workload from one fault. `baseline` is `Err` with the reason where
/// there is none. Formulas: `docs/measures.md`, "Recovery".
#[must_use]
pub fn measure(
    work: &WorkloadRecording,
    window: &Window,
    baseline: Result<&Baseline, &str>,
    measures: &Measures,
) -> Recovery {
    let plain = felt(work, window);
    match baseline {
        Ok(baseline) => sustained(work, window, baseline, measures, plain),
        Err(why) => Recovery { reason: Some(format!("no baseline: {why}")), ..plain },
    }
}

/// What the operations felt: first failure and first success, and nothing else.
#[must_use]
pub fn felt(work: &WorkloadRecording, window: &Window) -> Recovery {
    let since = |at_s: f64| at_s - window.effective_s;
    Recovery {
        first_failure_s: outage::first_failure(work, window).map(since),
        first_success_s: first_success(work, window).map(since),
        ..Recovery::default()
    }
}

/// End of the longest gap; `None` when there was none, or when it was still open at the end.
fn first_success(work: &WorkloadRecording, window: &Window) -> Option<f64> {
    let gap = outage::longest_gap(work, window)?;
    (gap.to_s < window.end_s - OPEN_S).then_some(gap.to_s)
}

fn sustained(
    work: &WorkloadRecording,
    window: &Window,
    baseline: &Baseline,
    measures: &Measures,
    plain: Recovery,
) -> Recovery {
    let hold = hold(window, measures);
    let normal = Normal::of(work, window, baseline, measures);
    // A fault may take effect in the last, broken second of its window.
    let start = second_of(window.effective_s).min(normal.rows.len());
    let since = |second: usize| (second as f64 - window.effective_s).max(0.0);
    let reached = |ask: Ask| match normal.search(start, hold, ask) {
        Found::At(second) => Some(since(second)),
        Found::NotBefore(_) => None,
    };
    let found = normal.search(start, hold, Ask::All);
    let sustained_s = reached(Ask::All);
    Recovery {
        sustained_s,
        from_lift_s: sustained_s.zip(window.lifted_s).map(|(s, lifted)| window.effective_s + s - lifted),
        throughput_s: reached(Ask::Throughput),
        latency_s: normal.p99_us.and_then(|_| reached(Ask::Latency)),
        declared_s: sustained_s.map(|s| s + hold as f64),
        hold_s: Some(hold as f64),
        censored: sustained_s.is_none(),
        censored_after_s: sustained_s.is_none().then(|| (window.end_s - window.effective_s).max(0.0)),
        not_before_s: match found {
            Found::At(_) => None,
            Found::NotBefore(second) => Some(since(second)),
        },
        reason: sustained_s.is_none().then(|| window.ended_by.words().into()),
        ..plain
    }
}

/// How long recovery must hold, in whole seconds: what the scenario says (at least one mean), else a
/// third of the time left, 10 to 60 s.
fn hold(window: &Window, measures: &Measures) -> usize {
    match measures.sustained_for {
        Some(asked) => (asked.as_secs_f64().ceil() as usize).max(MEAN),
        None => {
            let left = window.end_s - window.effective_s;
            (left * HOLD_SHARE).clamp(HOLD_S.start, HOLD_S.end) as usize
        }
    }
}

/// Operations that `seconds` seconds must hold at this rate: a whole number, rounded down, so that a
/// workload of one operation a second is not asked for 4.75 in five.
#[must_use]
pub fn enough(ops_s: f64, seconds: usize) -> u64 {
    (ops_s * seconds as f64 + 1e-9) as u64
}

impl<'a> Normal<'a> {
    fn of(work: &'a WorkloadRecording, window: &Window, baseline: &Baseline, measures: &Measures) -> Self {
        let rows = &work.seconds[..window.seconds().end.min(work.seconds.len())];
        let slack_us = measures.sustained_p99_slack.as_secs_f64() * 1e6;
        Self {
            rows,
            throughput: measures.sustained_throughput * baseline.throughput_ops_s,
            p99_us: baseline.p99_us.map(|us| measures.sustained_p99_factor * us as f64 + slack_us),
            error_share: baseline.error_share.max(ERROR_SHARE),
        }
    }

    /// The earliest second from `start` on from which the hold is met. Linear: a mean that is not
    /// normal rules out every second up to its own start.
    fn search(&self, start: usize, hold: usize, ask: Ask) -> Found {
        let end = self.rows.len();
        let mut t = start;
        while t < end {
            if !self.second(t, ask) {
                t += 1;
                continue;
            }
            let means = t..(t + hold).min(end).saturating_sub(MEAN - 1);
            match means.rev().find(|i| !self.mean(*i, ask)) {
                Some(bad) => t = bad + 1,
                None if t + hold <= end => return Found::At(t),
                None => return Found::NotBefore(t),
            }
        }
        Found::NotBefore(end)
    }

    /// Whether recovery may begin with this second.
    fn second(&self, at: usize, ask: Ask) -> bool {
        match ask {
            Ask::All | Ask::Throughput => self.rows[at].ok >= enough(self.throughput, 1),
            Ask::Latency => true,
        }
    }

    /// Whether the five seconds from this one on were normal.
    fn mean(&self, from: usize, ask: Ask) -> bool {
        let rows = &self.rows[from..from + MEAN];
        match ask {
            Ask::Throughput => self.throughput_back(rows),
            Ask::Latency => self.latency_back(rows),
            Ask::All => self.throughput_back(rows) && self.latency_back(rows) && self.errors_back(rows),
        }
    }

    fn throughput_back(&self, rows: &[Second]) -> bool {
        rows.iter().map(|s| s.ok).sum::<u64>() >= enough(self.throughput, MEAN)
    }

    fn latency_back(&self, rows: &[Second]) -> bool {
        let Some(most) = self.p99_us else { return true };
        match rows[MEAN - 1].p99_5s_us {
            Some(us) => us as f64 <= most,
            // Nothing at all in five seconds: normal only where so little is expected.
            None => enough(self.throughput, MEAN) == 0,
        }
    }

    fn errors_back(&self, rows: &[Second]) -> bool {
        let bad: u64 = rows.iter().map(|s| s.failed + s.unknown).sum();
        let all: u64 = bad + rows.iter().map(|s| s.ok).sum::<u64>();
        bad as f64 <= self.error_share * all as f64
    }
}

#[cfg(test)]
mod tests;
