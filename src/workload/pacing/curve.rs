//! A rate over time and its two questions: how many arrivals until then, and when is the next one. Pure.
//!
//! Both work on the integral of the rate in closed form, never by adding up intervals: nothing drifts,
//! however long, and arrival k does not depend on who asked for the ones before it.

use std::f64::consts::TAU;
use std::sync::Arc;

use crate::scenario::Schedule;

/// Newton's method doubles its digits with each step; halving alone would need some 60.
const MOST_STEPS: u32 = 100;
/// A tenth of a nanosecond.
const CLOSE_S: f64 = 1e-10;

/// Operations per second as a function of the seconds since the curve's own start.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// The same at all times; 0 pauses.
    Constant(f64),
    /// Straight lines.
    Lines(Lines),
    /// mean + amplitude * sin(2 pi t / period): starts at the mean and rises.
    Sine {
        /// Above zero, and no less than the amplitude.
        mean: f64,
        /// Zero or more.
        amplitude: f64,
        /// In seconds, above zero.
        period: f64,
    },
}

/// Straight lines, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// By their starts, the first at 0. Never empty.
    lines: Arc<[Line]>,
    after: After,
}

/// What follows the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The rate at its end.
    Hold,
    /// The first line again.
    Repeat,
}

/// A stretch in which the rate changes evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    start: f64,
    length: f64,
    from: f64,
    to: f64,
    /// Integral of all lines before it.
    before: f64,
}

impl Line {
    fn count(&self, seconds: f64) -> f64 {
        let slope = (self.to - self.from) / self.length;
        seconds * (self.from + slope * seconds / 2.0)
    }

    fn total(&self) -> f64 {
        self.length * f64::midpoint(self.from, self.to)
    }

    fn end(&self) -> f64 {
        self.start + self.length
    }

    /// Inverse of `count`, in the form that does not cancel where the slope is small.
    fn time_of(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.length;
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        let below = self.from + root;
        if below > 0.0 { (2.0 * count / below).min(self.length) } else { self.length }
    }
}

impl Curve {
    /// The curve of a schedule, from its start.
    #[must_use]
    pub fn of(schedule: &Schedule) -> Self {
        match schedule {
            Schedule::Ramp { from, to, over } => Self::lines([(over.as_secs_f64(), *from, *to)], After::Hold),
            Schedule::Steps { rates, each } => {
                Self::lines(rates.iter().map(|rate| (each.as_secs_f64(), *rate, *rate)), After::Hold)
            }
            Schedule::Sine { mean, amplitude, period } => {
                Self::Sine { mean: *mean, amplitude: *amplitude, period: period.as_secs_f64() }
            }
            Schedule::Profile(profile) => {
                let pairs = profile.points.windows(2);
                let lines = pairs.map(|pair| (pair[1].0 - pair[0].0, pair[0].1, pair[1].1));
                Self::lines(lines, After::Repeat)
            }
        }
    }

    fn lines(parts: impl IntoIterator<Item = (f64, f64, f64)>, after: After) -> Self {
        Self::Lines(Lines::new(parts, after))
    }

    /// Integral of the rate over the first `seconds`.
    #[must_use]
    pub fn count(&self, seconds: f64) -> f64 {
        match self {
            Self::Constant(rate) => rate * seconds,
            Self::Lines(lines) => lines.count(seconds),
            Self::Sine { mean, amplitude, period } => {
                mean * seconds + amplitude * period / TAU * (1.0 - (TAU * seconds / period).cos())
            }
        }
    }

    /// The earliest second at which the integral reaches `count`; `None`: never.
    #[must_use]
    pub fn time_of(&self, count: f64) -> Option<f64> {
        if count <= 0.0 {
            return Some(0.0);
        }
        match self {
            Self::Constant(rate) => (*rate > 0.0).then(|| count / rate),
            Self::Lines(lines) => lines.time_of(count),
            Self::Sine { mean, period, .. } => {
                let rounds = (count / (mean * period)).floor();
                Some(rounds * period + self.solve(count - rounds * mean * period, *mean, *period))
            }
        }
    }

    /// Operations per second at that second.
    #[must_use]
    pub fn rate(&self, seconds: f64) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Lines(lines) => lines.rate(seconds),
            Self::Sine { mean, amplitude, period } => mean + amplitude * (TAU * seconds / period).sin(),
        }
    }

    /// Inverse of `count` within one period: Newton's steps, halving where one would leave the bracket.
    fn solve(&self, count: f64, mean: f64, period: f64) -> f64 {
        let (mut low, mut high) = (0.0, period);
        let mut at = (count / mean).clamp(low, high);
        for _ in 0..MOST_STEPS {
            let error = self.count(at) - count;
            *(if error > 0.0 { &mut high } else { &mut low }) = at;
            let newton = at - error / self.rate(at);
            let next = if newton > low && newton < high { newton } else { f64::midpoint(low, high) };
            let step = (next - at).abs();
            at = next;
            if step < CLOSE_S {
                break;
            }
        }
        at
    }
}

impl Lines {
    /// Of (seconds, rate at the start, rate at the end), one after the other.
    fn new(parts: impl IntoIterator<Item = (f64, f64, f64)>, after: After) -> Self {
        let (mut start, mut before) = (0.0, 0.0);
        let line = |(length, from, to)| {
            let line = Line { start, length, from, to, before };
            start = line.end();
            before += line.total();
            line
        };
        Self { lines: parts.into_iter().map(line).collect(), after }
    }

    /// Length and integral of one round.
    fn round(&self) -> (f64, f64) {
        self.lines.last().map_or((0.0, 0.0), |last| (last.end(), last.before + last.total()))
    }

    /// Whole rounds before `value`, where one takes `round`, and the rest.
    fn rounds(&self, value: f64, round: f64) -> (f64, f64) {
        match self.after {
            After::Hold => (0.0, value),
            After::Repeat => {
                let rounds = (value / round).floor();
                (rounds, (value - rounds * round).max(0.0))
            }
        }
    }

    fn line_at(&self, seconds: f64) -> &Line {
        &self.lines[self.lines.partition_point(|line| line.start <= seconds).saturating_sub(1)]
    }

    fn count(&self, seconds: f64) -> f64 {
        let (length, total) = self.round();
        let (rounds, rest) = self.rounds(seconds, length);
        let line = self.line_at(rest);
        let over = (rest - line.end()).max(0.0);
        rounds * total + line.before + line.count((rest - line.start).min(line.length)) + over * line.to
    }

    fn time_of(&self, count: f64) -> Option<f64> {
        let (length, total) = self.round();
        let (rounds, rest) = self.rounds(count, total);
        let line = &self.lines[self.lines.partition_point(|line| line.before < rest).saturating_sub(1)];
        let over = rest - line.before - line.total();
        let within = match self.after {
            After::Hold if over > 0.0 => (line.to > 0.0).then(|| line.end() + over / line.to)?,
            _ => line.start + line.time_of(rest - line.before),
        };
        Some(rounds * length + within)
    }

    fn rate(&self, seconds: f64) -> f64 {
        let (_, rest) = self.rounds(seconds, self.round().0);
        let line = self.line_at(rest);
        let share = ((rest - line.start) / line.length).min(1.0);
        line.from + (line.to - line.from) * share
    }
}

#[cfg(test)]
mod tests;
