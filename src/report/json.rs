//! `report.json`.

use std::io;
use std::path::Path;

use super::data::Report;
use crate::file;

/// Name of the file in the run directory.
pub const FILE: &str = "report.json";

/// Writes it, as a whole: readers see the old one or the new one.
///
/// # Errors
/// When it cannot be written.
pub fn write(dir: &Path, report: &Report) -> io::Result<()> {
    file::replace(&dir.join(FILE), &(serde_json::to_string_pretty(report)? + "\n"))
}
