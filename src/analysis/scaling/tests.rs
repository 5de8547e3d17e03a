use std::time::Duration;

use super::*;
use crate::recording::WorkloadRecording;

const EACH_S: u64 = 10;
const SETTLE_S: u64 = 2;

/// One step as a server would have it.
#[derive(Clone, Copy)]
struct Point {
    workers: u32,
    rate: Option<f64>,
    ops_s: u64,
    missed_s: u64,
    p99_us: u64,
    service_us: f64,
    cpu: f64,
}

impl Point {
    /// A closed loop on a server that does `capacity` operations a second, 1 ms each when it is idle, and that
    /// loses `harm` of that for each worker.
    fn closed(workers: u32, capacity: f64, harm: f64) -> Self {
        let most = capacity * (1.0 - harm * f64::from(workers));
        let ops_s = (f64::from(workers) * 1_000.0).min(most);
        let service_us = f64::from(workers) / ops_s * 1e6;
        let (ops_s, p99_us) = (ops_s as u64, (2.0 * service_us) as u64);
        Self { workers, rate: None, ops_s, missed_s: 0, p99_us, service_us, cpu: 0.2 }
    }

    /// An open loop of 64 workers on the same server.
    fn open(rate: f64, capacity: f64) -> Self {
        let over = rate > capacity;
        let service_us = if over { 64_000.0 } else { 1_000.0 };
        let missed_s = (rate - capacity).max(0.0) as u64;
        let ops_s = rate.min(capacity) as u64;
        let p99_us = if over { 1_060_000 } else { 2_000 };
        Self { workers: 64, rate: Some(rate), ops_s, missed_s, p99_us, service_us, cpu: 0.2 }
    }
}

/// The recording of these steps. What happens while a step settles is wild, and must not count.
fn record(points: &[Point]) -> (Recording, Vec<Latency>) {
    let mut work = WorkloadRecording { name: "w".into(), ..WorkloadRecording::default() };
    let mut recording = Recording::default();
    let mut latency = Vec::new();
    for (index, point) in (0..).zip(points) {
        let from_s = u64::from(index) * EACH_S;
        for second in 0..EACH_S {
            let settling = second < SETTLE_S;
            let (ok, failed) = if settling { (999_999, 7) } else { (point.ops_s, 0) };
            work.seconds.push(Second { ok, failed, missed: point.missed_s, ..Second::default() });
            let cpu_s = if settling { 2.0 } else { 2.0 * point.cpu };
            let own = OwnSecond { t_s: from_s + second, seconds: 1.0, cpu_s, ..OwnSecond::default() };
            recording.own.push(own);
        }
        recording.steps.push(Step {
            index,
            workload: "w".into(),
            workers: point.workers,
            rate_ops_s: point.rate,
            counted_from_s: from_s + SETTLE_S,
            to_s: from_s + EACH_S,
        });
        let response =
            Percentiles { p50: Some(point.p99_us / 2), p99: Some(point.p99_us), ..Percentiles::default() };
        let service = Percentiles { mean: Some(point.service_us), ..Percentiles::default() };
        latency.push(Latency { response, service });
    }
    recording.duration_s = work.seconds.len() as f64;
    recording.workloads.push(work);
    (recording, latency)
}

fn planned(points: &[Point]) -> Sweep {
    let loads = match points[0].rate {
        None => Loads::Workers(points.iter().map(|p| p.workers).collect()),
        Some(_) => Loads::Rates(points.iter().filter_map(|p| p.rate).collect()),
    };
    let (each, settle) = (Duration::from_secs(EACH_S), Duration::from_secs(SETTLE_S));
    Sweep { workload: "w".into(), loads, each, settle }
}

fn judged(points: &[Point]) -> SweepReport {
    let (recording, latency) = record(points);
    sweep(&recording, &planned(points), &latency, 2.0)
}

const WORKERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

#[test]
fn the_knee_is_the_smallest_load_with_95_percent_of_the_best() {
    let report = judged(&WORKERS.map(|n| Point::closed(n, 10_000.0, 0.0)));
    assert_eq!(report.knee.state, KneeState::Found);
    // 8 workers do 8,000/s; 16 and more do 10,000/s.
    assert_eq!((report.knee.step, report.knee.load), (Some(4), Some(16.0)));
    assert_eq!(
        report.steps.iter().map(|s| s.ok / 8).collect::<Vec<_>>()[..2],
        [1_000, 2_000],
        "settling counts not"
    );
    assert_eq!(report.knee.p99_doubled_at, Some(32.0), "{:?}", report.knee.text);
    assert!(report.knee.text[0].starts_with("knee at 16 workers: 10,000/s"), "{:?}", report.knee.text);
    assert_eq!(report.knee.text[1], "more workers do not help: at 64 workers throughput +0 %, p99 x 4.0");
    assert_eq!(reasons(&report, &planned(&WORKERS.map(|n| Point::closed(n, 1.0, 0.0)))), []);
}

#[test]
fn workers_that_harm_are_told_with_numbers() {
    let report = judged(&WORKERS.map(|n| Point::closed(n, 10_000.0, 0.005)));
    assert_eq!((report.knee.state, report.knee.load), (KneeState::Found, Some(16.0)));
    assert_eq!(report.knee.text[1], "more workers harm: at 64 workers throughput -26 %, p99 x 5.4");
}

#[test]
fn a_best_within_five_percent_comes_behind_the_knee() {
    let mut points = WORKERS.map(|n| Point::closed(n, 10_000.0, 0.0));
    points[6].ops_s = 10_400;
    let report = judged(&points);
    assert_eq!((report.knee.state, report.knee.load), (KneeState::Found, Some(16.0)));
    assert!(
        report.knee.text[0].contains("96 % of the best (10,400/s at 64 workers)"),
        "{:?}",
        report.knee.text
    );
}

#[test]
fn throughput_that_still_grows_has_no_knee() {
    let report = judged(&WORKERS.map(|n| Point::closed(n, 1e9, 0.0)));
    assert_eq!((report.knee.state, report.knee.load), (KneeState::NotReached, Some(64.0)));
    assert!(report.knee.text[0].starts_with("not reached: at 64 workers"), "{:?}", report.knee.text);
    // Close loads on a straight line: 60 is within 95 % of 62, and yet no knee.
    let report = judged(&[58, 60, 62].map(|n| Point::closed(n, 1e9, 0.0)));
    assert_eq!(report.knee.state, KneeState::NotReached);
}

#[test]
fn a_sweep_over_rates_finds_the_capacity() {
    let points = [100.0, 400.0, 800.0, 1_600.0, 3_200.0].map(|rate| Point::open(rate, 1_000.0));
    let report = judged(&points);
    assert_eq!(report.stepped, Stepped::Rate);
    assert!(report.steps.iter().all(|step| step.no_verdict.is_none()), "{:#?}", report.steps);
    assert_eq!((report.knee.state, report.knee.load), (KneeState::Found, Some(1_600.0)));
    assert_eq!(report.knee.p99_doubled_at, Some(1_600.0));
    assert!(report.knee.text[1].starts_with("more load does not help"), "{:?}", report.knee.text);
}

#[test]
fn too_few_workers_are_no_knee_of_the_server() {
    // Eight workers at 10 ms: 800/s at most, and the server does not notice.
    let points = [400.0, 800.0, 1_600.0, 3_200.0].map(|rate| Point {
        workers: 8,
        service_us: 10_000.0,
        ..Point::open(rate, 800.0)
    });
    let report = judged(&points);
    assert_eq!(report.knee.state, KneeState::Unclear, "{:?}", report.knee.text);
    let why = report.steps[2].no_verdict.as_deref().unwrap();
    assert!(why.contains("found no free worker") && why.contains("more workers"), "{why}");
    let reasons = reasons(&report, &planned(&points));
    assert_eq!(reasons[0].outcome, Outcome::Inconclusive);
    assert!(reasons[0].text.contains("step 3: 6,400 arrivals"), "{}", reasons[0].text);
}

#[test]
fn a_step_in_which_the_tester_was_the_limit_carries_no_verdict() {
    let mut points = WORKERS.map(|n| Point::closed(n, 10_000.0, 0.0));
    points[6].cpu = 0.86;
    points[6].ops_s = 3_000;
    let report = judged(&points);
    assert!(report.steps[6].no_verdict.as_deref().unwrap().contains("86 % of its processors"));
    assert_eq!((report.knee.state, report.knee.load), (KneeState::Found, Some(16.0)), "found without it");
    // The same where throughput still grew: nobody knows what the server would have done.
    let mut points = WORKERS.map(|n| Point::closed(n, 1e9, 0.0));
    points[6].cpu = 0.86;
    let report = judged(&points);
    assert_eq!(report.knee.state, KneeState::Unclear);
    assert!(report.knee.text[0].contains("at 32 workers"), "{:?}", report.knee.text);
}

#[test]
fn late_sends_spoil_a_step_of_an_open_loop_only() {
    let late = |rate| {
        let points = [100.0, 200.0].map(|r| Point { rate: Some(r).filter(|_| rate), ..Point::open(r, 1e9) });
        let (mut recording, latency) = record(&points);
        recording.workloads[0].seconds.iter_mut().for_each(|s| s.late_starts = 50);
        sweep(&recording, &planned(&points), &latency, 2.0).steps[0].no_verdict.clone()
    };
    assert!(late(true).unwrap().contains("50.0 % of the operations were sent over 10 ms late"));
    assert_eq!(late(false), None);
}

#[test]
fn a_sweep_that_was_cut_short_is_inconclusive() {
    let points = WORKERS.map(|n| Point::closed(n, 1e9, 0.0));
    let (mut recording, mut latency) = record(&points);
    recording.duration_s = 46.0;
    recording.steps.truncate(5);
    latency.truncate(5);
    let report = sweep(&recording, &planned(&points), &latency, 2.0);
    assert_eq!(report.steps[4].no_verdict.as_deref(), Some("only 4 s were counted, 5 are needed"));
    let texts: Vec<_> = reasons(&report, &planned(&points)).into_iter().map(|r| r.text).collect();
    assert_eq!(texts[0], "only 5 of 7 steps of the sweep began");
    assert!(texts[1].starts_with("the knee of the sweep is unclear: step 5: only 4 s"), "{texts:?}");
}

#[test]
fn a_server_that_answers_nothing_has_no_knee() {
    let mut points = [1, 2].map(|n| Point::closed(n, 1_000.0, 0.0));
    points.iter_mut().for_each(|point| point.ops_s = 0);
    let report = judged(&points);
    assert_eq!((report.knee.state, report.knee.step), (KneeState::Unclear, None));
    assert_eq!(report.steps[0].no_verdict.as_deref(), Some("not one operation succeeded"));
}

#[test]
fn waiting_follows_from_littles_law() {
    let step = judged(&[100.0, 200.0].map(|rate| Point::open(rate, 1e9))).steps.remove(1);
    // 200/s at 1 ms: a fifth of one worker of 64.
    assert!((step.in_flight.unwrap() - 0.2).abs() < 1e-9);
    assert!((step.idle_share.unwrap() - (1.0 - 0.2 / 64.0)).abs() < 1e-9);
    let busy = judged(&WORKERS.map(|n| Point::closed(n, 10_000.0, 0.0))).steps.remove(6);
    assert!(busy.idle_share.unwrap() < 1e-3, "{:?}", busy.idle_share);
}
