use super::*;
use crate::analysis::judge_faults;
use crate::analysis::testing::{
    Load, fault, judged_once, ninety_percent_for_ten_seconds, recording, two_elections,
};

fn dip(load: Load) -> Dip {
    judged_once(load, fault("f1", 100.0)).dip.unwrap()
}

#[test]
fn lost_operations_add_up_to_the_equivalent_outage() {
    let found = dip(Load::open("writers", 500).ok(100, 500).failing(10, 0).ok(190, 500));
    assert_eq!((found.area_ops, found.equivalent_outage_s), (5_000.0, 10.0));
    assert_eq!((found.depth, found.count, found.overshoot_ops), (1.0, 1, 0.0));
    // From 1 s before the last good mean on each side: 5 s means blur the edges.
    assert_eq!(found.duration_s, 12.0);
}

#[test]
fn a_single_second_without_service_is_not_averaged_away() {
    let found = dip(Load::open("writers", 500).ok(100, 500).failing(1, 0).ok(199, 500));
    assert_eq!((found.area_ops, found.equivalent_outage_s, found.count), (500.0, 1.0, 1));
    assert!((found.depth - 0.2).abs() < 1e-9, "of the 5 s mean");
}

#[test]
fn a_steady_workload_has_no_dip() {
    assert_eq!(dip(Load::open("writers", 500).ok(300, 500)), Dip::default());
}

#[test]
fn half_the_throughput_for_a_minute_is_half_a_minute() {
    let found = dip(Load::closed("writers").ok(100, 400).ok(60, 200).ok(140, 400));
    assert_eq!((found.equivalent_outage_s, found.depth, found.count), (30.0, 0.5, 1));
}

#[test]
fn the_climb_after_recovery_still_counts_as_lost() {
    let load = Load::closed("writers").series(two_elections(305, 100));
    let recording = recording(vec![load], vec![fault("f1", 305.0)]);
    let found = judge_faults(&recording, &ninety_percent_for_ten_seconds()).remove(0).dip.unwrap();
    assert!((found.area_ops - 21_280.0).abs() <= 20.0, "{found:?}");
    assert!((found.equivalent_outage_s - 42.56).abs() < 0.05);
    assert!((found.depth - (1.0 - 26.0 / 500.0)).abs() < 1e-9);
    assert_eq!(found.count, 2, "the good 3 s part two dips");
}

#[test]
fn a_database_that_stays_slower_is_not_a_dip_for_ever() {
    // 97 % is recovered; the loss is counted for a minute more, not for the hour.
    let found = dip(Load::closed("writers").ok(100, 1_000).ok(10, 0).ok(3_600, 970));
    assert_eq!(found.area_ops, 10_000.0 + 60.0 * 30.0);
}

#[test]
fn slow_seconds_after_the_recovery_are_no_further_dips() {
    let tail = (0..190).map(|i| if i % 5 == 4 { 470 } else { 480 });
    let found = dip(Load::closed("writers").ok(100, 500).ok(10, 0).series(tail));
    assert_eq!(found.count, 1, "{found:?}");
}

#[test]
fn catching_up_is_given_apart_and_never_subtracted() {
    let found = dip(Load::closed("writers").ok(100, 500).ok(10, 0).ok(10, 1_000).ok(180, 500));
    assert_eq!((found.area_ops, found.overshoot_ops), (5_000.0, 5_000.0));
}

#[test]
fn dips_with_less_than_two_seconds_between_them_are_one() {
    let t = 450;
    let rows = |ok: &[u64]| ok.iter().map(|ok| Second { ok: *ok, ..Second::default() }).collect::<Vec<_>>();
    assert_eq!(count(&rows(&[0, 500, 0]), t), 1);
    assert_eq!(count(&rows(&[0, 500, 500, 0]), t), 2);
    assert_eq!(count(&rows(&[450, 500]), t), 0);
    assert_eq!(count(&[], t), 0);
}

#[test]
fn an_open_loop_that_catches_up_has_its_overshoot_apart_in_every_mode() {
    let outage = || Load::open("writers", 500).ok(100, 500).ok(45, 0).p99(45_000_000);
    let paced = dip(outage().ok(450, 550).p99(5_000).ok(120, 500));
    assert_eq!((paced.area_ops, paced.equivalent_outage_s, paced.overshoot_ops), (22_500.0, 45.0, 22_500.0));
    let burst = dip(outage().ok(5, 5_000).p99(5_000).ok(120, 500));
    assert_eq!((burst.area_ops, burst.equivalent_outage_s, burst.overshoot_ops), (22_500.0, 45.0, 22_500.0));
    let dropped = dip(outage().p99(5_000).ok(120, 500));
    assert_eq!((dropped.area_ops, dropped.overshoot_ops), (22_500.0, 0.0));
}
