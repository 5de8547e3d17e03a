//! The tables of a sweep and of a search, for the terminal.

use super::{FindMaxReport, ProbeReport, StepReport, Stepped, SweepReport};
use crate::report::data::Report;
use crate::report::text::table;
use crate::report::{count, duration_us, per_second};

/// Appends what there is of both.
pub fn sections(text: &mut String, report: &Report) {
    if let Some(sweep) = &report.sweep {
        steps(text, sweep);
    }
    if let Some(found) = &report.find_max {
        search(text, found);
    }
}

fn steps(text: &mut String, sweep: &SweepReport) {
    let load = match sweep.stepped {
        Stepped::Workers => "workers",
        Stepped::Rate => "rate",
    };
    let mut rows = vec![
        ["sweep", load, "ok/s", "p50", "p99", "mean", "not ok", "missed", "in flight", "idle", "own cpu"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for step in &sweep.steps {
        let knee = sweep.knee.step == Some(step.index);
        rows.push(row(if rows.len() == 1 { &sweep.workload } else { "" }, step, knee));
    }
    table(text, &rows, 1);
    text.push_str(
        "  latencies: response time; in flight: throughput x mean service time; idle: workers without work\n",
    );
    for step in sweep.steps.iter().filter(|step| step.no_verdict.is_some()) {
        let why = step.no_verdict.as_deref().unwrap_or_default();
        text.push_str(&format!("  {:<9} step {} carries no verdict: {why}\n", "", step.index + 1));
    }
    for (i, sentence) in sweep.knee.text.iter().enumerate() {
        text.push_str(&format!("  {:<9} {sentence}\n", if i == 0 { "scaling" } else { "" }));
    }
    text.push('\n');
}

fn row(label: &str, step: &StepReport, knee: bool) -> Vec<String> {
    let us = |value: Option<u64>| value.map_or("-".into(), duration_us);
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.0} %", 100.0 * share));
    let load = step.rate_ops_s.map_or_else(|| step.workers.to_string(), per_second);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people")]
    let mean = step.response_us.mean.map(|us| us.round() as u64);
    let mut cells = vec![
        label.to_owned(),
        load,
        step.throughput_ops_s.map_or("-".into(), |ops_s| format!("{ops_s:.1}")),
        us(step.response_us.p50),
        us(step.response_us.p99),
        us(mean),
        count(step.failed + step.unknown),
        count(step.missed),
        step.in_flight.map_or("-".into(), |n| format!("{n:.1}")),
        percent(step.idle_share),
        percent(step.cpu_share),
    ];
    if step.no_verdict.is_some() {
        cells.push("(no verdict)".into());
    } else if knee {
        cells.push("<-".into());
    }
    cells
}

fn search(text: &mut String, found: &FindMaxReport) {
    let mut rows = vec![
        ["find-max", "rate", "ok", "p99", "not ok", "missed", "own cpu", "holds"].map(str::to_owned).to_vec(),
    ];
    for ProbeReport { probe, holds, .. } in &found.probes {
        rows.push(vec![
            if rows.len() == 1 { found.workload.clone() } else { String::new() },
            per_second(probe.rate_ops_s),
            count(probe.ok),
            probe.p99_us.map_or("-".into(), duration_us),
            count(probe.not_ok),
            count(probe.missed),
            format!("{:.0} %", 100.0 * probe.cpu_share),
            if *holds { "yes" } else { "no" }.into(),
        ]);
    }
    table(text, &rows, 1);
    let limit = duration_us(found.p99_us);
    let answer = match (found.rate_ops_s, &found.why) {
        (Some(rate), _) => {
            format!("{}: the highest rate at which the p99 stays within {limit}", per_second(rate))
        }
        (None, why) => {
            format!("not found (p99 within {limit}): {}", why.as_deref().unwrap_or("no reason given"))
        }
    };
    text.push_str(&format!("  {:<9} {answer}\n\n", "highest"));
}
