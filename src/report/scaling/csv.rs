//! `sweep.csv`: the steps as data for a plot, one row a step.

use std::io;
use std::path::Path;

use super::SweepReport;
use crate::file;
use crate::report::data::Report;

/// Name of the file in the run directory.
pub const FILE: &str = "sweep.csv";

const HEADER: &str = "step,workers,rate_ops_s,from_s,to_s,throughput_ops_s,p50_us,p99_us,mean_us,service_p50_us,\
                      service_p99_us,service_mean_us,ok,failed,unknown,missed,in_flight,idle_share,cpu_share,verdict\n";

/// Writes it for a run that had a sweep.
///
/// # Errors
/// When it cannot be written.
pub fn write(dir: &Path, report: &Report) -> io::Result<()> {
    report.sweep.as_ref().map_or(Ok(()), |sweep| file::replace(&dir.join(FILE), &text(sweep)))
}

/// The file. A cell is empty where there is no value; `verdict` is 0 for a step that carries none.
#[must_use]
pub fn text(sweep: &SweepReport) -> String {
    let mut text = HEADER.to_owned();
    for step in &sweep.steps {
        let (response, service) = (&step.response_us, &step.service_us);
        let us = |value: Option<u64>| value.map_or(String::new(), |us| us.to_string());
        let cell = |value: Option<f64>| value.map_or(String::new(), |x| format!("{x:.3}"));
        let cells = [
            step.index.to_string(),
            step.workers.to_string(),
            cell(step.rate_ops_s),
            step.from_s.to_string(),
            step.to_s.to_string(),
            cell(step.throughput_ops_s),
            us(response.p50),
            us(response.p99),
            cell(response.mean),
            us(service.p50),
            us(service.p99),
            cell(service.mean),
            step.ok.to_string(),
            step.failed.to_string(),
            step.unknown.to_string(),
            step.missed.to_string(),
            cell(step.in_flight),
            cell(step.idle_share),
            cell(step.cpu_share),
            u8::from(step.no_verdict.is_none()).to_string(),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
