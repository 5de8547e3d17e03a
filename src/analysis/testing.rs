//! Hand-made recordings for the tests of the measures.

use std::time::Duration;

use faults::Spec;

use crate::recording::{
    FaultOutcome, FaultRecord, Gap, Piece, Recording, Second, WITHIN_S, WorkloadRecording,
};
use crate::report::data::{FaultReport, Percentiles, WorkloadReport};
use crate::scenario::Measures;

/// p99 that a [`Load`] starts with, in microseconds.
pub const P99_US: u64 = 5_000;

/// A workload, written down second by second.
#[derive(Clone)]
pub struct Load {
    name: String,
    rate: Option<f64>,
    rows: Vec<Second>,
    p99: Vec<Option<u64>>,
    p99_us: u64,
}

impl Load {
    /// Open loop.
    pub fn open(name: &str, rate: u64) -> Self {
        Self { rate: Some(rate as f64), ..Self::closed(name) }
    }

    /// Closed loop.
    pub fn closed(name: &str) -> Self {
        Self { name: name.into(), rate: None, rows: vec![], p99: vec![], p99_us: P99_US }
    }

    /// From now on this p99.
    pub fn p99(mut self, us: u64) -> Self {
        self.p99_us = us;
        self
    }

    /// One second as it is.
    pub fn row(mut self, row: Second) -> Self {
        let any = row.ok + row.failed + row.unknown > 0;
        self.p99.push(any.then_some(self.p99_us));
        self.rows.push(row);
        self
    }

    /// `seconds` with `ok` good operations each, and nothing else.
    pub fn ok(self, seconds: usize, ok: u64) -> Self {
        self.rows(seconds, Second { ok, ..Second::default() })
    }

    /// `seconds` of the same.
    pub fn rows(self, seconds: usize, row: Second) -> Self {
        (0..seconds).fold(self, |load, _| load.row(row))
    }

    /// One second for each of these numbers of good operations.
    pub fn series(self, ok: impl IntoIterator<Item = u64>) -> Self {
        ok.into_iter().fold(self, |load, ok| load.row(Second { ok, ..Second::default() }))
    }

    /// `seconds` in which `ok` succeed and the rest of the rate (or, in a closed loop, 10) fails.
    pub fn failing(self, seconds: usize, ok: u64) -> Self {
        let failed = self.rate.map_or(10, |rate| rate as u64 - ok);
        self.rows(seconds, Second { ok, failed, ..Second::default() })
    }

    /// `seconds` in which nothing is scheduled and nothing finishes: every worker is stuck.
    pub fn stuck(self, seconds: usize) -> Self {
        self.ok(seconds, 0)
    }

    /// The recording that follows from it: whole pieces where all is good, 100 ms ones elsewhere, and
    /// gaps where whole seconds are without success.
    pub fn build(self) -> WorkloadRecording {
        let over = |i: usize, seconds: usize| {
            self.p99[(i + 1).saturating_sub(seconds)..=i].iter().filter_map(|us| *us).max()
        };
        let mut work =
            WorkloadRecording { name: self.name.clone(), rate_ops_s: self.rate, ..Default::default() };
        for (i, row) in self.rows.iter().enumerate() {
            let service_p99_us = row.service_p99_us.or(self.p99[i].filter(|_| row.ok > 0));
            let (p99_5s_us, p99_10s_us) = (over(i, 5), over(i, 10));
            work.seconds.push(Second { p99_5s_us, p99_10s_us, service_p99_us, ..*row });
            work.availability.extend(pieces(i, row));
            if row.ok == 0 {
                let (from_s, to_s) = (i as f64, (i + 1) as f64);
                match work.gaps.last_mut() {
                    Some(gap) if gap.to_s == from_s => gap.to_s = to_s,
                    _ => work.gaps.push(Gap { from_s, to_s }),
                }
            }
        }
        work
    }
}

/// The pieces of one second: one where all is good, else ten with their share each.
fn pieces(second: usize, row: &Second) -> Vec<Piece> {
    let bad = row.failed + row.unknown;
    let scheduled = row.ok + bad + row.missed;
    let from_s = |i: u64| (second as u64 * 10 + i) as f64 / 10.0;
    if scheduled == row.ok {
        return if scheduled > 0 { vec![piece(from_s(0), 1.0, row.ok, row.ok)] } else { vec![] };
    }
    let share = |all: u64, i: u64| all / 10 + u64::from(i < all % 10);
    let tenth = |i: u64| {
        let (ok, not_ok) = (share(row.ok, i), share(bad, i));
        let all = ok + not_ok + share(row.missed, i);
        Piece { not_ok, ..piece(from_s(i), 0.1, all, ok) }
    };
    (0..10).map(tenth).filter(|p| p.scheduled > 0).collect()
}

/// A piece whose operations were good at once, or not at all.
pub fn piece(from_s: f64, width_s: f64, scheduled: u64, ok: u64) -> Piece {
    Piece { from_s, width_s, scheduled, ok_within: [ok; WITHIN_S.len()], not_ok: scheduled - ok }
}

/// A kill of the primary that took effect at once, and was lifted then too.
pub fn fault(id: &str, at_s: f64) -> FaultRecord {
    FaultRecord {
        id: id.into(),
        spec: Spec::new("kill", &serde_json::Value::Null).unwrap(),
        planned_s: Some(at_s),
        injected_s: Some(at_s),
        effective_s: Some(at_s),
        lifted_s: Some(at_s),
        nodes: vec!["rs0-1".into()],
        roles: vec![faults::Role::Primary],
        outcome: FaultOutcome::Effective,
        reason: None,
        evidence: faults::Evidence::new(),
    }
}

/// A recording as long as its longest workload.
pub fn recording(loads: Vec<Load>, faults: Vec<FaultRecord>) -> Recording {
    let workloads: Vec<_> = loads.into_iter().map(Load::build).collect();
    let seconds = workloads.iter().map(|w| w.seconds.len()).max().unwrap_or(0);
    Recording { duration_s: seconds as f64, workloads, faults, ..Recording::default() }
}

/// Measures one workload and its faults with the default settings.
pub fn judged(load: Load, faults: Vec<FaultRecord>) -> Vec<FaultReport> {
    super::judge_faults(&recording(vec![load], faults), &Measures::default())
}

/// The same with one fault.
pub fn judged_once(load: Load, fault: FaultRecord) -> FaultReport {
    judged(load, vec![fault]).remove(0)
}

/// The textbook failover: normal is 500/s; after the kill nothing for 2 s, 480/s for 3 s, then a second
/// election leaves 26/s for 30 s, and a cold cache lets it climb from 300/s to 500/s over 60 s.
pub fn two_elections(normal_before: usize, normal_after: usize) -> Vec<u64> {
    let climb = (0..60).map(|i| 300 + (200.0 * f64::from(i) / 59.0).round() as u64);
    let mut series = vec![500; normal_before];
    series.extend([0; 2]);
    series.extend([480; 3]);
    series.extend([26; 30]);
    series.extend(climb);
    series.extend(vec![500; normal_after]);
    series
}

/// How the recovery of that failover is to be measured: 90 %, held for 10 s.
pub fn ninety_percent_for_ten_seconds() -> Measures {
    Measures {
        sustained_for: Some(Duration::from_secs(10)),
        sustained_throughput: 0.9,
        ..Measures::default()
    }
}

/// A workload over the whole run with this many good operations and nothing else.
pub fn workload_report(name: &str, ok: u64) -> WorkloadReport {
    WorkloadReport {
        name: name.into(),
        op: "insert".into(),
        rate_ops_s: None,
        ok,
        failed: 0,
        unknown: 0,
        missed: 0,
        throughput_ops_s: ok as f64,
        longest_gap_s: None,
        note: None,
        response_us: Percentiles::default(),
        service_us: Percentiles::default(),
        ops: vec![],
        errors: vec![],
    }
}
