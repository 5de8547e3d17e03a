//! The moves of chunks and what the load felt of them: as data, and as a table for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::table;
use super::{bytes, count, duration_s};

/// Rows that a person reads; the rest is in `report.json`.
const MOST_ROWS: usize = 30;

/// A move of a chunk, and what the load felt of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationReport {
    /// Database and collection.
    pub ns: String,
    /// Lower bound of the range, inclusive; as text.
    pub min: String,
    /// Upper bound of the range, exclusive; as text.
    pub max: String,
    /// The shard that gave.
    pub from: String,
    /// The shard that took.
    pub to: String,
    /// `committed` or `aborted`.
    pub outcome: String,
    /// What the donor noted of an end before its time.
    pub why: Option<String>,
    /// When it began, in seconds from the start of the measured phase.
    pub started_s: f64,
    /// How long it took, without the deletion of the old copies.
    pub seconds: f64,
    /// Documents that were copied; `None`: not noted.
    pub docs: Option<u64>,
    /// Bytes that were copied at first; `None`: not noted.
    pub bytes: Option<u64>,
    /// Start of the control window; `None`: there was none, and so nothing is said of the load.
    pub control_from_s: Option<f64>,
    /// What it cost, by workload.
    pub workloads: BTreeMap<String, MigrationCost>,
    /// The same by phase.
    pub phases: Vec<MigrationPhaseReport>,
}

/// One phase of a migration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationPhaseReport {
    /// `prepare`, `clone`, `critical_section`, `commit`.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// What it cost, by workload.
    pub workloads: BTreeMap<String, MigrationCost>,
}

/// What one workload lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MigrationCost {
    /// T: good operations a second in the control window.
    pub expected_ops_s: f64,
    /// 1 - min ok/T over the seconds that it touches.
    pub depth: f64,
    /// Sum of max(0, T - ok), in operations.
    pub area_ops: f64,
    /// The time in which so many operations would have been done.
    pub equivalent_outage_s: f64,
}

/// The table; nothing when nothing moved.
pub(super) fn table_of(text: &mut String, migrations: &[MigrationReport]) {
    if migrations.is_empty() {
        return;
    }
    let head = [
        "migration",
        "at",
        "took",
        "documents",
        "size",
        "clone",
        "critical section",
        "commit",
        "depth",
        "lost work",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(migrations.iter().take(MOST_ROWS).map(row));
    table(text, &rows, 1);
    if migrations.len() > MOST_ROWS {
        text.push_str(&format!("  ... and {} more, in report.json\n", migrations.len() - MOST_ROWS));
    }
    text.push_str(
        "  depth, lost work: of the workload that suffered most, against as many seconds before it in which nothing \
         moved\n\n",
    );
}

fn row(moved: &MigrationReport) -> Vec<String> {
    let dash = || "-".to_owned();
    let phase = |name: &str| {
        let found = moved.phases.iter().find(|phase: &&MigrationPhaseReport| phase.name == name);
        found.map_or_else(dash, |phase| duration_s(phase.seconds))
    };
    let worst = moved.workloads.values().max_by(|a: &&MigrationCost, b| a.area_ops.total_cmp(&b.area_ops));
    let aborted = if moved.outcome == "committed" { "" } else { " (aborted)" };
    vec![
        format!("{} -> {}{aborted}", moved.from, moved.to),
        format!("{:.1} s", moved.started_s),
        duration_s(moved.seconds),
        moved.docs.map_or_else(dash, count),
        moved.bytes.map_or_else(dash, bytes),
        phase("clone"),
        phase("critical_section"),
        phase("commit"),
        worst.map_or_else(dash, |cost| format!("{:.0} %", 100.0 * cost.depth)),
        worst.map_or_else(dash, |cost| {
            format!("{:.0} = {}", cost.area_ops, duration_s(cost.equivalent_outage_s))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_one_row_and_many_are_cut() {
        let cost =
            MigrationCost { expected_ops_s: 100.0, depth: 0.5, area_ops: 200.0, equivalent_outage_s: 2.0 };
        let phase = |name: &str, seconds| MigrationPhaseReport {
            name: name.into(),
            seconds,
            workloads: BTreeMap::new(),
        };
        let moved = MigrationReport {
            ns: "soak.docs".into(),
            min: "_id: 1".into(),
            max: "_id: 2".into(),
            from: "shard0".into(),
            to: "shard1".into(),
            outcome: "aborted".into(),
            why: None,
            started_s: 12.34,
            seconds: 3.5,
            docs: Some(1_234),
            bytes: None,
            control_from_s: Some(8.0),
            workloads: BTreeMap::from([("writers".to_owned(), cost)]),
            phases: vec![phase("clone", 3.0), phase("critical_section", 0.05)],
        };
        let mut text = String::new();
        table_of(&mut text, std::slice::from_ref(&moved));
        for part in ["shard0 -> shard1 (aborted)", "12.3 s", "1,234", "50.0 ms", "50 %", "200 = 2.0"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let mut many = String::new();
        table_of(&mut many, &vec![moved; 40]);
        assert!(many.contains("and 10 more, in report.json"), "{many}");
        let mut none = String::new();
        table_of(&mut none, &[]);
        assert_eq!(none, "");
    }
}
