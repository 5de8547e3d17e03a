//! The second-by-second files.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::{Counts, ReadError, RunRecord, whole_lines};
use crate::recorder::operations;
use crate::recording::{Gap, LoadSecond, OwnSecond, Piece, Second, WorkloadRecording};

#[derive(Deserialize)]
struct TimelineRow {
    t_s: usize,
    workload: String,
    ok: u64,
    failed: u64,
    unknown: u64,
    missed: u64,
    workers_alive: u64,
    late_starts: u64,
}

#[derive(Deserialize)]
struct AvailabilityRow {
    from_ms: u64,
    width_ms: u64,
    workload: String,
    scheduled: u64,
    not_ok: u64,
    ok_1s: u64,
    ok_2s: u64,
    ok_5s: u64,
    ok_10s: u64,
    ok_30s: u64,
    ok_60s: u64,
}

#[derive(Deserialize)]
struct GapRow {
    workload: String,
    from_s: f64,
    to_s: f64,
}

#[derive(Deserialize)]
struct OperationsRow {
    workload: String,
    op: String,
    ok: u64,
    failed: u64,
    unknown: u64,
}

/// What became of the kinds of operations of a mix, by workload and kind.
pub fn read_operations(dir: &Path) -> Result<BTreeMap<(String, String), Counts>, ReadError> {
    let mut sums: BTreeMap<(String, String), Counts> = BTreeMap::new();
    for row in rows::<OperationsRow>(&dir.join(operations::FILE))? {
        let sum = sums.entry((row.workload, row.op)).or_default();
        sum.ok += row.ok;
        sum.failed += row.failed;
        sum.unknown += row.unknown;
    }
    Ok(sums)
}

/// Fills the workloads of the recording, in the order in which they appear (that of the scenario).
pub fn read(dir: &Path, record: &mut RunRecord) -> Result<(), ReadError> {
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut most_alive: BTreeMap<String, u64> = BTreeMap::new();
    let mut fewest_alive: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows::<TimelineRow>(&dir.join("timeline.csv"))? {
        let workloads = &mut record.recording.workloads;
        let index = *by_name.entry(row.workload.clone()).or_insert_with(|| {
            workloads.push(WorkloadRecording { name: row.workload.clone(), ..WorkloadRecording::default() });
            workloads.len() - 1
        });
        let seconds = &mut workloads[index].seconds;
        // No second is left out; a gap could only come from a damaged file.
        seconds.resize(seconds.len().max(row.t_s + 1), Second::default());
        seconds[row.t_s] = second(&row);
        record.tester.late_starts += row.late_starts;
        let most = most_alive.entry(row.workload.clone()).or_default();
        *most = (*most).max(row.workers_alive);
        let fewest = fewest_alive.entry(row.workload).or_insert(u64::MAX);
        *fewest = (*fewest).min(row.workers_alive);
    }
    read_load(dir, record)?;
    record.lost_workers = lost(&most_alive, &fewest_alive);
    read_availability(dir, record, &by_name)?;
    for row in rows::<GapRow>(&dir.join("gaps.csv"))? {
        if let Some(index) = by_name.get(&row.workload) {
            let gap = Gap { from_s: row.from_s, to_s: row.to_s };
            record.recording.workloads[*index].gaps.push(gap);
        }
    }
    Ok(())
}

/// Median and slowest second of the load: of its first pass, until the last document was in. The first and the
/// last second are not whole ones, and a load that goes on begins with reading.
fn read_load(dir: &Path, record: &mut RunRecord) -> Result<(), ReadError> {
    let mut rows = rows::<LoadSecond>(&dir.join("load.csv"))?;
    let Some(load) = &mut record.load else { return Ok(()) };
    let pass = rows.iter().enumerate().take_while(|(at, row)| row.t_s == *at as u64).count();
    rows.truncate(pass);
    rows.truncate(rows.iter().rposition(|row| row.documents > 0).map_or(0, |last| last + 1));
    let reading =
        if load.done.resumed { rows.iter().take_while(|row| row.documents == 0).count() } else { 0 };
    let rows = &rows[reading..];
    let Some(whole) = rows.get(1..rows.len().saturating_sub(1)).filter(|whole| !whole.is_empty()) else {
        return Ok(());
    };
    let mut rates: Vec<u64> = whole.iter().map(|second| second.documents).collect();
    rates.sort_unstable();
    load.median_docs_per_s = rates.get(rates.len() / 2).copied();
    let slowest = whole.iter().min_by_key(|second| second.documents);
    load.slowest_docs_per_s = slowest.map(|second| second.documents);
    load.slowest_at_s = slowest.map(|second| second.t_s);
    Ok(())
}

/// `tester.csv`; empty in runs of versions that did not write it.
pub fn read_own(dir: &Path) -> Result<Vec<OwnSecond>, ReadError> {
    rows(&dir.join("tester.csv"))
}

fn second(row: &TimelineRow) -> Second {
    Second {
        ok: row.ok,
        failed: row.failed,
        unknown: row.unknown,
        missed: row.missed,
        late_starts: row.late_starts,
        ..Second::default()
    }
}

/// Workloads of which some worker was gone at some time. The last second is taken when all have ended.
fn lost(most: &BTreeMap<String, u64>, fewest: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let missing = |(name, most): (&String, &u64)| {
        let fewest = fewest.get(name).copied().unwrap_or(*most);
        (fewest < *most).then(|| (name.clone(), most - fewest))
    };
    most.iter().filter_map(missing).collect()
}

fn read_availability(
    dir: &Path,
    record: &mut RunRecord,
    by_name: &BTreeMap<String, usize>,
) -> Result<(), ReadError> {
    let mut pieces: BTreeMap<(usize, u64), (u64, Piece)> = BTreeMap::new();
    for row in rows::<AvailabilityRow>(&dir.join("availability.csv"))? {
        let Some(index) = by_name.get(&row.workload) else {
            continue;
        };
        // A late change to a piece (or to the second that holds it) is added to it.
        let holder = pieces.range(..=(*index, row.from_ms)).next_back();
        let holder = holder.filter(|((i, from), (width, _))| i == index && from + width > row.from_ms);
        let key = holder.map_or((*index, row.from_ms), |(key, _)| *key);
        let (_, piece) = pieces.entry(key).or_insert_with(|| (row.width_ms, empty(&row)));
        piece.scheduled += row.scheduled;
        piece.not_ok += row.not_ok;
        let more = [row.ok_1s, row.ok_2s, row.ok_5s, row.ok_10s, row.ok_30s, row.ok_60s];
        piece.ok_within.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    for ((index, _), (_, piece)) in pieces {
        record.recording.workloads[index].availability.push(piece);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
fn empty(row: &AvailabilityRow) -> Piece {
    Piece { from_s: row.from_ms as f64 / 1e3, width_s: row.width_ms as f64 / 1e3, ..Piece::default() }
}

/// All whole rows; a torn last row (a name may hold a line end) is passed over.
fn rows<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, ReadError> {
    let Some(file) = whole_lines(path)? else { return Ok(Vec::new()) };
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let mut all = Vec::new();
    let mut torn: Option<csv::Error> = None;
    for row in reader.deserialize() {
        if let Some(error) = torn {
            return Err(ReadError::new(path, error));
        }
        match row {
            Ok(row) => {
                all.push(row);
                torn = None;
            }
            Err(error) => torn = Some(error),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::data::Load;

    fn pace(resumed: bool, documents: &[u64]) -> [Option<u64>; 3] {
        let dir = tempfile::tempdir().unwrap();
        let rows = (0..).zip(documents).map(|(t, n): (u64, _)| format!("{t},{n},1,0,{}\n", n * 400));
        let text = format!("t_s,documents,batches,failed_tries,bytes\n{}", rows.collect::<String>());
        std::fs::write(dir.path().join("load.csv"), text).unwrap();
        let mut load = Load::default();
        load.done.resumed = resumed;
        let mut record = RunRecord { load: Some(load), ..RunRecord::default() };
        read_load(dir.path(), &mut record).unwrap();
        let load = record.load.unwrap();
        [load.median_docs_per_s, load.slowest_docs_per_s, load.slowest_at_s]
    }

    #[test]
    fn a_stall_of_the_load_is_its_slowest_second_and_edges_are_not() {
        assert_eq!(pace(false, &[7, 900, 950, 0, 960, 970, 3]), [Some(950), Some(0), Some(3)]);
        assert_eq!(pace(false, &[7, 3]), [None, None, None]);
        assert_eq!(pace(false, &[]), [None, None, None]);
        // What goes on reads first; what begins has no excuse.
        assert_eq!(pace(true, &[0, 0, 7, 900, 950, 3]), [Some(950), Some(900), Some(3)]);
        assert_eq!(pace(false, &[0, 0, 7, 900, 950, 3]), [Some(900), Some(0), Some(1)]);
        assert_eq!(pace(true, &[0, 0]), [None, None, None]);
        // Indexes are built when all is in.
        assert_eq!(pace(false, &[7, 900, 3, 0, 0]), [Some(900), Some(900), Some(1)]);
    }
}
