//! What a sweep shows: throughput and latency by load, and the knee. Formulas: `docs/measures.md`, "Scaling".

use super::own_load;
use super::window::whole_seconds;
use crate::exit::Outcome;
use crate::recording::{OwnSecond, Recording, Second, Step};
use crate::report::data::{Percentiles, Reason};
use crate::report::scaling::{Knee, KneeState, StepReport, Stepped, SweepReport};
use crate::report::{count, duration_us, per_second};
use crate::scenario::{Loads, Sweep};
use crate::search::{CPU_SHARE, GROWN, LATE_SHARE};

/// Share of the best throughput that the knee has at least.
const KNEE_SHARE: f64 = 0.95;
/// Behind the knee, throughput grows by less than this share of the growth of the load. A list of close loads
/// would else have a knee in the middle of a straight line.
const STILL_GROWING: f64 = 0.5;
/// Fewer counted seconds carry no verdict.
const LEAST_COUNTED_S: u64 = 5;
/// Share of the arrivals that any step may miss.
const MISSED_SHARE: f64 = 0.001;
/// p99 above this many times its lowest value has left it.
const DOUBLED: f64 = 2.0;

/// Response and service times of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// From the intended start.
    pub response: Percentiles,
    /// From the send.
    pub service: Percentiles,
}

/// Judges a sweep; `latency` holds one entry per step of the recording, `cores` is what the tester may use.
#[must_use]
pub fn sweep(recording: &Recording, planned: &Sweep, latency: &[Latency], cores: f64) -> SweepReport {
    let mut steps: Vec<StepReport> =
        recording.steps.iter().zip(latency).map(|(step, l)| measure(recording, step, l, cores)).collect();
    let fastest_us = steps.iter().filter_map(|s| s.service_us.mean).fold(f64::INFINITY, f64::min);
    for step in &mut steps {
        step.no_verdict = no_verdict(step, fastest_us);
    }
    let stepped = match planned.loads {
        Loads::Workers(_) => Stepped::Workers,
        Loads::Rates(_) => Stepped::Rate,
    };
    let knee = knee(&steps, stepped, planned.loads.count());
    SweepReport { workload: planned.workload.clone(), stepped, steps, knee }
}

/// What speaks against the sweep as a whole: steps that are missing, or a knee that cannot be told.
#[must_use]
pub fn reasons(sweep: &SweepReport, planned: &Sweep) -> Vec<Reason> {
    let mut texts = Vec::new();
    if sweep.steps.len() < planned.loads.count() {
        texts.push(format!(
            "only {} of {} steps of the sweep began",
            sweep.steps.len(),
            planned.loads.count()
        ));
    }
    if sweep.knee.state == KneeState::Unclear {
        let why = |step: &StepReport| Some(format!("step {}: {}", step.index + 1, step.no_verdict.as_ref()?));
        let steps: Vec<String> = sweep.steps.iter().filter_map(why).collect();
        let steps =
            if steps.is_empty() { "no step was measured to its end".into() } else { steps.join("; ") };
        texts.push(format!("the knee of the sweep is unclear: {steps}"));
    }
    texts.into_iter().map(|text| Reason { outcome: Outcome::Inconclusive, text }).collect()
}

fn measure(recording: &Recording, step: &Step, latency: &Latency, cores: f64) -> StepReport {
    let rows = counted(recording, step);
    let sum = |f: &dyn Fn(&Second) -> u64| rows.iter().map(f).sum::<u64>();
    let ok = sum(&|s| s.ok);
    let throughput_ops_s = (!rows.is_empty()).then(|| ok as f64 / rows.len() as f64);
    let in_flight = throughput_ops_s.zip(latency.service.mean).map(|(ops_s, us)| ops_s * us / 1e6);
    let own: Vec<&OwnSecond> =
        recording.own.iter().filter(|own| (step.counted_from_s..step.to_s).contains(&own.t_s)).collect();
    StepReport {
        index: step.index,
        workers: step.workers,
        rate_ops_s: step.rate_ops_s,
        from_s: step.counted_from_s,
        to_s: step.counted_from_s + rows.len() as u64,
        ok,
        failed: sum(&|s| s.failed),
        unknown: sum(&|s| s.unknown),
        missed: sum(&|s| s.missed),
        late_starts: sum(&|s| s.late_starts),
        throughput_ops_s,
        response_us: latency.response.clone(),
        service_us: latency.service.clone(),
        in_flight,
        idle_share: in_flight.map(|n| (1.0 - n / f64::from(step.workers)).clamp(0.0, 1.0)),
        cpu_share: own_load::share(&own, cores),
        no_verdict: None,
    }
}

/// The whole seconds of the counted part that were measured.
fn counted<'a>(recording: &'a Recording, step: &Step) -> &'a [Second] {
    let work = recording.workloads.iter().find(|work| work.name == step.workload);
    let rows = work.map_or(&[][..], |work| &work.seconds);
    let end = whole_seconds(recording.duration_s).min(rows.len()).min(step.to_s as usize);
    rows.get(step.counted_from_s as usize..end).unwrap_or_default()
}

/// Why a step proves nothing.
fn no_verdict(step: &StepReport, fastest_us: f64) -> Option<String> {
    let counted = step.to_s - step.from_s;
    let sent = step.ok + step.failed + step.unknown;
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    if counted < LEAST_COUNTED_S {
        return Some(format!("only {counted} s were counted, {LEAST_COUNTED_S} are needed"));
    }
    if step.ok == 0 {
        return Some("not one operation succeeded".into());
    }
    if let Some(used) = step.cpu_share.filter(|share| *share > CPU_SHARE) {
        let used = 100.0 * used;
        return Some(format!(
            "the tester used {used:.0} % of its processors: take a larger or a second machine"
        ));
    }
    if step.rate_ops_s.is_none() {
        return None;
    }
    let late = share(step.late_starts, sent);
    if late > LATE_SHARE {
        let late = 100.0 * late;
        return Some(format!(
            "{late:.1} % of the operations were sent over 10 ms late although a worker was free"
        ));
    }
    let missing = share(step.missed, sent + step.missed) > MISSED_SHARE;
    let fast = step.service_us.mean.is_some_and(|mean| mean < GROWN * fastest_us);
    (missing && fast).then(|| {
        let missed = count(step.missed);
        format!(
            "{missed} arrivals found no free worker while the server answered as fast as ever: more workers"
        )
    })
}

fn knee(steps: &[StepReport], stepped: Stepped, planned: usize) -> Knee {
    let clean: Vec<&StepReport> = steps.iter().filter(|step| step.no_verdict.is_none()).collect();
    let ops = |step: &StepReport| step.throughput_ops_s.unwrap_or_default();
    let best = clean.iter().copied().max_by(|a, b| ops(a).total_cmp(&ops(b)));
    let (Some(best), Some(last)) = (best, clean.last().copied()) else {
        return unclear("no step carries a verdict".into());
    };
    let first = clean.iter().copied().find(|step| ops(step) >= KNEE_SHARE * ops(best)).unwrap_or(best);
    let growth = ops(last) / ops(first) - 1.0;
    let more_load = last.load() / first.load() - 1.0;
    let reached = first.index != last.index && growth < STILL_GROWING * more_load;
    let all = clean.len() == planned;
    let step = if reached { first } else { best };
    let mut text = Vec::new();
    let state = if reached {
        text.extend(found(first, best, last, stepped));
        KneeState::Found
    } else if all {
        text.push(format!(
            "not reached: at {} throughput still grew, to {}; go on with larger loads",
            words(last, stepped),
            per_second(ops(last))
        ));
        KneeState::NotReached
    } else {
        text.push(format!(
            "unclear: throughput still grew at {}, the last step that carries a verdict",
            words(last, stepped)
        ));
        KneeState::Unclear
    };
    let doubled = p99_doubled(&clean);
    text.extend(doubled.map(|(lowest, at)| {
        format!(
            "p99 is lowest at {} ({}) and over twice that from {} on ({})",
            words(lowest, stepped),
            p99(lowest),
            words(at, stepped),
            p99(at)
        )
    }));
    Knee {
        state,
        step: Some(step.index),
        load: Some(step.load()),
        throughput_ops_s: step.throughput_ops_s,
        p99_doubled_at: doubled.map(|(_, at)| at.load()),
        text,
    }
}

fn unclear(why: String) -> Knee {
    Knee {
        state: KneeState::Unclear,
        step: None,
        load: None,
        throughput_ops_s: None,
        p99_doubled_at: None,
        text: vec![format!("unclear: {why}")],
    }
}

/// Where the knee is, and what more load brought.
fn found(knee: &StepReport, best: &StepReport, last: &StepReport, stepped: Stepped) -> Vec<String> {
    let ops = |step: &StepReport| step.throughput_ops_s.unwrap_or_default();
    let at_knee = format!("knee at {}: {}", words(knee, stepped), per_second(ops(knee)));
    let of_best = if best.index == knee.index {
        ", the best of all steps".to_owned()
    } else {
        let share = 100.0 * ops(knee) / ops(best);
        format!(", {share:.0} % of the best ({} at {})", per_second(ops(best)), words(best, stepped))
    };
    let change = ops(last) / ops(knee) - 1.0;
    let verdict = match (stepped, change < KNEE_SHARE - 1.0) {
        (Stepped::Workers, true) => "more workers harm",
        (Stepped::Workers, false) => "more workers do not help",
        (Stepped::Rate, true) => "more load harms",
        (Stepped::Rate, false) => "more load does not help",
    };
    let times = last.response_us.p99.zip(knee.response_us.p99).map(|(l, k)| l as f64 / k.max(1) as f64);
    let times = times.map_or(String::new(), |times| format!(", p99 x {times:.1}"));
    vec![
        at_knee + &of_best,
        format!("{verdict}: at {} throughput {:+.0} %{times}", words(last, stepped), 100.0 * change),
    ]
}

/// The step with the lowest p99, and the first one after it whose p99 is over twice that.
fn p99_doubled<'a>(clean: &[&'a StepReport]) -> Option<(&'a StepReport, &'a StepReport)> {
    let known = || clean.iter().copied().filter_map(|step| Some((step, step.response_us.p99?)));
    let (lowest, lowest_us) = known().min_by_key(|(_, us)| *us)?;
    let limit = DOUBLED * lowest_us as f64;
    let at = known().find(|(step, us)| step.index > lowest.index && *us as f64 > limit)?;
    Some((lowest, at.0))
}

fn words(step: &StepReport, stepped: Stepped) -> String {
    match stepped {
        Stepped::Workers if step.workers == 1 => "1 worker".into(),
        Stepped::Workers => format!("{} workers", step.workers),
        Stepped::Rate => per_second(step.load()),
    }
}

fn p99(step: &StepReport) -> String {
    step.response_us.p99.map_or("-".into(), duration_us)
}

#[cfg(test)]
mod tests;
