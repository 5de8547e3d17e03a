//! Which document an operation picks.

use rand::Rng;

use super::permutation::Permutation;
use super::zipf::Zipf;
use crate::scenario::Distribution;

/// Draws keys from `[0, n)`. Small, cheap to copy and to resize; the random numbers come from the
/// caller, so each worker keeps its own stream.
///
/// A skewed choice draws a rank by Zipf's law and scatters the ranks over all keys with a fixed
/// bijection: every key can be drawn, no two ranks share a key, and the hot keys are no neighbours.
/// While n grows, hot keys stay hot but for those moments when n passes a power of four.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chooser {
    n: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Uniform,
    Zipfian(Zipf, Permutation),
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
}

impl Chooser {
    /// A chooser over n keys, in constant time for any n (skewed choices are exact up to n = 2^53).
    ///
    /// # Errors
    /// When n is 0, or the exponent is negative or not finite.
    pub fn new(distribution: Distribution, n: u64) -> Result<Self, ChooserError> {
        if n == 0 {
            return Err(ChooserError::NoKeys);
        }
        let kind = match distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Zipfian(exponent) if !exponent.is_finite() || exponent < 0.0 => {
                return Err(ChooserError::Exponent(exponent));
            }
            Distribution::Zipfian(exponent) => Kind::Zipfian(Zipf::new(exponent, n), Permutation::new(n)),
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
            if let Kind::Zipfian(zipf, permutation) = &mut self.kind {
                zipf.resize(n);
                *permutation = Permutation::new(n);
            }
        }
        Ok(())
    }

    /// The next key, below n.
    pub fn choose(&self, rng: &mut (impl Rng + ?Sized)) -> u64 {
        match &self.kind {
            Kind::Uniform => below(self.n, rng),
            Kind::Zipfian(zipf, permutation) => permutation.place(zipf.rank(rng) - 1),
        }
    }
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
mod tests {
    use std::collections::HashMap;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::clock::Clock;

    const DRAWS: u32 = 1_000_000;

    /// Shares of the most frequent keys, the hottest first.
    fn shares(exponent: f64, n: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let chooser = Chooser::new(Distribution::Zipfian(exponent), n).unwrap();
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for _ in 0..DRAWS {
            let key = chooser.choose(&mut rng);
            assert!(key < n);
            *counts.entry(key).or_default() += 1;
        }
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    fn assert_near(share: f64, expected: f64) {
        assert!((share / expected - 1.0).abs() < 0.05, "{share} instead of {expected}");
    }

    #[test]
    fn the_hottest_keys_of_a_thousand_get_their_share() {
        let shares = shares(0.99, 1_000);
        assert_near(shares[0], 0.129);
        assert_near(shares[..10].iter().sum(), 0.38);
    }

    #[test]
    fn the_hottest_key_of_a_hundred_thousand_gets_its_share() {
        assert_near(shares(0.99, 100_000)[0], 0.078);
    }

    #[test]
    fn the_hottest_key_of_a_million_gets_its_share() {
        assert_near(shares(0.99, 1_000_000)[0], 0.065);
    }

    #[test]
    fn ten_billion_keys_are_ready_at_once_for_any_exponent() {
        let clock = Clock::start();
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let chooser = Chooser::new(Distribution::Zipfian(exponent), 10_000_000_000).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(4);
            let keys: Vec<u64> = (0..1_000).map(|_| chooser.choose(&mut rng)).collect();
            assert!(keys.iter().all(|key| *key < 10_000_000_000));
            assert!(keys.iter().any(|key| *key > u64::from(u32::MAX)), "exponent {exponent}");
        }
        assert!(clock.now().as_secs_f64() < 1.0);
        // 1 / (ln n + 0.5772), the partial sum of the harmonic series.
        assert_near(shares(1.0, 10_000_000_000)[0], 1.0 / (1e10_f64.ln() + 0.5772));
    }

    #[test]
    fn uniform_draws_are_even() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let chooser = Chooser::new(Distribution::Uniform, 100).unwrap();
        let mut counts = [0_u32; 100];
        for _ in 0..DRAWS {
            counts[chooser.choose(&mut rng) as usize] += 1;
        }
        let expected = f64::from(DRAWS) / 100.0;
        let chi_square: f64 = counts.iter().map(|c| (f64::from(*c) - expected).powi(2) / expected).sum();
        // Both ends: one in a thousand is above 148.2, one in a thousand below 61.1.
        assert!((61.1..148.2).contains(&chi_square), "{chi_square}");
    }

    #[test]
    fn one_key_is_always_that_key_and_all_64_bits_can_be_drawn() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for distribution in [Distribution::Uniform, Distribution::Zipfian(0.99)] {
            let mut chooser = Chooser::new(distribution, 1).unwrap();
            assert_eq!(chooser.choose(&mut rng), 0);
            chooser.resize(u64::MAX).unwrap();
            assert!((0..100).any(|_| chooser.choose(&mut rng) > 1 << 62));
        }
    }

    #[test]
    fn senseless_requests_are_refused() {
        for exponent in [-0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = Chooser::new(Distribution::Zipfian(exponent), 10);
            assert!(matches!(refused, Err(ChooserError::Exponent(_))), "{exponent}");
        }
        assert_eq!(Chooser::new(Distribution::Uniform, 0), Err(ChooserError::NoKeys));
        let mut chooser = Chooser::new(Distribution::Uniform, 10).unwrap();
        assert_eq!(chooser.resize(0), Err(ChooserError::NoKeys));
        assert_eq!(chooser.n(), 10);
    }

    #[test]
    fn growth_reaches_the_new_keys_and_equals_a_new_start() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian(1.0)] {
            let mut chooser = Chooser::new(distribution, 10).unwrap();
            chooser.resize(1_000).unwrap();
            assert_eq!(chooser, Chooser::new(distribution, 1_000).unwrap());
            let mut rng = ChaCha8Rng::seed_from_u64(7);
            assert!((0..1_000).any(|_| chooser.choose(&mut rng) >= 10));
        }
    }

    #[test]
    fn draws_are_repeatable() {
        let draw = |distribution| {
            let chooser = Chooser::new(distribution, 1_000_000).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(8);
            [(); 4].map(|()| chooser.choose(&mut rng))
        };
        assert_eq!(draw(Distribution::Uniform), [72_386, 738_724, 834_558, 556_141]);
        assert_eq!(draw(Distribution::Zipfian(0.99)), [94_095, 451_536, 555_087, 155_736]);
    }
}
