//! The summary as YCSB prints it, for those who read it, or have scripts that do.

use std::fmt::Write;

use super::data::{OpReport, Report};

/// One line for each number, `[OVERALL], Throughput(ops/sec), ...` first. Only acknowledged operations count as
/// throughput; a kind that several workloads have is printed once for each of them.
#[must_use]
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let ok: f64 = report.workloads.iter().map(|w| w.throughput_ops_s).sum();
    line(&mut text, "OVERALL", "RunTime(ms)", format!("{:.0}", report.run.duration_s * 1e3));
    line(&mut text, "OVERALL", "Throughput(ops/sec)", ok);
    for op in report.workloads.iter().flat_map(|w| &w.ops) {
        kind(&mut text, op);
    }
    text
}

fn kind(text: &mut String, op: &OpReport) {
    let name = op.op.to_uppercase().replace('_', "-");
    let us = &op.response_us;
    let known = |value: Option<u64>| value.map_or_else(|| "NaN".to_owned(), |us| us.to_string());
    line(text, &name, "Operations", op.ok);
    line(text, &name, "AverageLatency(us)", us.mean.unwrap_or(f64::NAN));
    line(text, &name, "MinLatency(us)", known(us.min));
    line(text, &name, "MaxLatency(us)", known(us.max));
    line(text, &name, "95thPercentileLatency(us)", known(us.p95));
    line(text, &name, "99thPercentileLatency(us)", known(us.p99));
    line(text, &name, "Return=OK", op.ok);
    let failed = op.failed + op.unknown;
    if failed > 0 {
        line(text, &name, "Return=ERROR", failed);
        line(text, &format!("{name}-FAILED"), "Operations", failed);
    }
}

fn line(text: &mut String, of: &str, what: &str, value: impl std::fmt::Display) {
    let _infallible = writeln!(text, "[{of}], {what}, {value}");
}
