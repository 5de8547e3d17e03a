//! Each arrival once, at its time, whatever the rate does.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn pacer(epoch: Moment, rate: f64) -> Pacer {
    Pacer::new(epoch, Curve::Constant(rate))
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
            Arrival::Wait(ticket) if ticket.intended < end => {
                now = ticket.intended;
                assert_eq!(pacer.start(&ticket, now), Turn::Send);
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
    for waited in &waits {
        assert_eq!(pacer.start(waited, 5 * S), Turn::Withdrawn);
    }
    // Half of the first one had passed.
    assert_eq!(ticket(pacer.take(5 * S)).intended, 5_050 * MS);
    assert_eq!(ticket(pacer.take(5 * S)).intended, 5_150 * MS);
}

#[test]
fn arrivals_before_the_change_keep_their_times() {
    let pacer = pacer(Duration::ZERO, 10.0);
    let waiting = ticket(match pacer.take(Duration::ZERO) {
        Arrival::Send(_) => pacer.take(Duration::ZERO),
        other => other,
    });
    pacer.change(550 * MS, Curve::Constant(0.0)).unwrap();
    assert_eq!(pacer.start(&waiting, 550 * MS), Turn::Send, "it was intended at 0.1 s");
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
    let waits: Vec<_> = (0..4)
        .filter_map(|_| match pacer.take(Duration::ZERO) {
            Arrival::Wait(ticket) => Some(ticket),
            _ => None,
        })
        .collect();
    pacer.change(2_500 * MS, Curve::Constant(10.0)).unwrap();
    assert_eq!(pacer.start(&waits[1], S), Turn::Early);
    assert_eq!(pacer.start(&waits[1], 2 * S), Turn::Send);
    assert_eq!(pacer.start(&waits[2], 3 * S), Turn::Withdrawn);
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
    let ticket = match arrival {
        Arrival::Send(_) | Arrival::Missed(_) => return Ok(Some(number)),
        Arrival::Wait(ticket) => ticket,
        Arrival::Never => return Err(()),
    };
    loop {
        match pacer.start(&ticket, clock.now()) {
            Turn::Send => return Ok(Some(number)),
            Turn::Withdrawn => return Ok(None),
            Turn::Early => std::thread::yield_now(),
        }
    }
}
