use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn search() -> FindMax {
    FindMax {
        workload: "w".into(),
        p99: Duration::from_millis(10),
        from_ops_s: 100.0,
        to_ops_s: 100_000.0,
        each: Duration::from_secs(10),
        settle: Duration::from_secs(3),
        precision: 0.05,
    }
}

/// A probe of a server that takes `capacity` operations a second: quick below, a long queue above.
fn probe(rate: f64, capacity: f64) -> Probe {
    let over = rate > capacity;
    let ok = (10.0 * rate.min(capacity)) as u64;
    Probe {
        rate_ops_s: rate,
        from_s: 0,
        to_s: 10,
        ok,
        missed: (10.0 * (rate - capacity).max(0.0)) as u64,
        p99_us: Some(if over { 1_000_000 } else { 3_000 }),
        service_p99_us: Some(if over { 70_000 } else { 2_000 }),
        service_mean_us: Some(if over { 64_000.0 } else { 1_000.0 }),
        cpu_share: 0.3,
        ..Probe::default()
    }
}

/// All probes of a search, and what it comes to.
fn walk(search: &FindMax, mut measure: impl FnMut(f64) -> Probe) -> (Vec<Probe>, Next) {
    let mut probes = Vec::new();
    loop {
        match next(search, &probes) {
            Next::Probe(rate) => probes.push(measure(rate)),
            end => return (probes, end),
        }
        assert!(probes.len() <= MOST_PROBES as usize, "{probes:#?}");
    }
}

fn why(next: Next) -> (Option<f64>, String) {
    match next {
        Next::Open { at_least, why } => (at_least, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn doubles_halves_and_confirms() {
    let (probes, end) = walk(&search(), |rate| probe(rate, 1_000.0));
    let rates: Vec<f64> = probes.iter().map(|p| p.rate_ops_s).collect();
    assert_eq!(rates, [100.0, 200.0, 400.0, 800.0, 1_600.0, 1_200.0, 1_000.0, 1_100.0, 1_050.0, 1_000.0]);
    assert_eq!(end, Next::Found(1_000.0));
}

#[test]
fn a_range_that_is_too_small_is_no_answer() {
    let (probes, end) = walk(&search(), |rate| probe(rate, 50.0));
    let (at_least, text) = why(end);
    assert_eq!((probes.len(), at_least), (1, None));
    assert!(text.contains("even the lowest rate, 100/s") && text.contains("lower `from`"), "{text}");
    let (at_least, text) = why(walk(&search(), |rate| probe(rate, 1e9)).1);
    assert_eq!(at_least, Some(100_000.0));
    assert!(text.contains("raise `to`"), "{text}");
}

#[test]
fn the_limit_of_the_tester_ends_the_search() {
    let busy = |rate: f64| Probe { cpu_share: if rate > 500.0 { 0.93 } else { 0.4 }, ..probe(rate, 1e9) };
    let (at_least, text) = why(walk(&search(), busy).1);
    assert_eq!(at_least, Some(400.0));
    assert!(text.starts_with("at 800/s the tester itself is the limit: it used 93 %"), "{text}");
    let late = |rate: f64| Probe { late_starts: if rate > 500.0 { 81 } else { 0 }, ..probe(rate, 1e9) };
    let (at_least, text) = why(walk(&search(), late).1);
    assert_eq!(at_least, Some(400.0));
    assert!(text.contains("1.0 % of the operations were sent over 10 ms late"), "{text}");
    // Few workers: operations wait, the server does not notice.
    let few = |rate: f64| Probe {
        service_p99_us: Some(2_000),
        service_mean_us: Some(1_000.0),
        ..probe(rate, 500.0)
    };
    let (at_least, text) = why(walk(&search(), few).1);
    assert_eq!(at_least, Some(400.0));
    assert!(text.contains("more workers"), "{text}");
}

#[test]
fn each_kind_of_trouble_is_seen() {
    let good = probe(100.0, 1_000.0);
    let before = [good.clone()];
    let judged = |bad: Probe| finding(&search(), &before, &bad);
    assert_eq!(judged(good.clone()), Finding::Holds);
    let slow = Probe { service_mean_us: Some(2_000.0), ..good };
    let text = |bad: Probe| match judged(bad) {
        Finding::TooMuch(why) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        judged(Probe { p99_us: Some(10_000), ..slow.clone() }),
        Finding::Holds,
        "a limit holds at its value"
    );
    assert_eq!(text(Probe { p99_us: Some(10_001), ..slow.clone() }), "p99 10.0 ms");
    assert!(text(Probe { missed: 1, ..slow.clone() }).starts_with("1 arrivals"));
    assert!(text(Probe { not_ok: 2, ..slow.clone() }).starts_with("2 of 1002 operations failed"));
    assert_eq!(judged(Probe { not_ok: 1, ..slow.clone() }), Finding::Holds, "one in a thousand may fail");
    assert!(text(Probe { ok: 940, ..slow.clone() }).starts_with("940 of 1000 operations came back"));
    assert!(text(Probe { ok: 0, p99_us: None, ..slow }).starts_with("0 of 1000"));
}

#[test]
fn measurements_that_contradict_each_other_are_no_answer() {
    // Whatever held, fails when it is confirmed.
    let mut seen: Vec<f64> = Vec::new();
    let (_, end) = walk(&search(), |rate| {
        let again = seen.contains(&rate);
        seen.push(rate);
        probe(rate, if again { 1.0 } else { 5_000.0 })
    });
    let (at_least, text) = why(end);
    assert!(text.contains("contradict each other"), "{text}");
    assert!(at_least.is_some_and(|rate| rate < 5_000.0), "{at_least:?}");
}

#[test]
fn a_rate_that_holds_only_once_is_not_found() {
    // The first measurement of each rate flatters by a tenth.
    let mut seen: Vec<f64> = Vec::new();
    let (_, end) = walk(&search(), |rate| {
        let flattered = !seen.contains(&rate);
        seen.push(rate);
        probe(rate, if flattered { 1_100.0 } else { 1_000.0 })
    });
    match end {
        Next::Found(rate) => assert!(rate <= 1_000.0, "{rate}"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn the_found_rate_is_below_the_capacity_and_close_to_it(
        capacity in 101.0_f64..99_000.0,
        precision in 0.01_f64..0.5,
    ) {
        let search = FindMax { precision, ..search() };
        let (_, end) = walk(&search, |rate| probe(rate, capacity));
        let Next::Found(rate) = end else { return Err(TestCaseError::fail(format!("{end:?}"))) };
        prop_assert!(rate <= capacity);
        // Rates are whole numbers.
        prop_assert!(rate >= capacity * (1.0 - precision) - 1.0, "{rate} of {capacity}");
    }

    #[test]
    fn any_noise_ends_and_what_is_found_held_twice(answers in prop::collection::vec(0.0_f64..100_000.0, 40)) {
        let search = search();
        let mut answers = answers.into_iter();
        let (probes, end) = walk(&search, |rate| probe(rate, answers.next().unwrap_or(0.0)));
        if let Next::Found(rate) = end {
            let held = |p: &&Probe| p.rate_ops_s == rate && p.missed == 0;
            prop_assert_eq!(probes.iter().filter(held).count(), 2);
        }
    }
}
