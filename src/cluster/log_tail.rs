//! The end of a server's log, for a message about its start.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Lines that are shown.
const LINES: usize = 5;
const LINE_CHARACTERS: usize = 400;

/// The last errors that were written from there on; without any the last lines.
pub fn last_lines(text: &str) -> String {
    let errors = text.lines().filter(|l| l.contains(r#""s":"E""#) || l.contains(r#""s":"F""#));
    let mut lines: Vec<&str> = errors.collect();
    if lines.is_empty() {
        lines = text.lines().collect();
    }
    let from = lines.len().saturating_sub(LINES);
    lines[from..]
        .iter()
        .map(|l| format!("  {}", l.chars().take(LINE_CHARACTERS).collect::<String>()))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What was appended to a file; empty when it cannot be read.
pub fn read_from(path: &Path, from: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}
