//! `operations.csv`: the kinds of operations of a mix, one row per second, workload and kind that was sent.

use std::io;
use std::path::Path;

use super::files::{Appender, csv_text};
use crate::workload::Kinds;

/// Name of the file.
pub const FILE: &str = "operations.csv";
const HEADER: &str = "t_s,workload,op,ok,failed,unknown,p50_us,p99_us,max_us\n";

/// The writer of the file.
#[derive(Debug)]
pub struct OperationsLog(Appender);

impl OperationsLog {
    pub fn create(dir: &Path) -> io::Result<Self> {
        Appender::create(&dir.join(FILE), HEADER).map(Self)
    }

    /// Writes the rows of second `t_s` of the measured phase; empty cells where there is no value.
    pub fn rows(&mut self, t_s: u64, workload: &str, kinds: &Kinds) -> io::Result<()> {
        for (kind, cell) in kinds {
            let known = !cell.response.is_empty();
            let us = |value: u64| if known { value.to_string() } else { String::new() };
            self.0.write_line(&format!(
                "{t_s},{},{},{},{},{},{},{},{}",
                csv_text(workload),
                kind.word(),
                cell.ok,
                cell.failed,
                cell.unknown,
                us(cell.response.value_at_quantile(0.5)),
                us(cell.response.value_at_quantile(0.99)),
                us(cell.max_us),
            ))?;
        }
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
