//! Append-only text files, and the columns of the timeline.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::workload::Sample;

/// A text file that only grows.
#[derive(Debug)]
pub struct Appender {
    file: BufWriter<File>,
    path: String,
}

impl Appender {
    /// Makes the file and writes its header.
    pub fn create(path: &Path, header: &str) -> io::Result<Self> {
        let file = File::create(path).map_err(|e| named(path, &e))?;
        let mut file = BufWriter::new(file);
        file.write_all(header.as_bytes())?;
        file.flush()?;
        Ok(Self { file, path: path.display().to_string() })
    }

    /// Appends one line; it reaches the file with the next flush.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|e| named(Path::new(&self.path), &e))
    }

    /// Hands what was written to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|e| named(Path::new(&self.path), &e))
    }

    /// Makes sure that it is on the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.get_ref().sync_data()
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
}

/// A text as one CSV cell.
pub fn csv_text(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

const COLUMNS: &str = "t_s,workload,ok,failed,unknown,missed,in_flight,oldest_ms,\
                       p50_us,p90_us,p99_us,p999_us,max_us,workers_alive,late_us,late_starts\n";

/// `timeline.csv` and `warmup.csv`: one row per second and workload; empty cells where there is no value.
#[derive(Debug)]
pub struct Timeline(Appender);

impl Timeline {
    pub fn create(path: &Path) -> io::Result<Self> {
        Appender::create(path, COLUMNS).map(Self)
    }

    pub fn row(&mut self, t_s: u64, workload: &str, sample: &Sample) -> io::Result<()> {
        let cell = &sample.taken.cell;
        let quantile = |q: f64| {
            if cell.ok > 0 { cell.response.value_at_quantile(q).to_string() } else { String::new() }
        };
        let largest = if cell.max_us > 0 { cell.max_us.to_string() } else { String::new() };
        let oldest = sample.oldest.map(|age| age.as_millis().to_string()).unwrap_or_default();
        self.0.write_line(&format!(
            "{t_s},{},{},{},{},{},{},{oldest},{},{},{},{},{largest},{},{},{}",
            csv_text(workload),
            cell.ok,
            cell.failed,
            cell.unknown,
            cell.missed,
            sample.in_flight,
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            quantile(0.999),
            sample.workers_alive,
            cell.late.as_micros(),
            cell.late_starts,
        ))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
