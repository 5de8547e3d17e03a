//! Arrivals are where the integral of the rate says, for every shape.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::scenario::Profile;

fn profile(points: &[(f64, f64)]) -> Curve {
    let (name, text) = (String::new(), String::new());
    Curve::of(&Schedule::Profile(Profile { name, text, points: points.to_vec() }))
}

fn ramp(from: f64, to: f64, over_s: f64) -> Curve {
    Curve::of(&Schedule::Ramp { from, to, over: Duration::from_secs_f64(over_s) })
}

fn steps(rates: &[f64], each_s: f64) -> Curve {
    Curve::of(&Schedule::Steps { rates: rates.to_vec(), each: Duration::from_secs_f64(each_s) })
}

fn sine(mean: f64, amplitude: f64, period_s: f64) -> Curve {
    Curve::of(&Schedule::Sine { mean, amplitude, period: Duration::from_secs_f64(period_s) })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

#[test]
fn a_ramp_holds_its_last_rate() {
    let ramp = ramp(100.0, 500.0, 10.0);
    assert_eq!([0.0, 5.0, 10.0, 99.0].map(|at| ramp.rate(at)), [100.0, 300.0, 500.0, 500.0]);
    assert_eq!([0.0, 5.0, 10.0, 12.0].map(|at| ramp.count(at)), [0.0, 1_000.0, 3_000.0, 4_000.0]);
    assert_eq!(ramp.time_of(4_000.0), Some(12.0));
}

#[test]
fn the_last_step_holds() {
    let steps = steps(&[10.0, 30.0], 60.0);
    assert_eq!([0.0, 59.9, 60.0, 1e6].map(|at| steps.rate(at)), [10.0, 10.0, 30.0, 30.0]);
    assert_eq!(
        [600.0, 630.0, 2_400.0, 3_000.0].map(|n| steps.time_of(n).unwrap()),
        [60.0, 61.0, 120.0, 140.0]
    );
}

#[test]
fn a_sine_starts_at_its_mean_and_rises() {
    let sine = sine(500.0, 300.0, 600.0);
    assert!(close(sine.rate(0.0), 500.0) && close(sine.rate(150.0), 800.0) && close(sine.rate(450.0), 200.0));
    assert!(close(sine.count(600.0), 300_000.0), "a whole wave is the mean");
}

#[test]
fn a_profile_begins_again_after_its_last_point() {
    let day = profile(&[(0.0, 10.0), (100.0, 30.0), (200.0, 0.0)]);
    assert_eq!([50.0, 150.0, 200.0, 250.0].map(|at| day.rate(at)), [20.0, 15.0, 10.0, 20.0]);
    assert_eq!([100.0, 200.0, 300.0].map(|at| day.count(at)), [2_000.0, 3_500.0, 5_500.0]);
    assert!(close(day.time_of(3_500.0 * 1e5 + 2_000.0).unwrap(), 200.0 * 1e5 + 100.0));
}

#[test]
fn a_pause_in_a_profile_has_no_arrivals() {
    let day = profile(&[(0.0, 10.0), (10.0, 0.0), (90.0, 0.0), (100.0, 10.0)]);
    assert!((day.time_of(50.0).unwrap() - 10.0).abs() < 1e-3);
    assert!(day.time_of(50.1).unwrap() > 90.0);
}

#[test]
fn a_rate_of_zero_never_comes_to_an_arrival() {
    assert_eq!(Curve::Constant(0.0).time_of(0.5), None);
}

fn any_curve() -> impl Strategy<Value = Curve> {
    let rate = || 0.01..5_000.0_f64;
    let length = || 0.5..1_000.0_f64;
    prop_oneof![
        rate().prop_map(Curve::Constant),
        (rate(), rate(), length()).prop_map(|(from, to, over)| ramp(from, to, over)),
        (prop::collection::vec(rate(), 1..6), length()).prop_map(|(rates, each)| steps(&rates, each)),
        (rate(), 0.0..=1.0_f64, length()).prop_map(|(mean, share, period)| sine(mean, mean * share, period)),
        (rate(), prop::collection::vec((length(), 0.0..500.0_f64), 1..6)).prop_map(|(first, rest)| {
            let mut points = vec![(0.0, first)];
            for (length, rate) in rest {
                points.push((points[points.len() - 1].0 + length, rate));
            }
            profile(&points)
        }),
    ]
}

proptest! {
    /// Arrivals k and k + 1 are one whole unit of the integral apart, also after weeks.
    #[test]
    fn the_time_of_an_arrival_is_where_the_integral_reaches_its_number(
        curve in any_curve(),
        at_s in 0.0..3_000_000.0_f64,
    ) {
        let number = curve.count(at_s).floor();
        let time = curve.time_of(number).unwrap();
        prop_assert!(time <= at_s + 1e-6);
        prop_assert!((curve.count(time) - number).abs() < 1e-3, "{} for {number}", curve.count(time));
        if let Some(next) = curve.time_of(number + 1.0) {
            prop_assert!(next >= at_s - 1e-3, "{next} before {at_s}");
        }
    }

    /// The integral is that of the rate: a sum of many thin slices says the same.
    #[test]
    fn the_integral_is_that_of_the_rate(curve in any_curve(), from_s in 0.0..2_000.0_f64) {
        const SLICES: u32 = 20_000;
        let width = 2_000.0 / f64::from(SLICES);
        let sum: f64 = (0..SLICES).map(|i| width * curve.rate(from_s + width * (f64::from(i) + 0.5))).sum();
        let integral = curve.count(from_s + 2_000.0) - curve.count(from_s);
        // A jump of the rate inside a slice is worth at most that slice; there are some thousand jumps.
        prop_assert!((sum - integral).abs() <= 0.01 * integral + 10.0, "{sum} and {integral}");
    }
}
