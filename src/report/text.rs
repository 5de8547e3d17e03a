//! The summary on the terminal: what was done, what broke, for how long, and what it comes to.

use super::data::{FaultReport, Ledger, LimitResult, Load, OpReport, Report, WorkloadReport};
use super::{bytes, count, coverage, duration_ms, duration_s, duration_us, migrations, scaling};
use crate::exit::Outcome;
use crate::recording::FaultOutcome;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain text.
    Plain,
    /// ANSI colours for the verdict.
    Colour,
}

/// The summary, ending with a line break. `place` is the run directory as the user may type it.
#[must_use]
pub fn summary(report: &Report, place: &str, style: Style) -> String {
    let mut text = String::new();
    head(&mut text, report);
    if let Some(load) = &report.load {
        loaded(&mut text, load);
    }
    // Nothing of a load was driven.
    let loading = report.manifest["goal"] == "load";
    if !loading {
        workloads(&mut text, &report.workloads);
        errors(&mut text, &report.workloads);
        scaling::text::sections(&mut text, report);
        faults(&mut text, &report.faults);
        coverage::matrix(&mut text, &report.coverage);
        migrations::table_of(&mut text, &report.migrations);
    }
    if let Some(ledger) = &report.ledger {
        data(&mut text, ledger);
    }
    if !loading {
        limits(&mut text, &report.limits);
    }
    verdict(&mut text, report, style);
    text.push_str(&format!("  {:<9} {place}\n", "files"));
    text
}

fn head(text: &mut String, report: &Report) {
    let run = &report.run;
    let cluster = &report.manifest["cluster"];
    let version = report.manifest["servers"]["version"].as_str().unwrap_or("version unknown");
    let what = match (cluster["topology"].as_str(), cluster["members"].as_u64()) {
        (Some("standalone"), _) => "standalone".to_owned(),
        (Some("sharded"), Some(members)) => {
            format!("{} shards of {members} members", cluster["shards"].as_u64().unwrap_or_default())
        }
        (Some(_), Some(members)) => format!("{members}-member replica set"),
        _ => "attached deployment".to_owned(),
    };
    let length = match report.manifest["goal"].as_str() {
        Some("load") => "load only".to_owned(),
        _ => format!("{} measured", duration_s(run.duration_s)),
    };
    text.push_str(&format!(
        "\n{}: {what}, mongod {version}, {length}, seed {} (mongosoak {})\n\n",
        run.scenario, run.seed, run.tool_version
    ));
}

fn loaded(text: &mut String, load: &Load) {
    let done = &load.done;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate for people")]
    let rate = |rate: f64| format!(" ({}/s)", count(rate as u64));
    let how = match (done.resumed, done.inserted) {
        (true, 0) => format!("{} documents, loaded before", count(done.documents)),
        (true, new) => format!("{} documents, of these {} in", count(done.documents), count(new)),
        (false, _) => format!("{} documents in", count(done.documents)),
    };
    let took =
        load.docs_per_s.map(|r| format!(" {}{}", duration_s(done.seconds), rate(r))).unwrap_or_default();
    let took = if done.inserted == 0 && !done.resumed { " 0 s".into() } else { took };
    let size = done.storage_bytes.map(|b| format!(", {} on disk", bytes(b))).unwrap_or_default();
    text.push_str(&format!("  {:<9} {how}{took}{size}\n", "load"));
    for line in load_details(load) {
        text.push_str(&format!("  {:<9} {line}\n", ""));
    }
    text.push('\n');
}

/// The lines below the first one: pace, sizes, checks.
fn load_details(load: &Load) -> Vec<String> {
    let done = &load.done;
    let mut lines = Vec::new();
    if let (Some(median), Some(slowest), Some(at)) =
        (load.median_docs_per_s, load.slowest_docs_per_s, load.slowest_at_s)
    {
        lines.push(format!(
            "median second {} documents, slowest {} (at {at} s)",
            count(median),
            count(slowest)
        ));
    }
    let size = |what: &str, size: Option<u64>| size.map(|b| format!("{what} {}", bytes(b)));
    let sizes = [
        size("data", done.data_bytes),
        size("storage", done.storage_bytes),
        size("indexes", done.index_bytes),
        size("data directories of all nodes", done.disk_bytes),
    ];
    // Of an attached deployment without details, the first line says it all.
    if done.index_bytes.is_some() {
        lines.push(sizes.into_iter().flatten().collect::<Vec<_>>().join(", "));
    }
    if done.index_seconds >= 0.1 {
        lines.push(format!("secondary indexes built in {}", duration_s(done.index_seconds)));
    }
    if done.removed > 0 {
        lines.push(format!("{} documents that earlier runs had inserted were removed", count(done.removed)));
    }
    match (load.verified, load.verify_seconds) {
        (Some(true), Some(s)) => lines.push(format!("every key looked up in {}: all there", duration_s(s))),
        (Some(false), Some(s)) => {
            lines.push(format!("every key looked up in {}: NOT as loaded", duration_s(s)))
        }
        _ => {}
    }
    lines
}

fn workloads(text: &mut String, workloads: &[WorkloadReport]) {
    let mut rows = vec![
        ["workload", "does", "ok", "failed", "unknown", "missed", "ops/s", "p50", "p99", "max"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for w in workloads {
        let us = |value: Option<u64>| value.map_or("-".into(), duration_us);
        rows.push(vec![
            w.name.clone(),
            w.op.clone(),
            count(w.ok),
            count(w.failed),
            count(w.unknown),
            count(w.missed),
            format!("{:.1}", w.throughput_ops_s),
            us(w.response_us.p50),
            us(w.response_us.p99),
            us(w.response_us.max),
        ]);
        rows.extend(w.ops.iter().filter(|_| w.ops.len() > 1).map(op_row));
    }
    table(text, &rows, 2);
    text.push_str("  latencies: response time from the intended start\n");
    for (name, note) in workloads.iter().filter_map(|w| Some((&w.name, w.note.as_ref()?))) {
        text.push_str(&format!("  {name}: {note}\n"));
    }
    text.push('\n');
}

/// One kind of operation of a mix, below its workload. Missed arrivals are of no kind.
fn op_row(op: &OpReport) -> Vec<String> {
    let us = |value: Option<u64>| value.map_or("-".into(), duration_us);
    vec![
        String::new(),
        op.op.clone(),
        count(op.ok),
        count(op.failed),
        count(op.unknown),
        "-".into(),
        format!("{:.1}", op.throughput_ops_s),
        us(op.response_us.p50),
        us(op.response_us.p99),
        us(op.response_us.max),
    ]
}

fn errors(text: &mut String, workloads: &[WorkloadReport]) {
    let mut any = false;
    for w in workloads {
        for error in w.errors.iter().take(5) {
            let code = error.code.map(|c| format!(" ({c})")).unwrap_or_default();
            let times = format!("{:.1} s to {:.1} s", error.first_s, error.last_s);
            let line = format!(
                "{} x{} {}{code}, {times}: {}",
                w.name,
                count(error.count),
                error.class,
                error.sample
            );
            text.push_str(&format!("  {:<9} {}\n", if any { "" } else { "errors" }, clip(&line)));
            any = true;
        }
    }
    if any {
        text.push('\n');
    }
}

fn clip(line: &str) -> String {
    const WIDTH: usize = 140;
    if line.chars().count() <= WIDTH {
        line.into()
    } else {
        line.chars().take(WIDTH - 3).chain("...".chars()).collect()
    }
}

fn faults(text: &mut String, faults: &[FaultReport]) {
    if faults.is_empty() {
        return;
    }
    let mut rows = vec![
        [
            "fault",
            "node",
            "at",
            "hard outage",
            "degraded",
            "longest gap",
            "first ok",
            "recovered",
            "lost work",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(faults.iter().map(fault_row));
    table(text, &rows, 3);
    text.push_str(
        "  outage, gap and recovery: of the workload that suffered most; first ok and recovered: after the fault \
         took effect;\n  lost work: operations below the baseline, and the outage that they equal\n\n",
    );
}

fn fault_row(fault: &FaultReport) -> Vec<String> {
    let dash = || "-".to_owned();
    let at = fault.injected_s.or(fault.planned_s).map_or_else(dash, |at| format!("{at:.1} s"));
    let name = format!("{} {} {}", fault.id, fault.kind, fault.target);
    let mut row = vec![name, fault.node.clone().unwrap_or_else(dash), at];
    if fault.outcome != FaultOutcome::Effective {
        row.push(outcome_words(fault.outcome).into());
        return row;
    }
    let outage = fault.outage.clone().unwrap_or_default();
    let recovery = fault.recovery.clone().unwrap_or_default();
    let masked = outage.masked && outage.hard_s == 0.0;
    row.push(if masked { "none (masked)".into() } else { duration_s(outage.hard_s) });
    row.push(duration_s(outage.degraded_s));
    row.push(outage.longest_gap_s.map_or_else(dash, duration_ms));
    row.push(recovery.first_success_s.map_or_else(dash, duration_s));
    row.push(match (recovery.sustained_s, recovery.censored_after_s) {
        (Some(s), _) => duration_s(s),
        (None, Some(after)) => format!("not within {}", duration_s(after)),
        (None, None) => recovery.reason.as_deref().map_or_else(dash, short),
    });
    row.push(fault.dip.as_ref().map_or_else(dash, |dip| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count for people")]
        let area = count(dip.area_ops.round() as u64);
        format!("{area} = {}", duration_s(dip.equivalent_outage_s))
    }));
    row
}

/// `no baseline: only 3 s ...` without its explanation, which the verdict gives.
fn short(reason: &str) -> String {
    reason.split(':').next().unwrap_or(reason).into()
}

const fn outcome_words(outcome: FaultOutcome) -> &'static str {
    match outcome {
        FaultOutcome::Effective => "effective",
        FaultOutcome::NotEffective => "NOT EFFECTIVE",
        FaultOutcome::Skipped => "skipped",
        FaultOutcome::Failed => "FAILED",
    }
}

fn data(text: &mut String, ledger: &Ledger) {
    let Ledger { acknowledged, checked, present, lost, lost_permitted, .. } = ledger;
    text.push_str(&format!(
        "  {:<9} {} acknowledged documents: {} checked, {} found, {} lost, {} lost below majority (permitted), {} \
         unchecked\n",
        "data",
        count(*acknowledged),
        count(*checked),
        count(*present),
        count(*lost),
        count(*lost_permitted),
        count(ledger.unchecked)
    ));
    if ledger.deleted + ledger.delete_unknown > 0 {
        let (deleted, unknown) = (count(ledger.deleted), count(ledger.delete_unknown));
        text.push_str(&format!("  {:<9} {deleted} deleted, {unknown} perhaps deleted\n", ""));
    }
    text.push_str(&format!(
        "  {:<9} {} corrupt, {} duplicates, {} alien; outcome unknown: {} present, {} absent\n\n",
        "",
        count(ledger.corrupt),
        count(ledger.duplicates),
        count(ledger.alien),
        count(ledger.unknown_present),
        count(ledger.unknown_absent)
    ));
}

fn limits(text: &mut String, limits: &[LimitResult]) {
    for (i, limit) in limits.iter().enumerate() {
        let word = match limit.ok {
            Some(true) => "held",
            Some(false) => "BROKEN",
            None => "not measured",
        };
        let show = |x: f64| if limit.unit == "s" { duration_s(x) } else { format!("{x} {}", limit.unit) };
        let value = limit.value.map_or("-".into(), show);
        let at = limit.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        let label = if i == 0 { "limits" } else { "" };
        text.push_str(&format!(
            "  {label:<9} {word}: {} {value}{at} (limit {})\n",
            limit.name,
            show(limit.limit)
        ));
    }
    if !limits.is_empty() {
        text.push('\n');
    }
}

fn verdict(text: &mut String, report: &Report, style: Style) {
    let verdict = &report.verdict;
    let word = verdict.outcome.word().to_uppercase();
    let code = match (style, verdict.outcome) {
        (Style::Plain, _) => None,
        (Style::Colour, Outcome::Pass) => Some("1;32"),
        (Style::Colour, Outcome::Inconclusive | Outcome::Interrupted) => Some("1;33"),
        (Style::Colour, _) => Some("1;31"),
    };
    let word = code.map_or(word.clone(), |code| format!("\x1b[{code}m{word}\x1b[0m"));
    text.push_str(&format!("  {:<9} {word} (exit code {})\n", "verdict", verdict.exit_code));
    for reason in &verdict.reasons {
        // A note says that it is one.
        let kind = if [verdict.outcome, Outcome::Pass].contains(&reason.outcome) {
            String::new()
        } else {
            format!("{}: ", reason.outcome.word())
        };
        text.push_str(&format!("  {:<9} {kind}{}\n", "", reason.text));
    }
}

/// Columns as wide as their widest cell; the first `left` ones to the left, numbers to the right.
pub(super) fn table(text: &mut String, rows: &[Vec<String>], left: usize) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(c, cell)| {
                let w = widths[c];
                if c < left { format!("{cell:<w$}") } else { format!("{cell:>w$}") }
            })
            .collect();
        text.push_str("  ");
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
}
