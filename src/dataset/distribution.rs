//! Which document an operation picks.

use rand::Rng;

use super::permutation::Permutation;
use super::random::unit;
use super::sequence::Sequence;
use super::zipf::Zipf;
use crate::scenario::Distribution;

/// Draws keys from `[0, n)`. Small, cheap to copy and to resize; the random numbers come from the
/// caller, so each worker keeps its own stream.
///
/// Two kinds of skew. Zipfian and hotspot are about *keys*: a rank is drawn, and ranks are scattered
/// over all keys with a fixed bijection (unless asked not to), so every key can be drawn, no two ranks
/// share a key, and the hot keys are no neighbours. Latest and exponential are about *age*: the key
/// `n - 1` is the newest and the hottest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chooser {
    n: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Uniform,
    Zipfian(Zipf, Option<Permutation>),
    Latest(Zipf),
    Hotspot {
        keys: f64,
        operations: f64,
        scatter: Option<Permutation>,
    },
    /// Mean age is `n * mean`.
    Exponential {
        mean: f64,
    },
    Sequential,
}

/// Why no key can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ChooserError {
    /// n is 0.
    #[error("there is no key to choose from")]
    NoKeys,
    /// The exponent is negative, infinite or not a number.
    #[error("the exponent of a zipfian distribution must be a finite number from 0 on, not {0}")]
    Exponent(f64),
    /// A share or percentage is outside its range or not a number.
    #[error("{0} of the operations on {1} of the keys is no distribution")]
    Share(f64, f64),
}

impl Chooser {
    /// A chooser over n keys, in constant time for any n (skewed choices are exact up to n = 2^53).
    ///
    /// # Errors
    /// When n is 0, or a parameter is out of range or not finite.
    pub fn new(distribution: Distribution, n: u64) -> Result<Self, ChooserError> {
        if n == 0 {
            return Err(ChooserError::NoKeys);
        }
        let scatter = |scrambled: bool| scrambled.then(|| Permutation::new(n));
        let kind = match distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Sequential => Kind::Sequential,
            Distribution::Zipfian { exponent, scrambled } => {
                Kind::Zipfian(zipf(exponent, n)?, scatter(scrambled))
            }
            Distribution::Latest { exponent } => Kind::Latest(zipf(exponent, n)?),
            Distribution::Hotspot { keys, operations, scrambled } => {
                if !is_share(keys) || !(0.0..=1.0).contains(&operations) {
                    return Err(ChooserError::Share(operations, keys));
                }
                Kind::Hotspot { keys, operations, scatter: scatter(scrambled) }
            }
            Distribution::Exponential { percentile, keys } => {
                let outside = 1.0 - percentile / 100.0;
                if !is_share(keys) || !is_share(outside) || outside == 1.0 {
                    return Err(ChooserError::Share(percentile / 100.0, keys));
                }
                Kind::Exponential { mean: keys / -outside.ln() }
            }
        };
        Ok(Self { n, kind })
    }

    /// The number of keys.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Goes on with another number of keys. Constant time: it may be called before every draw.
    ///
    /// # Errors
    /// When n is 0; nothing is changed then.
    pub fn resize(&mut self, n: u64) -> Result<(), ChooserError> {
        if n == 0 {
            return Err(ChooserError::NoKeys);
        }
        if n != self.n {
            self.n = n;
            let scattered = match &mut self.kind {
                Kind::Uniform | Kind::Exponential { .. } | Kind::Sequential => &mut None,
                Kind::Latest(zipf) => {
                    zipf.resize(n);
                    &mut None
                }
                Kind::Zipfian(zipf, scatter) => {
                    zipf.resize(n);
                    scatter
                }
                Kind::Hotspot { scatter, .. } => scatter,
            };
            if let Some(permutation) = scattered {
                *permutation = Permutation::new(n);
            }
        }
        Ok(())
    }

    /// Takes notice that there are `keys` keys now (none: nothing changes). Where the newest keys are the
    /// hot ones, or all are alike, at once; where the hot keys are scattered, in doublings, so that hot
    /// keys stay hot for a while.
    pub fn follow(&mut self, keys: u64) {
        let scattered =
            matches!(self.kind, Kind::Zipfian(_, Some(_)) | Kind::Hotspot { scatter: Some(_), .. });
        if keys > self.n && (!scattered || keys / 2 >= self.n) && self.resize(keys).is_err() {
            debug_assert!(false, "more keys than some are some");
        }
    }

    /// The next key, below n. `sequence` is shared by all who walk the keys together; only a sequential
    /// choice takes from it.
    pub fn choose(&self, sequence: &Sequence, rng: &mut (impl Rng + ?Sized)) -> u64 {
        let place = |rank: u64, scatter: &Option<Permutation>| match scatter {
            Some(permutation) => permutation.place(rank),
            None => rank,
        };
        match &self.kind {
            Kind::Uniform => below(self.n, rng),
            Kind::Zipfian(zipf, scatter) => place(zipf.rank(rng) - 1, scatter),
            Kind::Latest(zipf) => self.n - zipf.rank(rng),
            Kind::Hotspot { keys, operations, scatter } => {
                place(hot_or_cold(self.n, *keys, *operations, rng), scatter)
            }
            Kind::Exponential { mean } => self.n - 1 - self.age(*mean, rng),
            Kind::Sequential => sequence.next(self.n),
        }
    }

    /// The age of a key, exponentially distributed and below n: the inverse of the distribution that is
    /// cut off at n, so nothing is drawn in vain.
    fn age(&self, mean: f64, rng: &mut (impl Rng + ?Sized)) -> u64 {
        let n = self.n as f64;
        let within = -(-1.0 / mean).exp_m1();
        let age = -(-unit(rng.next_u64()) * within).ln_1p() * mean * n;
        // Rounding only.
        (age as u64).min(self.n - 1)
    }
}

fn zipf(exponent: f64, n: u64) -> Result<Zipf, ChooserError> {
    if !exponent.is_finite() || exponent < 0.0 {
        return Err(ChooserError::Exponent(exponent));
    }
    Ok(Zipf::new(exponent, n))
}

/// Above 0, up to 1.
fn is_share(share: f64) -> bool {
    0.0 < share && share <= 1.0
}

/// The lowest keys are the hot ones; there is always one.
fn hot_or_cold(n: u64, keys: f64, operations: f64, rng: &mut (impl Rng + ?Sized)) -> u64 {
    let hot = ((n as f64 * keys) as u64).clamp(1, n);
    if hot == n || unit(rng.next_u64()) < operations { below(hot, rng) } else { hot + below(n - hot, rng) }
}

/// Evenly in `[0, n)` without bias: D. Lemire, "Fast random integer generation in an interval",
/// ACM TOMACS 29(1), 2019. Written out because libraries change their method between versions, and
/// a run must be repeatable from its seed.
fn below(n: u64, rng: &mut (impl Rng + ?Sized)) -> u64 {
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(n);
        let low = product as u64;
        if low >= n || low >= n.wrapping_neg() % n {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests;
