use super::*;
use crate::analysis::testing::{Load, P99_US, piece};
use crate::analysis::window::End;
use crate::recording::Second;

fn window(injected_s: f64, end_s: f64) -> Window {
    let ended_by = End::EndOfRun;
    Window { injected_s, effective_s: injected_s, lifted_s: None, end_s, ended_by }
}

fn measured(load: Load, injected_s: f64) -> Outage {
    let work = load.build();
    let end_s = work.seconds.len() as f64;
    measure(&work, &window(injected_s, end_s), Some(P99_US))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn thirty_seconds_without_service_are_thirty_seconds() {
    let found = measured(Load::open("writers", 100).ok(100, 100).failing(30, 0).ok(170, 100), 100.0);
    assert!(close(found.hard_s, 30.0) && close(found.degraded_s, 30.0), "{found:?}");
    assert!(close(found.hard_total_s, 30.0));
    assert_eq!(found.longest_gap_s, Some(30.0));
    assert!(!found.masked);
    assert_eq!(found.windows.len(), 2);
}

#[test]
fn missed_arrivals_are_an_outage_too() {
    let missed = Second { missed: 100, ..Second::default() };
    let found = measured(Load::open("writers", 100).ok(20, 100).rows(10, missed).ok(10, 100), 20.0);
    assert!(close(found.hard_s, 10.0));
    assert!(!found.masked);
}

#[test]
fn nothing_failed_is_masked_and_zero() {
    let found = measured(Load::open("writers", 100).ok(60, 100), 30.0);
    assert!(found.masked);
    assert_eq!((found.hard_s, found.degraded_s, found.longest_gap_s), (0.0, 0.0, None));
    assert!(found.windows.is_empty());
}

#[test]
fn an_outage_in_which_nothing_failed_is_still_an_outage() {
    // The driver retried: all is acknowledged in the end, but 10 s late.
    let mut work = Load::open("writers", 100).ok(60, 100).build();
    for p in &mut work.availability[30..40] {
        p.ok_within = [0, 0, 0, 0, 100, 100];
    }
    let found = measure(&work, &window(30.0, 60.0), Some(P99_US));
    assert!(close(found.hard_s, 10.0));
    assert!(found.masked, "no operation failed");
}

#[test]
fn how_late_is_too_late_follows_the_normal_latency() {
    assert_eq!(edge(None), 0);
    assert_eq!(edge(Some(100_000)), 0, "10 x 100 ms is 1 s");
    assert_eq!(edge(Some(100_001)), 1, "rounded up to the next edge");
    assert_eq!(edge(Some(700_000)), 3);
    assert_eq!(edge(Some(60_000_000)), 5, "the last edge is the last");
}

#[test]
fn half_the_operations_failing_is_degraded_not_hard() {
    let found = measured(Load::open("writers", 100).ok(20, 100).failing(10, 50).ok(30, 100), 20.0);
    assert_eq!(found.hard_s, 0.0);
    assert!(close(found.degraded_s, 10.0));
    assert_eq!(found.windows[0].kind, OutageKind::Degraded);
}

#[test]
fn the_shares_of_one_and_ninety_nine_percent_are_the_edges() {
    let kind = |ok: u64| {
        let mut work = Load::open("writers", 1_000).ok(40, 1_000).build();
        work.availability[20] = piece(20.0, 1.0, 1_000, ok);
        let found = measure(&work, &window(20.0, 40.0), Some(P99_US));
        found.windows.iter().map(|w| w.kind).collect::<Vec<_>>()
    };
    assert_eq!(kind(9), [OutageKind::Hard, OutageKind::Degraded]);
    assert_eq!(kind(10), [OutageKind::Degraded]);
    assert_eq!(kind(989), [OutageKind::Degraded]);
    assert_eq!(kind(990), []);
}

#[test]
fn windows_closer_than_two_seconds_are_one() {
    let apart = |good: usize| {
        let load = Load::open("writers", 100).ok(20, 100).failing(3, 0).ok(good, 100).failing(4, 0);
        measured(load.ok(20, 100), 20.0)
    };
    let merged = apart(1);
    assert!(close(merged.hard_s, 8.0), "3 + 1 good + 4: a merged window counts whole");
    assert!(close(merged.hard_total_s, 8.0));
    let two = apart(2);
    assert!(close(two.hard_s, 4.0) && close(two.hard_total_s, 7.0), "{two:?}");
    assert_eq!(two.longest_gap_s, Some(4.0));
}

#[test]
fn the_gap_is_exact_to_the_millisecond_and_starts_before_the_injection() {
    let mut work = Load::open("writers", 100).ok(60, 100).build();
    work.gaps = vec![
        Gap { from_s: 5.0, to_s: 8.9 },
        Gap { from_s: 29.998, to_s: 32.519 },
        Gap { from_s: 40.0, to_s: 41.0 },
    ];
    let gap = measure(&work, &window(30.0, 60.0), None).longest_gap_s.unwrap();
    assert_eq!((gap * 1000.0).round(), 2_521.0);
}

#[test]
fn a_gap_is_cut_where_the_next_fault_strikes() {
    let mut work = Load::open("writers", 100).ok(60, 100).build();
    work.gaps = vec![Gap { from_s: 29.0, to_s: 50.0 }];
    let first = longest_gap(&work, &window(30.0, 36.0)).unwrap();
    assert_eq!((first.from_s, first.to_s), (29.0, 36.0));
    let second = longest_gap(&work, &window(36.0, 60.0)).unwrap();
    assert_eq!((second.from_s, second.to_s), (29.0, 50.0), "the true start is kept");
    // A gap that begins just before the next injection is nearly all the next fault's.
    work.gaps = vec![Gap { from_s: 35.99, to_s: 50.0 }];
    assert!(measure(&work, &window(30.0, 36.0), None).longest_gap_s.unwrap() < 0.02);
}

#[test]
fn stuck_workers_of_a_closed_loop_are_a_hard_outage() {
    // Eight workers, one operation each stuck for 10 s; the last piece held 42 good ones as well, so
    // by its share alone it is merely degraded.
    let mut work = Load::closed("writers").ok(20, 500).stuck(10).ok(20, 500).build();
    work.availability[19] = piece(19.0, 0.9, 450, 450);
    work.availability.insert(20, piece(19.9, 0.1, 50, 42));
    let found = measure(&work, &window(19.95, 50.0), Some(P99_US));
    assert!(close(found.hard_s, 10.0), "{found:?}");
    assert!(close(found.degraded_s, 10.05));
    assert!(!found.masked);
}

#[test]
fn a_closed_loop_that_pauses_for_less_than_l_is_not_down() {
    let mut work = Load::closed("writers").ok(20, 500).build();
    work.availability[10] = piece(10.8, 0.2, 100, 100);
    let found = measure(&work, &window(5.0, 20.0), Some(P99_US));
    assert_eq!((found.hard_s, found.degraded_s), (0.0, 0.0));
}

#[test]
fn a_short_hole_of_a_closed_loop_is_as_bad_as_the_piece_before_it() {
    let mut work = Load::closed("writers").ok(20, 500).build();
    work.availability[10] = piece(10.0, 0.1, 8, 0);
    let found = measure(&work, &window(5.0, 20.0), Some(P99_US));
    assert!(close(found.hard_s, 1.0), "{found:?}");
}

#[test]
fn workers_stuck_to_the_end_are_down_to_the_end() {
    let found = measured(Load::closed("writers").ok(20, 500).stuck(15), 20.0);
    assert!(close(found.hard_s, 15.0));
    assert_eq!(found.longest_gap_s, Some(15.0));
}

#[test]
fn a_hole_in_an_open_loop_is_no_evidence() {
    let mut work = Load::open("writers", 100).ok(60, 100).build();
    work.availability.retain(|p| !(30.0..40.0).contains(&p.from_s));
    let found = measure(&work, &window(20.0, 60.0), Some(P99_US));
    assert_eq!(found.degraded_s, 0.0);
    // Between two bad pieces it is as bad as the better of them.
    work.availability[29] = piece(29.0, 1.0, 100, 0);
    work.availability[30] = piece(40.0, 1.0, 100, 50);
    let found = measure(&work, &window(20.0, 60.0), Some(P99_US));
    assert!(close(found.hard_s, 1.0) && close(found.degraded_s, 12.0), "{found:?}");
}

#[test]
fn a_slow_open_loop_is_as_bad_as_its_last_arrival() {
    // One operation every 5 s; those at 20 and 25 s fail.
    let mut work = Load::open("rare", 1).build();
    work.rate_ops_s = Some(0.2);
    work.availability =
        (0..12).map(|i| piece(f64::from(i) * 5.0, 0.1, 1, u64::from(i != 4 && i != 5))).collect();
    let found = measure(&work, &window(18.0, 60.0), Some(P99_US));
    assert!(close(found.hard_s, 10.0), "{found:?}");
}

#[test]
fn what_was_bad_before_the_injection_is_not_counted() {
    let found = measured(Load::open("writers", 100).ok(10, 100).failing(10, 0).ok(20, 100), 15.0);
    assert!(close(found.hard_s, 5.0));
}

#[test]
fn the_first_failure_is_the_first_that_was_intended() {
    let mut work = Load::open("writers", 100).ok(20, 100).failing(5, 0).ok(15, 100).build();
    assert_eq!(first_failure(&work, &window(18.0, 40.0)), Some(20.0));
    assert_eq!(first_failure(&work, &window(20.05, 40.0)), Some(20.05), "never before the injection");
    assert_eq!(first_failure(&work, &window(30.0, 40.0)), None);
    // An operation that failed without a piece to show it: its second.
    work.seconds[33].unknown = 1;
    assert_eq!(first_failure(&work, &window(30.0, 40.0)), Some(33.0));
    assert!(!masked(&work, &window(30.0, 40.0)));
}
