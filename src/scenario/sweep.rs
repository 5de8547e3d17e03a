//! `[sweep]`: one workload at one load after another.

use std::time::Duration;

use super::Workload;
use super::check::Check;
use super::table::{Node, Refusal};
use super::values::{count_in, duration, positive_duration, rate, text};
use super::words::Names;

const SWEEP: Names<'_> =
    Names { what: "key", now: &["workload", "workers", "rate", "each", "settle"], later: &[] };

const DEFAULT_EACH: Duration = Duration::from_secs(30);
const DEFAULT_SETTLE: Duration = Duration::from_secs(5);
/// The timeline has one row a second, and something must be left to count.
const LEAST_COUNTED: Duration = Duration::from_secs(1);
/// More steps than this is a mistake in a list; each keeps two histograms (140 kB each) while it is judged.
const MOST_STEPS: usize = 100;

/// One workload at one load after another; the steps are the measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Name of the workload.
    pub workload: String,
    /// The loads, ascending; two at least.
    pub loads: Loads,
    /// Length of each step, in whole seconds.
    pub each: Duration,
    /// Start of each step that is not counted, in whole seconds; a second at least is left.
    pub settle: Duration,
}

/// What is stepped.
#[derive(Clone, Debug, PartialEq)]
pub enum Loads {
    /// Workers that are active (closed loop).
    Workers(Vec<u32>),
    /// Intended operations per second (open loop).
    Rates(Vec<f64>),
}

impl Loads {
    /// Number of steps.
    #[must_use]
    pub const fn count(&self) -> usize {
        match self {
            Self::Workers(list) => list.len(),
            Self::Rates(list) => list.len(),
        }
    }
}

impl Sweep {
    /// Length of all steps together.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.each.saturating_mul(u32::try_from(self.loads.count()).unwrap_or(u32::MAX))
    }

    /// What the workload leaves out follows from the list: as many workers as the largest step needs, and the
    /// rate of the first step.
    pub(super) fn complete(&self, node: &Node<'_>, workload: &mut Workload) {
        let given = |key: &str| node.value.as_table().is_some_and(|table| table.contains_key(key));
        match &self.loads {
            Loads::Workers(list) if !given("workers") => {
                workload.workers = list.iter().copied().max().unwrap_or(1);
            }
            Loads::Rates(list) if !given("rate") => workload.rate_ops_s = list.first().copied(),
            _ => {}
        }
    }
}

/// Reads it.
pub(super) fn read(node: &Node<'_>) -> Sweep {
    let mut sweep = Sweep {
        workload: String::new(),
        loads: Loads::Workers(Vec::new()),
        each: DEFAULT_EACH,
        settle: DEFAULT_SETTLE,
    };
    let Some(table) = node.table(&SWEEP) else { return sweep };
    const WORKLOAD: &str = "name the workload that is stepped";
    sweep.workload = table.required("workload", WORKLOAD, text).unwrap_or_default();
    sweep.each = table.optional("each", positive_duration).unwrap_or(DEFAULT_EACH);
    sweep.settle = table.optional("settle", duration).unwrap_or(DEFAULT_SETTLE);
    let workers = |node: &Node<'_>| node.read(|value| count_in(value, 1..=u32::MAX));
    match (table.node("workers"), table.node("rate")) {
        (Some(_), Some(rates)) => rates.refuse(
            Refusal::new("stands beside \"workers\"").hint("step one of the two, with the other one fixed"),
        ),
        (Some(list), None) => {
            sweep.loads =
                Loads::Workers(list.items().iter().map(|node| workers(node).unwrap_or(1)).collect());
        }
        (None, Some(list)) => {
            let rates = list.items();
            sweep.loads = Loads::Rates(rates.iter().map(|node| node.read(rate).unwrap_or(1.0)).collect());
        }
        (None, None) => table.missing("workers", "write for example workers = [1, 2, 4, 8], or rate = [...]"),
    }
    sweep
}

/// Books what does not fit together.
pub(super) fn check(check: &Check<'_>, sweep: &Sweep) {
    if let Some(index) = check.known_workload("sweep.workload", &sweep.workload) {
        fits_workload(check, sweep, index);
    }
    let (key, steps) = match &sweep.loads {
        Loads::Workers(list) => ("workers", list.iter().map(|n| f64::from(*n)).collect::<Vec<_>>()),
        Loads::Rates(list) => ("rate", list.clone()),
    };
    let at = format!("sweep.{key}");
    if !(2..=MOST_STEPS).contains(&steps.len()) && !(key == "workers" && steps.is_empty()) {
        let message = format!("{} steps are no sweep", steps.len());
        check.refuse(&at, &[], message, &format!("list 2 to {MOST_STEPS} of them"));
    } else if !steps.is_sorted_by(|a, b| a < b) {
        check.refuse(&at, &[], "is not ascending", "list each load once, the smallest first");
    }
    check.whole_seconds("sweep.each", sweep.each);
    check.whole_seconds("sweep.settle", sweep.settle);
    if sweep.each < sweep.settle.saturating_add(LEAST_COUNTED) {
        let settle = humantime::format_duration(sweep.settle);
        let message = format!("nothing of a step is left after {settle} of settling");
        check.refuse("sweep.each", &["sweep.settle"], message, "write longer steps, or a shorter \"settle\"");
    }
    if check.scenario.duration != sweep.length() {
        let length = humantime::format_duration(sweep.length());
        check.refuse(
            "duration",
            &["sweep.each", &at],
            format!("the steps of [sweep] last {length} together"),
            "leave it out: the steps are the measured phase",
        );
    }
}

fn fits_workload(check: &Check<'_>, sweep: &Sweep, index: usize) {
    let workload = &check.scenario.workloads[index];
    let Loads::Workers(list) = &sweep.loads else { return };
    if workload.rate_ops_s.is_some() {
        check.refuse(
            &format!("workload.{index}.rate"),
            &["sweep.workers"],
            "a sweep over workers needs a closed loop: with a rate, more workers send no more",
            "leave it out, or step the rate: rate = [\"100/s\", ...] in [sweep]",
        );
    }
    let most = list.iter().copied().max().unwrap_or(0);
    if workload.workers < most {
        check.refuse(
            &format!("workload.{index}.workers"),
            &["sweep.workers"],
            format!("{} workers cannot do the step of {most} in [sweep]", workload.workers),
            "leave it out: then there are as many as the largest step needs",
        );
    }
}
