//! Each arrival once, at its time, whatever the rate does.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn pacer(epoch: Moment, rate: f64) -> Pacer {
    Pacer::new(epoch, Curve::Constant(rate), AfterOutage::Drop)
}

fn ticket(arrival: Arrival) -> Ticket {
    match arrival {
        Arrival::Wait(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// What a worker gets that is always free and waits for each arrival, until `end`.
fn followed(pacer: &Pacer, end: Moment) -> Vec<Moment> {
    let mut now = Duration::ZERO;
    let mut starts = Vec::new();
    loop {
        match pacer.take(now) {
            Arrival::Send(intended) => starts.push(intended),
            Arrival::Wait(mut ticket) if ticket.intended < end => {
                now = ticket.intended;
                assert_eq!(pacer.start(&mut ticket, now), Turn::Send);
                starts.push(now);
            }
            Arrival::Wait(_) | Arrival::Never => return starts,
            Arrival::Missed(intended) => panic!("{intended:?} was missed"),
        }
    }
}

#[test]
fn arrivals_keep_to_the_rate_for_weeks() {
    let piece = Piece::new(S, Curve::Constant(300.0), 0, 0.0);
    assert_eq!(piece.intended(0), Some(S));
    assert_eq!(piece.intended(300), Some(2 * S));
    assert_eq!(piece.intended(300 * 86_400 * 7 * 8), Some(S + 7 * 8 * 86_400 * S));
}

#[test]
fn an_arrival_waits_for_a_worker_as_long_as_the_patience_and_no_longer() {
    let pacer = pacer(Duration::ZERO, 1.0);
    assert!(matches!(pacer.take(Duration::ZERO), Arrival::Send(Duration::ZERO)));
    assert!(matches!(pacer.take(2 * S), Arrival::Send(S)));
    assert!(matches!(pacer.take(4 * S), Arrival::Missed(at) if at == 2 * S));
    assert!(matches!(pacer.take(4 * S), Arrival::Send(at) if at == 3 * S));
}

#[test]
fn arrivals_that_nobody_took_are_overdue_only_when_the_workers_were_stuck() {
    let pacer = pacer(Duration::ZERO, 1.0);
    assert!(pacer.take_overdue(S / 2).is_empty());
    assert_eq!(pacer.take_overdue(4 * S), [0, 1, 2, 3].map(|s| s * S));
    assert!(pacer.take_overdue(4 * S).is_empty());
}

#[test]
fn a_far_arrival_of_a_low_rate_is_withdrawn_when_the_rate_rises() {
    let pacer = pacer(Duration::ZERO, 0.1);
    assert!(matches!(pacer.take(Duration::ZERO), Arrival::Send(_)));
    let waits: Vec<_> = (0..4).map(|_| ticket(pacer.take(Duration::ZERO))).collect();
    assert_eq!(waits[3].intended, 40 * S);
    let told = pacer.changes();
    pacer.change(5 * S, Curve::Constant(10.0)).unwrap();
    assert!(told.has_changed().unwrap());
    for mut waited in waits {
        assert_eq!(pacer.start(&mut waited, 5 * S), Turn::Withdrawn);
    }
    // Half of the first one had passed.
    assert_eq!(ticket(pacer.take(5 * S)).intended, 5_050 * MS);
    assert_eq!(ticket(pacer.take(5 * S)).intended, 5_150 * MS);
}

#[test]
fn arrivals_before_the_change_keep_their_times() {
    let pacer = pacer(Duration::ZERO, 10.0);
    let mut waiting = ticket(match pacer.take(Duration::ZERO) {
        Arrival::Send(_) => pacer.take(Duration::ZERO),
        other => other,
    });
    pacer.change(550 * MS, Curve::Constant(0.0)).unwrap();
    assert_eq!(pacer.start(&mut waiting, 550 * MS), Turn::Send, "it was intended at 0.1 s");
    for intended in [200, 300, 400, 500] {
        assert!(matches!(pacer.take(600 * MS), Arrival::Send(at) if at == intended * MS));
    }
    assert!(matches!(pacer.take(2 * S), Arrival::Never), "paused");
    pacer.change(2 * S, Curve::Constant(1.0)).unwrap();
    assert_eq!(ticket(pacer.take(2 * S)).intended, 2_500 * MS, "half of it had passed before the pause");
    assert_eq!(ticket(pacer.take(2 * S)).intended, 3_500 * MS);
}

#[test]
fn a_change_to_come_leaves_the_arrivals_before_it_alone() {
    let pacer = pacer(Duration::ZERO, 1.0);
    let mut waits: Vec<_> = (0..4)
        .filter_map(|_| match pacer.take(Duration::ZERO) {
            Arrival::Wait(ticket) => Some(ticket),
            _ => None,
        })
        .collect();
    pacer.change(2_500 * MS, Curve::Constant(10.0)).unwrap();
    assert_eq!(pacer.start(&mut waits[1], S), Turn::Early);
    assert_eq!(pacer.start(&mut waits[1], 2 * S), Turn::Send);
    assert_eq!(pacer.start(&mut waits[2], 3 * S), Turn::Withdrawn);
    // One that comes earlier replaces it.
    pacer.change(2_100 * MS, Curve::Constant(0.0)).unwrap();
    assert!(matches!(pacer.take(3 * S), Arrival::Never));
}

#[test]
fn what_was_sent_stays_sent_when_the_clock_of_the_change_is_a_little_behind() {
    let pacer = pacer(Duration::ZERO, 1_000.0);
    for _ in 0..10 {
        assert!(matches!(pacer.take(10 * MS), Arrival::Send(_)));
    }
    pacer.change(5 * MS, Curve::Constant(1_000.0)).unwrap();
    assert_eq!(ticket(pacer.take(9 * MS)).intended, 10 * MS);
}

#[test]
fn changes_that_wait_for_stuck_workers_are_bounded() {
    let pacer = pacer(Duration::ZERO, 1_000.0);
    let changes = u32::try_from(MAX_PIECES).unwrap() - 1;
    for k in 1..=changes {
        pacer.change(k * 10 * MS, Curve::Constant(1_000.0)).unwrap();
    }
    assert_eq!(pacer.change(1_000 * S, Curve::Constant(1.0)), Err(TooManyChanges));
    while !matches!(pacer.take(200 * S), Arrival::Wait(_) | Arrival::Send(_)) {}
    pacer.change(1_000 * S, Curve::Constant(1.0)).unwrap();
}

#[test]
fn changes_faster_than_arrivals_leave_nothing_behind_and_add_up() {
    let pacer = pacer(Duration::ZERO, 0.5);
    assert!(matches!(pacer.take(Duration::ZERO), Arrival::Send(_)));
    for k in 1..100_000_u32 {
        pacer.change(k * 10 * MS, Curve::Constant(0.001)).unwrap();
        assert!(pacer.lock().pieces.len() <= 3);
    }
    // 10 ms at 0.5/s and 995 s at 0.001/s are one arrival.
    match pacer.take(999_990 * MS) {
        Arrival::Missed(at) => assert!(at.abs_diff(995_010 * MS) < MS, "{at:?}"),
        other => panic!("{other:?}"),
    }
}

/// 100/s stand still for 20 s; then workers that are always free work it off until `end`. Intended starts
/// and sends.
fn caught_up(after_outage: AfterOutage, end: Moment) -> Vec<(Moment, Moment)> {
    let pacer = Pacer::new(Duration::ZERO, Curve::Constant(100.0), after_outage);
    let mut now = 20 * S;
    let mut sent = Vec::new();
    while now < end {
        match pacer.take(now) {
            Arrival::Send(intended) => sent.push((intended, now)),
            Arrival::Wait(mut ticket) => {
                now = now.max(ticket.at);
                assert_eq!(pacer.start(&mut ticket, now), Turn::Send);
                sent.push((ticket.intended, now));
            }
            other => panic!("{other:?}"),
        }
    }
    sent
}

#[test]
fn paced_catches_up_at_a_tenth_more_than_the_rate_and_sends_everything() {
    let sent = caught_up(AfterOutage::Paced, 300 * S);
    assert!(sent.iter().enumerate().all(|(k, (at, _))| at.abs_diff(k as u32 * 10 * MS) < MS));
    for second in (20..220).step_by(10) {
        let (from, to) = (second * S, (second + 10) * S);
        let count = sent.iter().filter(|(_, at)| (from..to).contains(at)).count();
        assert!((1_095..=1_105).contains(&count), "{count} sent from {second} s on");
    }
    // 2,000 arrivals at 10/s more than come in take 200 s.
    let on_time = sent.iter().find(|(intended, at)| *at <= *intended + 10 * MS).unwrap();
    assert!(on_time.0 > 215 * S && on_time.0 < 225 * S, "{on_time:?}");
    assert!(sent.iter().skip_while(|(at, _)| *at < 230 * S).all(|(intended, at)| intended == at));
}

#[test]
fn a_burst_sends_everything_at_once() {
    let sent = caught_up(AfterOutage::Burst, 30 * S);
    assert_eq!(sent.iter().filter(|(_, at)| *at == 20 * S).count(), 2_001);
    assert_eq!(sent.len(), 3_001);
}

#[test]
fn slots_of_arrivals_that_are_caught_up_follow_a_change_of_the_rate() {
    let pacer = Pacer::new(Duration::ZERO, Curve::Constant(0.1), AfterOutage::Paced);
    assert!(matches!(pacer.take(100 * S), Arrival::Send(_)), "the first slot is free");
    let mut second = ticket(pacer.take(100 * S));
    let mut third = ticket(pacer.take(100 * S));
    assert!(second.at > 108 * S && third.at > 117 * S);
    assert_eq!(pacer.oldest(101 * S), 10 * S);
    pacer.change(101 * S, Curve::Constant(100.0)).unwrap();
    assert_eq!(pacer.start(&mut second, 101 * S), Turn::Send, "at once");
    assert_eq!(pacer.start(&mut third, 101 * S), Turn::Early);
    assert!(third.at < 101 * S + 10 * MS, "{:?}", third.at);
    assert_eq!((second.intended, third.intended), (10 * S, 20 * S), "they keep their intended starts");
    // A pause pauses these too.
    pacer.change(101 * S, Curve::Constant(0.0)).unwrap();
    assert_eq!(pacer.start(&mut third, 101 * S), Turn::Send, "its slot was free again");
    let mut fourth = ticket(pacer.take(102 * S));
    assert_eq!(pacer.start(&mut fourth, 1_000 * S), Turn::Early);
    pacer.change(1_000 * S, Curve::Constant(10.0)).unwrap();
    assert_eq!(pacer.start(&mut fourth, 1_000 * S), Turn::Send);
}

#[test]
fn a_backlog_is_bounded_in_number_and_in_time() {
    let many = Pacer::new(Duration::ZERO, Curve::Constant(100_000.0), AfterOutage::Burst);
    assert!(matches!(many.take(30 * S), Arrival::Missed(Duration::ZERO)));
    assert!(matches!(many.take(20 * S), Arrival::Send(_)));
    let old = Pacer::new(Duration::ZERO, Curve::Constant(1.0), AfterOutage::Paced);
    assert!(matches!(old.take(LONGEST_WAIT + S), Arrival::Missed(Duration::ZERO)));
    assert!(matches!(old.take(LONGEST_WAIT + S), Arrival::Send(at) if at == S));
}

#[test]
fn a_backlog_that_is_left_at_the_end_is_overdue() {
    let pacer = Pacer::new(Duration::ZERO, Curve::Constant(10_000.0), AfterOutage::Paced);
    let mut left = 0;
    loop {
        let some = pacer.take_overdue(5 * S);
        assert!(some.len() <= OVERDUE_AT_ONCE);
        if some.is_empty() {
            break;
        }
        left += some.len();
    }
    assert_eq!(left, 50_000);
}

proptest! {
    /// The arrivals of a worker that is always free are where the integral of the rate says.
    #[test]
    fn arrivals_are_the_integral_of_the_rate(
        changes in prop::collection::vec((1_u64..3_000, 0.0..500.0_f64), 0..12),
        first_rate in 0.1..500.0_f64,
    ) {
        let pacer = pacer(Duration::ZERO, first_rate);
        let (mut at, mut rate, mut integral) = (Duration::ZERO, first_rate, 0.0);
        for (gap_ms, next_rate) in changes {
            let gap = Duration::from_millis(gap_ms);
            integral += rate * gap.as_secs_f64();
            at += gap;
            rate = next_rate;
            pacer.change(at, Curve::Constant(rate)).unwrap();
        }
        let end = at + S;
        integral += rate;
        let starts = followed(&pacer, end);
        prop_assert!((starts.len() as f64 - integral).abs() <= 1.001, "{} of {integral}", starts.len());
        prop_assert!(starts.windows(2).all(|pair| pair[0] <= pair[1] + Duration::from_nanos(2)));
    }

    /// Threads take while the rate jumps: nothing is lost, nothing comes twice, and all of it in time.
    #[test]
    fn each_arrival_is_handed_out_once_to_concurrent_workers(
        rates in prop::collection::vec(0.0..200_000.0_f64, 1..20),
        workers in 1_usize..5,
    ) {
        let numbers = race(&rates, workers);
        let expected: Vec<_> = (0..numbers.len() as u64).collect();
        prop_assert_eq!(numbers, expected);
    }
}

/// Numbers of the arrivals that the workers got while the rate was changed, sorted. In the end it is 0, so
/// that every arrival has been handed out.
fn race(rates: &[f64], workers: usize) -> Vec<u64> {
    let clock = crate::clock::Clock::start();
    let pacer = pacer(Duration::ZERO, 100_000.0);
    let (over, ready) = (AtomicBool::new(false), Barrier::new(workers + 1));
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let worker = || {
            ready.wait();
            let mut numbers = Vec::new();
            loop {
                match one(&pacer, clock) {
                    Ok(number) => numbers.extend(number),
                    Err(()) if over.load(Ordering::Relaxed) => return numbers,
                    Err(()) => std::thread::yield_now(),
                }
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        ready.wait();
        for rate in rates {
            let until = clock.now() + Duration::from_micros(300);
            while clock.now() < until {
                std::thread::yield_now();
            }
            pacer.change(clock.now(), Curve::Constant(*rate)).unwrap();
        }
        pacer.change(clock.now(), Curve::Constant(0.0)).unwrap();
        over.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    numbers
}

/// One arrival, waited for as a worker does; none when it was withdrawn. An error when none is coming.
fn one(pacer: &Pacer, clock: crate::clock::Clock) -> Result<Option<u64>, ()> {
    let (number, arrival) = pacer.lock().take(clock.now());
    let mut ticket = match arrival {
        Arrival::Send(_) | Arrival::Missed(_) => return Ok(Some(number)),
        Arrival::Wait(ticket) => ticket,
        Arrival::Never => return Err(()),
    };
    loop {
        match pacer.start(&mut ticket, clock.now()) {
            Turn::Send => return Ok(Some(number)),
            Turn::Withdrawn => return Ok(None),
            Turn::Early => std::thread::yield_now(),
        }
    }
}
