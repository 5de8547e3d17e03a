use std::collections::HashMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::clock::Clock;

const DRAWS: u32 = 1_000_000;
/// Enough for shares of a whole group of keys.
const SOME: u32 = 200_000;

fn zipfian(exponent: f64) -> Distribution {
    Distribution::Zipfian { exponent, scrambled: true }
}

/// One of each kind.
const ALL: [Distribution; 8] = [
    Distribution::Uniform,
    Distribution::Zipfian { exponent: 0.99, scrambled: true },
    Distribution::Zipfian { exponent: 1.0, scrambled: false },
    Distribution::Latest { exponent: 0.99 },
    Distribution::Hotspot { keys: 0.2, operations: 0.8, scrambled: true },
    Distribution::Hotspot { keys: 0.2, operations: 0.8, scrambled: false },
    Distribution::Exponential { percentile: 95.0, keys: 6.0 / 7.0 },
    Distribution::Sequential,
];

/// How often each of n keys is drawn.
fn counts(distribution: Distribution, n: u64, draws: u32) -> Vec<u32> {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let sequence = Sequence::default();
    let chooser = Chooser::new(distribution, n).unwrap();
    let mut counts = vec![0; n as usize];
    for _ in 0..draws {
        counts[chooser.choose(&sequence, &mut rng) as usize] += 1;
    }
    counts
}

fn share(counts: &[u32]) -> f64 {
    f64::from(counts.iter().sum::<u32>()) / f64::from(SOME)
}

fn chi_square(counts: &[u32], expected: impl Fn(u64) -> f64) -> f64 {
    let draws = f64::from(counts.iter().sum::<u32>());
    let terms = (0..).zip(counts).map(|(key, count)| {
        let expected = draws * expected(key);
        (f64::from(*count) - expected).powi(2) / expected
    });
    terms.sum()
}

/// Shares of the most frequent keys, the hottest first.
fn shares(exponent: f64, n: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let sequence = Sequence::default();
    let chooser = Chooser::new(zipfian(exponent), n).unwrap();
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for _ in 0..DRAWS {
        let key = chooser.choose(&sequence, &mut rng);
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
        let chooser = Chooser::new(zipfian(exponent), 10_000_000_000).unwrap();
        let sequence = Sequence::default();
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let keys: Vec<u64> = (0..1_000).map(|_| chooser.choose(&sequence, &mut rng)).collect();
        assert!(keys.iter().all(|key| *key < 10_000_000_000));
        assert!(keys.iter().any(|key| *key > u64::from(u32::MAX)), "exponent {exponent}");
    }
    assert!(clock.now().as_secs_f64() < 1.0);
    // 1 / (ln n + 0.5772), the partial sum of the harmonic series.
    assert_near(shares(1.0, 10_000_000_000)[0], 1.0 / (1e10_f64.ln() + 0.5772));
}

#[test]
fn every_kind_is_ready_at_once_for_ten_billion_keys_and_keeps_its_bounds() {
    const N: u64 = 10_000_000_000;
    let clock = Clock::start();
    for distribution in ALL {
        let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(4), Sequence::default());
        let chooser = Chooser::new(distribution, N).unwrap();
        let keys: Vec<u64> = (0..10_000).map(|_| chooser.choose(&sequence, &mut rng)).collect();
        assert!(keys.iter().all(|key| *key < N), "{distribution:?}");
        let beyond = keys.iter().any(|key| *key > u64::from(u32::MAX));
        assert!(beyond || distribution == Distribution::Sequential, "{distribution:?}");
    }
    assert!(clock.now().as_secs_f64() < 1.0);
}

/// 148.2 is exceeded once in a thousand with 99 degrees of freedom.
#[test]
fn uniform_draws_are_even() {
    let counts = counts(Distribution::Uniform, 100, SOME);
    let chi_square = chi_square(&counts, |_| 0.01);
    // Both ends: one in a thousand is below 61.1, too.
    assert!((61.1..148.2).contains(&chi_square), "{chi_square}");
}

#[test]
fn hot_neighbours_are_the_lowest_keys_in_order() {
    let plain = counts(Distribution::Zipfian { exponent: 0.99, scrambled: false }, 100, SOME);
    let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.99)).sum();
    let chi_square = chi_square(&plain, |key| ((key + 1) as f64).powf(-0.99) / sum);
    assert!(chi_square < 148.2, "{chi_square}");
    let mut scattered = counts(zipfian(0.99), 100, SOME);
    assert_ne!(scattered, plain);
    scattered.sort_unstable_by(|a, b| b.cmp(a));
    assert_near(share(&scattered[..10]), share(&plain[..10]));
}

#[test]
fn the_newest_key_is_the_hottest_of_latest() {
    let mut counts = counts(Distribution::Latest { exponent: 0.99 }, 1_000, SOME);
    counts.reverse();
    assert_near(share(&counts[..1]), 0.129);
    assert_near(share(&counts[..10]), 0.38);
    assert!(counts[0] > counts[1] && counts[1] > counts[2]);
}

#[test]
fn latest_follows_growth_key_by_key() {
    let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(10), Sequence::default());
    let mut chooser = Chooser::new(Distribution::Latest { exponent: 0.99 }, 1).unwrap();
    let mut hits = 0;
    for keys in 1..=100_000 {
        chooser.follow(keys);
        assert_eq!(chooser.n(), keys);
        hits += u32::from(chooser.choose(&sequence, &mut rng) == keys - 1);
    }
    // Between the shares of the hottest of 100,000 (7.8 %) and of 100 keys (19.3 %).
    assert!((7_800..19_300).contains(&hits), "{hits}");
}

#[test]
fn a_hot_spot_gets_its_operations() {
    let hotspot = |scrambled| Distribution::Hotspot { keys: 0.2, operations: 0.8, scrambled };
    let plain = counts(hotspot(false), 100, SOME);
    let chi_square = chi_square(&plain, |key| if key < 20 { 0.8 / 20.0 } else { 0.2 / 80.0 });
    assert!(chi_square < 148.2, "{chi_square}");
    let mut scattered = counts(hotspot(true), 100, SOME);
    assert!(share(&scattered[..20]) < 0.7, "the hot keys are no neighbours");
    scattered.sort_unstable_by(|a, b| b.cmp(a));
    assert_near(share(&scattered[..20]), 0.8);
    // Ends of the range: no operation outside, none inside, all keys hot, less than one key hot.
    let hot = |keys, operations| Distribution::Hotspot { keys, operations, scrambled: false };
    assert_eq!(share(&counts(hot(0.1, 1.0), 100, SOME)[..10]), 1.0);
    assert_eq!(share(&counts(hot(0.1, 0.0), 100, SOME)[..10]), 0.0);
    assert_near(share(&counts(hot(1.0, 0.0), 100, SOME)[..50]), 0.5);
    assert_near(share(&counts(hot(1e-9, 0.5), 100, SOME)[..1]), 0.5);
}

#[test]
fn the_percentile_of_exponential_lies_at_its_share_of_the_newest_keys() {
    let of = |percentile, keys| {
        let mut counts = counts(Distribution::Exponential { percentile, keys }, 1_000, SOME);
        counts.reverse();
        counts
    };
    // Ages beyond the oldest key are not drawn, so both shares are of what is below it.
    let whole = 1.0 - 0.05_f64.powf(7.0 / 6.0);
    assert_near(share(&of(95.0, 6.0 / 7.0)[..857]), (1.0 - 0.05_f64.powf(0.857 * 7.0 / 6.0)) / whole);
    assert_near(share(&of(90.0, 0.1)[..100]), 0.9);
    assert_near(share(&of(90.0, 0.1)[..50]), 1.0 - 0.1_f64.sqrt());
    // 1,000 degrees of freedom less one: 1,143 is exceeded once in a thousand.
    let rate = -0.5_f64.ln() / 500.0;
    let below = |age: f64| 1.0 - (-rate * age).exp();
    let counts = of(50.0, 0.5);
    let chi_square =
        chi_square(&counts, |age| (below(age as f64 + 1.0) - below(age as f64)) / below(1_000.0));
    assert!(chi_square < 1_143.0, "{chi_square}");
}

#[test]
fn sequential_takes_each_key_once_a_round() {
    assert!(counts(Distribution::Sequential, 1_000, 3_000).iter().all(|count| *count == 3));
}

#[test]
fn one_key_is_always_that_key_and_all_64_bits_can_be_drawn() {
    let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(6), Sequence::default());
    for distribution in ALL {
        let mut chooser = Chooser::new(distribution, 1).unwrap();
        assert!((0..100).all(|_| chooser.choose(&sequence, &mut rng) == 0));
        chooser.resize(u64::MAX).unwrap();
        let far = (0..1_000).any(|_| chooser.choose(&sequence, &mut rng) > 1 << 62);
        assert!(far || distribution == Distribution::Sequential, "{distribution:?}");
    }
}

#[test]
fn senseless_requests_are_refused() {
    for exponent in [-0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for distribution in [zipfian(exponent), Distribution::Latest { exponent }] {
            let refused = Chooser::new(distribution, 10);
            assert!(matches!(refused, Err(ChooserError::Exponent(_))), "{exponent}");
        }
    }
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        for distribution in [
            Distribution::Hotspot { keys: share, operations: 0.5, scrambled: true },
            Distribution::Hotspot { keys: 0.5, operations: share, scrambled: true },
            Distribution::Exponential { percentile: 95.0, keys: share },
            Distribution::Exponential { percentile: share * 100.0, keys: 0.5 },
            Distribution::Exponential { percentile: 0.0, keys: 0.5 },
            Distribution::Exponential { percentile: 100.0, keys: 0.5 },
            Distribution::Hotspot { keys: 0.0, operations: 0.5, scrambled: true },
        ] {
            let refused = Chooser::new(distribution, 10);
            assert!(matches!(refused, Err(ChooserError::Share(..))), "{distribution:?}");
        }
    }
    for distribution in ALL {
        assert_eq!(Chooser::new(distribution, 0), Err(ChooserError::NoKeys));
        let mut chooser = Chooser::new(distribution, 10).unwrap();
        assert_eq!(chooser.resize(0), Err(ChooserError::NoKeys));
        assert_eq!(chooser.n(), 10);
    }
}

#[test]
fn growth_reaches_the_new_keys_and_equals_a_new_start() {
    for distribution in ALL {
        let mut chooser = Chooser::new(distribution, 10).unwrap();
        chooser.resize(1_000).unwrap();
        assert_eq!(chooser, Chooser::new(distribution, 1_000).unwrap());
        let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(7), Sequence::default());
        assert!((0..1_000).any(|_| chooser.choose(&sequence, &mut rng) >= 10));
    }
}

#[test]
fn scattered_hot_keys_move_in_doublings_only_and_all_others_follow_at_once() {
    for distribution in ALL {
        let scattered = matches!(
            distribution,
            Distribution::Zipfian { scrambled: true, .. } | Distribution::Hotspot { scrambled: true, .. }
        );
        let mut chooser = Chooser::new(distribution, 100).unwrap();
        chooser.follow(199);
        assert_eq!(chooser.n(), if scattered { 100 } else { 199 }, "{distribution:?}");
        chooser.follow(400);
        assert_eq!(chooser.n(), 400);
        chooser.follow(0);
        assert_eq!(chooser.n(), 400);
    }
}

/// If this fails, every seed that anybody wrote down means another run.
#[test]
fn draws_are_repeatable() {
    let draws = ALL.map(|distribution| {
        let chooser = Chooser::new(distribution, 1_000_000).unwrap();
        let (mut rng, sequence) = (ChaCha8Rng::seed_from_u64(8), Sequence::default());
        [(); 4].map(|()| chooser.choose(&sequence, &mut rng))
    });
    assert_eq!(
        draws,
        [
            [72_386, 738_724, 834_558, 556_141],
            [94_095, 451_536, 555_087, 155_736],
            [352_360, 23, 5, 330],
            [623_273, 999_971, 999_993, 999_572],
            [48_248, 776_745, 156_429, 880_548],
            [147_744, 644_913, 168_415, 160_388],
            [979_177, 639_527, 525_984, 778_276],
            [0, 1, 2, 3],
        ]
    );
}
