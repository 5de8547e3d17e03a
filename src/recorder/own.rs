//! `tester.csv`: what the tester itself took of the machine, one row a second. A second that it slept through
//! has no row; the row after it is as long as both.

use std::io;
use std::path::Path;

use super::files::Appender;
use crate::recording::OwnSecond;

const HEADER: &str = "t_s,seconds,cpu_s,waited_s,stolen_s,pressure_s,rss_bytes,descriptors,threads,\
                      event_queue,sample_queue,abandoned\n";

/// The writer of the file.
#[derive(Debug)]
pub struct OwnLog(Appender);

impl OwnLog {
    pub fn create(dir: &Path) -> io::Result<Self> {
        Appender::create(&dir.join("tester.csv"), HEADER).map(Self)
    }

    /// Writes the row of second `t_s` of the measured phase.
    pub fn row(&mut self, t_s: u64, own: &OwnSecond) -> io::Result<()> {
        let known = |value: Option<f64>| value.map_or(String::new(), |s| format!("{s:.3}"));
        self.0.write_line(&format!(
            "{t_s},{:.3},{:.3},{:.3},{},{},{},{},{},{},{},{}",
            own.seconds,
            own.cpu_s,
            own.waited_s,
            known(own.stolen_s),
            known(own.pressure_s),
            own.rss_bytes,
            own.descriptors,
            own.threads,
            own.event_queue,
            own.sample_queue,
            own.abandoned,
        ))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
