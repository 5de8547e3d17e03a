use super::*;

const MS: Duration = Duration::from_millis(1);

fn op(intended_ms: u32, took_ms: u32, outcome: Option<&Outcome>) -> Finished<'_> {
    let intended = intended_ms * MS;
    let sent = outcome.map(|_| intended);
    Finished { intended, sent, finished: intended + took_ms * MS, worker_was_free: true, outcome, kind: None }
}

#[test]
fn a_second_without_operations_is_an_empty_cell_and_nothing_is_carried_over() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.record(0, &op(100, 5, Some(&Outcome::Ok)));
    assert_eq!(stats.take().cell.ok, 1);
    let quiet = stats.take();
    assert_eq!((quiet.cell.second, quiet.cell.ok, quiet.cell.response.len()), (1, 0, 0));
    assert!(quiet.pieces.is_empty());
}

#[test]
fn two_workers_with_errors_are_added_up() {
    let stats = Stats::new(Duration::ZERO, 2);
    stats.open(0);
    let reset = Outcome::Unknown(Cause::new("network", "reset"));
    let refused = Outcome::Failed(Cause::new("not_primary", "no"));
    for (shard, outcome) in [(0, &reset), (1, &refused), (1, &reset)] {
        stats.record(shard, &op(10, 1, Some(outcome)));
    }
    let taken = stats.take();
    assert_eq!((taken.cell.unknown, taken.cell.failed), (2, 1));
    assert_eq!(taken.pieces[&0], PieceCell { scheduled: 3, ok_within: [0; 6], not_ok: 3 });
    let errors = stats.errors();
    assert_eq!(errors[&("network", None)].count, 2);
    assert_eq!(errors[&("not_primary", None)].count, 1);
}

#[test]
fn errors_of_the_warm_up_are_not_kept() {
    let (stats, refused) = (Stats::new(Duration::ZERO, 1), Outcome::Failed(Cause::new("not_primary", "no")));
    stats.record(0, &op(500, 1, Some(&refused)));
    stats.open(1);
    stats.record(0, &op(999, 1, Some(&refused)));
    assert_eq!(stats.errors()[&("not_primary", None)].count, 1);
}

#[test]
fn an_operation_of_two_hours_and_one_of_nothing_are_kept() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.record(0, &op(0, 0, Some(&Outcome::Ok)));
    let first = stats.take().cell;
    assert_eq!(first.response.min(), 1);
    stats.close(1);
    stats.record(0, &op(0, 2 * 3_600_000, Some(&Outcome::Ok)));
    let last = stats.take().cell;
    assert_eq!(last.max_us, 7_200_000_000, "the true maximum");
    assert!(last.response.max() <= super::super::latency::HIGHEST_US * 1001 / 1000);
}

#[test]
fn a_late_answer_counts_where_it_was_intended_and_where_it_finished() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.record(0, &op(950, 1_500, Some(&Outcome::Ok)));
    let first = stats.take();
    assert_eq!(first.cell.ok, 0);
    assert_eq!(first.pieces[&9].ok_within, [0, 1, 1, 1, 1, 1]);
    stats.take();
    assert_eq!(stats.take().cell.ok, 1);
}

#[test]
fn a_missed_arrival_keeps_its_wait() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.record(0, &op(0, 900, None));
    let taken = stats.take();
    assert_eq!((taken.cell.missed, taken.cell.unanswered.len()), (1, 1));
    assert_eq!(taken.pieces[&0].scheduled, 1);
    assert!(taken.cell.successes().next().is_none());
}

#[test]
fn a_failure_after_a_long_wait_keeps_it_and_a_quick_one_is_no_latency() {
    let stats = Stats::new(Duration::ZERO, 1);
    let cleared = Outcome::Failed(Cause::new("pool_cleared", "server monitor timeout"));
    stats.record(0, &op(0, 45_000, Some(&cleared)));
    stats.record(0, &op(45_000, 1, Some(&cleared)));
    for _ in 0..45 {
        stats.take();
    }
    let cell = stats.take().cell;
    assert_eq!((cell.failed, cell.unanswered.len(), cell.max_us), (2, 1, 45_000_000));
}

#[test]
fn error_classes_are_bounded() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.open(0);
    for code in 0..500 {
        let cause = Cause { code: Some(code), ..Cause::new("command", "x") };
        stats.record(0, &op(0, 1, Some(&Outcome::Failed(cause))));
    }
    let errors = stats.errors();
    assert_eq!(errors.len(), MAX_ERROR_CLASSES + 1);
    assert_eq!(errors.values().map(|e| e.count).sum::<u64>(), 500);
}

#[test]
fn a_straggler_is_booked_in_the_oldest_open_second() {
    let stats = Stats::new(Duration::ZERO, 1);
    stats.take();
    stats.record(0, &op(100, 5, Some(&Outcome::Ok)));
    let next = stats.take().cell;
    assert_eq!((next.second, next.ok), (1, 1));
}

#[test]
fn shards_add_up_to_what_one_would_have_booked() {
    let (one, three) = (Stats::new(Duration::ZERO, 1), Stats::new(Duration::ZERO, 3));
    for ms in 0..900_u32 {
        let took = if ms % 100 == 0 { 70_000 + ms } else { ms % 7 };
        let outcome = if ms % 50 == 1 { None } else { Some(&Outcome::Ok) };
        let finished = op(ms, took % 900, outcome);
        one.record(0, &finished);
        three.record(ms as usize, &finished);
    }
    for _ in 0..2 {
        let (a, b) = (one.take(), three.take());
        assert_eq!((a.cell.ok, a.cell.missed, a.cell.max_us), (b.cell.ok, b.cell.missed, b.cell.max_us));
        assert_eq!((&a.cell.response, &a.cell.unanswered), (&b.cell.response, &b.cell.unanswered));
        assert!(a.cell.successes().eq(b.cell.successes()));
        assert_eq!(a.pieces, b.pieces);
    }
}

#[test]
fn kinds_of_a_mix_are_booked_apart_and_added_up_over_the_shards() {
    use crate::scenario::OpKind::{Read, Update};
    let stats = Stats::new(Duration::ZERO, 2);
    let failed = Outcome::Failed(Cause::new("x", "x"));
    let unknown = Outcome::Unknown(Cause::deadline(1.0));
    for (shard, at, took, kind, outcome) in [
        (0, 100, 5, Some(Read), &Outcome::Ok),
        (1, 100, 7, Some(Read), &Outcome::Ok),
        (0, 200, 9, Some(Read), &failed),
        (1, 300, 50, Some(Update), &unknown),
        (1, 400, 3, None, &Outcome::Ok),
    ] {
        stats.record(shard, &Finished { kind, ..op(at, took, Some(outcome)) });
    }
    let cell = stats.take().cell;
    assert_eq!((cell.ok, cell.failed, cell.unknown), (3, 1, 1));
    let (read, update) = (&cell.kinds[&Read], &cell.kinds[&Update]);
    assert_eq!((read.ok, read.failed, read.unknown, read.max_us), (2, 1, 0, 7_000));
    assert_eq!(read.response.len(), 2, "a failure that was an answer has no latency here");
    assert_eq!((update.ok, update.unknown, update.response.len(), update.max_us), (0, 1, 1, 50_000));
    assert_eq!(cell.kinds.len(), 2);
    assert!(stats.take().cell.kinds.is_empty());
}
