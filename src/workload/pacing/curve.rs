//! A rate over time and its two questions: how many arrivals until then, and when is the next one. Pure.
//!
//! Both work on the integral of the rate, never by adding up intervals: nothing drifts, however long.

/// Operations per second as a function of the seconds since the curve's own start.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// The same at all times; 0 pauses.
    Constant(f64),
}

impl Curve {
    /// Integral of the rate over the first `seconds`.
    #[must_use]
    pub fn count(&self, seconds: f64) -> f64 {
        match self {
            Self::Constant(rate) => rate * seconds,
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
        }
    }
}
