//! `latency.hlog`: the standard HdrHistogram interval log (V2, compressed), one entry per second,
//! workload and kind. Values are microseconds. Kinds: `response` (acknowledged operations from their
//! intended start), `service` (the same from the send), `unanswered` (missed and timed-out operations, and
//! others that failed or stayed unknown after more than 1 s, with the time they had waited); in a mix also
//! `response.read` and so on (the operations of one kind that were sent, the same ones with the time they had
//! waited).

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use super::files::Appender;
use crate::workload::Cell;

const HEADER: &str = "#[mongosoak latency log; values in microseconds]\n\
                      #[Histogram log format version 1.3]\n\
                      \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// What the tag of one kind of operation begins with, behind the workload.
pub const OF_A_KIND: &str = "response.";

/// The writer of the log.
pub struct LatencyLog {
    file: Appender,
    serializer: V2DeflateSerializer,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for LatencyLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LatencyLog").field("file", &self.file).finish_non_exhaustive()
    }
}

impl LatencyLog {
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = Appender::create(path, HEADER)?;
        Ok(Self { file, serializer: V2DeflateSerializer::new(), buffer: Vec::new() })
    }

    /// Writes the histograms of one second that are not empty.
    pub fn second(&mut self, t_s: u64, workload: &str, cell: &Cell) -> io::Result<()> {
        let all = [
            ("response", &cell.response, cell.max_us),
            ("service", &cell.service, cell.service.max()),
            ("unanswered", &cell.unanswered, cell.max_us),
        ];
        for (kind, histogram, max_us) in all {
            if !histogram.is_empty() {
                self.entry(t_s, &format!("{}/{kind}", tag(workload)), histogram, max_us)?;
            }
        }
        for (kind, cell) in cell.kinds.iter().filter(|(_, cell)| !cell.response.is_empty()) {
            let tag = format!("{}/{OF_A_KIND}{}", tag(workload), kind.word());
            self.entry(t_s, &tag, &cell.response, cell.max_us)?;
        }
        Ok(())
    }

    /// `max_us` is the true maximum, which the histogram may have clamped.
    fn entry(&mut self, t_s: u64, tag: &str, histogram: &Histogram<u64>, max_us: u64) -> io::Result<()> {
        self.buffer.clear();
        let done = self.serializer.serialize(histogram, &mut self.buffer);
        done.map_err(|e| io::Error::other(format!("encode a latency histogram: {e}")))?;
        let text = STANDARD.encode(&self.buffer);
        #[expect(clippy::cast_precision_loss, reason = "a latency of hours at most")]
        let max_ms = max_us as f64 / 1e3;
        self.file.write_line(&format!("Tag={tag},{t_s}.000,1.000,{max_ms:.3},{text}"))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A workload's name as a tag: the format ends a tag at a comma, and a line at a white space.
#[must_use]
pub fn tag(workload: &str) -> String {
    workload.chars().map(|c| if c == ',' || c.is_whitespace() { '_' } else { c }).collect()
}
