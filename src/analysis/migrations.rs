//! What the load felt of each move of a chunk, phase by phase, against a control window of equal length before it in
//! which nothing moved. By the *finishing* time of the operations; seconds that a phase has only a part of count in
//! part. Formulas: `docs/measures.md`, "Migrations".

use std::ops::Range;

use crate::recording::{Migration, Recording, Second, WorkloadRecording};
use crate::report::migrations::{MigrationCost, MigrationPhaseReport, MigrationReport};

/// A control window has at least so many seconds: fewer are noise.
const LEAST_CONTROL_S: f64 = 5.0;
/// After a move old copies are deleted, and caches are filled: its next seconds are no control.
const SETTLES_S: f64 = 2.0;

/// One entry for each move, in the order in which they began.
#[must_use]
pub fn measure(recording: &Recording) -> Vec<MigrationReport> {
    let mut all: Vec<_> = recording.migrations.iter().collect();
    all.sort_by(|a, b| a.started_s.total_cmp(&b.started_s));
    let busy: Vec<_> = all.iter().map(|moved| span(moved)).collect();
    all.iter().map(|moved| report(moved, &busy, recording)).collect()
}

fn span(moved: &Migration) -> Range<f64> {
    moved.started_s..moved.started_s + seconds_of(moved)
}

fn seconds_of(moved: &Migration) -> f64 {
    moved.phases.iter().map(|phase| phase.seconds).sum()
}

fn report(moved: &Migration, busy: &[Range<f64>], recording: &Recording) -> MigrationReport {
    let control = control(&span(moved), busy);
    let costs = |range: &Range<f64>| {
        let cost = |work: &WorkloadRecording| {
            let expected = mean(&work.seconds, control.as_ref()?)?;
            Some((work.name.clone(), cost(&work.seconds, range, expected)))
        };
        recording.workloads.iter().filter_map(cost).collect()
    };
    let mut from = moved.started_s;
    let phases = moved.phases.iter().map(|phase| {
        let range = from..from + phase.seconds;
        from = range.end;
        MigrationPhaseReport { name: phase.name.clone(), seconds: phase.seconds, workloads: costs(&range) }
    });
    let phases = phases.collect();
    MigrationReport {
        ns: moved.ns.clone(),
        min: moved.min.clone(),
        max: moved.max.clone(),
        from: moved.from.clone(),
        to: moved.to.clone(),
        outcome: if moved.committed { "committed" } else { "aborted" }.into(),
        why: moved.why.clone(),
        started_s: moved.started_s,
        seconds: seconds_of(moved),
        docs: moved.docs,
        bytes: moved.bytes,
        control_from_s: control.as_ref().map(|range| range.start),
        workloads: costs(&span(moved)),
        phases,
    }
}

/// The last stretch before a move, as long as that, in which nothing moved; `None`: there is none in the measured
/// phase.
fn control(moved: &Range<f64>, busy: &[Range<f64>]) -> Option<Range<f64>> {
    let length = (moved.end - moved.start).max(LEAST_CONTROL_S).ceil();
    let mut end = moved.start.floor();
    loop {
        let wanted = end - length..end;
        if wanted.start < 0.0 {
            return None;
        }
        let in_the_way = busy.iter().filter(|b| b.start < wanted.end && b.end + SETTLES_S > wanted.start);
        // The earliest of them: whatever lies between two moves was looked at before.
        match in_the_way.map(|b| b.start.floor()).reduce(f64::min) {
            None => return Some(wanted),
            Some(start) => end = start.min(end - 1.0),
        }
    }
}

/// Good operations a second; `None`: those seconds were not recorded, or nothing succeeded in them.
fn mean(seconds: &[Second], range: &Range<f64>) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run, not negative"
    )]
    let rows = seconds.get(range.start as usize..range.end as usize)?;
    #[expect(clippy::cast_precision_loss, reason = "operations of a few seconds")]
    let mean = rows.iter().map(|s| s.ok).sum::<u64>() as f64 / rows.len() as f64;
    (mean > 0.0).then_some(mean)
}

/// depth = 1 - min ok/T over the seconds that the range touches; area = sum of max(0, T - ok) over its seconds, each
/// by the part of it that lies in the range.
fn cost(seconds: &[Second], range: &Range<f64>, expected: f64) -> MigrationCost {
    let (mut lowest, mut area_ops) = (expected, 0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run; a move that began before them has none there"
    )]
    let touched = (range.start.max(0.0) as usize, range.end.max(0.0).ceil() as usize);
    #[expect(clippy::cast_precision_loss, reason = "seconds and operations of a run")]
    for (number, second) in seconds.iter().enumerate().take(touched.1).skip(touched.0) {
        let (from, ok) = (number as f64, second.ok as f64);
        let part = (range.end.min(from + 1.0) - range.start.max(from)).max(0.0);
        if part > 0.0 {
            lowest = f64::min(lowest, ok);
            area_ops += part * (expected - ok).max(0.0);
        }
    }
    MigrationCost {
        expected_ops_s: expected,
        depth: 1.0 - lowest / expected,
        area_ops,
        equivalent_outage_s: area_ops / expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::MigrationPhase;

    fn load(ok: impl Fn(usize) -> u64) -> WorkloadRecording {
        let seconds = (0..60).map(|t| Second { ok: ok(t), ..Second::default() }).collect();
        WorkloadRecording { name: "writers".into(), seconds, ..WorkloadRecording::default() }
    }

    fn moved(started_s: f64, clone_s: f64, critical_s: f64) -> Migration {
        let phase = |name: &str, seconds| MigrationPhase { name: name.into(), seconds };
        let phases = vec![phase("clone", clone_s), phase("critical_section", critical_s)];
        Migration { started_s, phases, committed: true, ..Migration::default() }
    }

    fn recording(ok: impl Fn(usize) -> u64, migrations: Vec<Migration>) -> Recording {
        Recording { duration_s: 60.0, workloads: vec![load(ok)], migrations, ..Recording::default() }
    }

    #[test]
    fn each_phase_has_its_dip_against_the_seconds_before() {
        let ok = |t| match t {
            30..38 => 60,
            38..40 => 0,
            _ => 100,
        };
        let found = measure(&recording(ok, vec![moved(30.0, 8.0, 2.0)]));
        let whole = &found[0].workloads["writers"];
        assert_eq!((whole.expected_ops_s, whole.depth, whole.area_ops), (100.0, 1.0, 520.0));
        assert_eq!((whole.equivalent_outage_s, found[0].control_from_s), (5.2, Some(20.0)));
        let [clone, critical] = found[0].phases.as_slice() else { panic!("{found:?}") };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            near(clone.workloads["writers"].depth, 0.4) && near(clone.workloads["writers"].area_ops, 320.0)
        );
        assert!(
            near(critical.workloads["writers"].depth, 1.0)
                && near(critical.workloads["writers"].area_ops, 200.0)
        );
    }

    #[test]
    fn a_part_of_a_second_counts_in_part() {
        let found = measure(&recording(|t| if t == 30 { 50 } else { 100 }, vec![moved(30.25, 0.5, 0.0)]));
        let cost = &found[0].workloads["writers"];
        assert_eq!((cost.area_ops, cost.depth), (25.0, 0.5));
    }

    #[test]
    fn a_control_window_holds_no_other_move_and_no_seconds_after_one() {
        let slow = |t| if (20..30).contains(&t) { 10 } else { 100 };
        let moves = vec![moved(20.0, 10.0, 0.0), moved(31.0, 10.0, 0.0), moved(50.0, 6.0, 0.0)];
        let found = measure(&recording(slow, moves));
        let control: Vec<_> = found.iter().map(|m| m.control_from_s).collect();
        assert_eq!(control, [Some(10.0), Some(10.0), Some(44.0)]);
        assert_eq!(found[1].workloads["writers"].expected_ops_s, 100.0);
    }

    #[test]
    fn without_a_control_window_nothing_is_said_of_the_load() {
        let found = measure(&recording(|_| 100, vec![moved(3.0, 4.0, 0.0)]));
        assert!(found[0].control_from_s.is_none() && found[0].workloads.is_empty());
        assert_eq!(found[0].seconds, 4.0);
        let nothing_before =
            measure(&recording(|t| if t < 30 { 0 } else { 100 }, vec![moved(20.0, 4.0, 0.0)]));
        assert!(nothing_before[0].workloads.is_empty());
    }

    #[test]
    fn a_load_that_felt_nothing_lost_nothing() {
        let found = measure(&recording(|_| 100, vec![moved(30.0, 4.0, 1.0)]));
        let cost = &found[0].workloads["writers"];
        assert_eq!((cost.depth, cost.area_ops, cost.equivalent_outage_s), (0.0, 0.0, 0.0));
    }
}
