//! `report.json`.

use std::io;
use std::path::Path;

use super::data::Report;

/// Name of the file in the run directory.
pub const FILE: &str = "report.json";

/// Writes it, as a whole: readers see the old one or the new one.
///
/// # Errors
/// When it cannot be written.
pub fn write(dir: &Path, report: &Report) -> io::Result<()> {
    let fresh = dir.join("report.json.tmp");
    std::fs::write(&fresh, serde_json::to_string_pretty(report)? + "\n")?;
    std::fs::rename(fresh, dir.join(FILE))
}
