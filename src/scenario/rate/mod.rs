//! `rate` of a workload: a text, or a table that says how it changes.

pub(super) mod profile;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use humantime::format_duration;
use serde::{Serialize, Serializer};
use toml::de::DeValue;

use super::seconds;
use super::table::{Node, Refusal, Table};
use super::values::{positive_duration, rate};
use super::words::Names;
pub use profile::Profile;

const SHAPE: Names<'_> =
    Names { what: "shape of a rate", now: &["ramp", "steps", "sine", "profile"], later: &[] };
const RAMP: Names<'_> = Names { what: "key", now: &["from", "to", "over"], later: &[] };
const STEPS: Names<'_> = Names { what: "key", now: &["rates", "each"], later: &[] };
const SINE: Names<'_> = Names { what: "key", now: &["mean", "amplitude", "period"], later: &[] };

/// More steps than this belong into a profile.
const MOST_STEPS: usize = 1_000;

/// How a rate changes, from the start of the measured phase. The warm-up runs at its first value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Evenly from one rate to another, which then holds. In operations per second.
    Ramp {
        /// At the start.
        #[serde(rename = "from_ops_s")]
        from: f64,
        /// From `over` on.
        #[serde(rename = "to_ops_s")]
        to: f64,
        /// How long the change takes.
        #[serde(rename = "over_s", serialize_with = "seconds")]
        over: Duration,
    },
    /// One after the other; the last one holds.
    Steps {
        /// In operations per second, at least one.
        #[serde(rename = "rates_ops_s")]
        rates: Vec<f64>,
        /// How long each but the last takes.
        #[serde(rename = "each_s", serialize_with = "seconds")]
        each: Duration,
    },
    /// Around a mean: starts there and rises first. In operations per second.
    Sine {
        /// Above zero.
        #[serde(rename = "mean_ops_s")]
        mean: f64,
        /// No more than the mean.
        #[serde(rename = "amplitude_ops_s")]
        amplitude: f64,
        /// Of one wave.
        #[serde(rename = "period_s", serialize_with = "seconds")]
        period: Duration,
    },
    /// From a file: straight lines between its points, and again from the start after the last one.
    Profile(#[serde(serialize_with = "profile_name")] Profile),
}

fn profile_name<S: Serializer>(profile: &Profile, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&profile.name)
}

impl Schedule {
    /// Operations per second at its start.
    #[must_use]
    pub fn first(&self) -> f64 {
        match self {
            Self::Ramp { from, .. } => *from,
            Self::Steps { rates, .. } => rates.first().copied().unwrap_or_default(),
            Self::Sine { mean, .. } => *mean,
            Self::Profile(profile) => profile.points.first().map_or(0.0, |(_, rate)| *rate),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ramp { from, to, over } => {
                write!(f, "{from} to {to} operations/s over {}, then {to}", format_duration(*over))
            }
            Self::Steps { rates, each } => {
                let rates: Vec<_> = rates.iter().map(f64::to_string).collect();
                let each = format_duration(*each);
                write!(f, "{} operations/s, {each} each, the last one holds", rates.join(", "))
            }
            Self::Sine { mean, amplitude, period } => {
                write!(f, "{mean} ± {amplitude} operations/s, a wave of {}", format_duration(*period))
            }
            Self::Profile(profile) => profile.fmt(f),
        }
    }
}

/// Reads it: the rate at the start, and how it changes if it does. `folder` is that of the scenario.
pub(super) fn read(node: &Node<'_>, folder: &Path) -> Option<(f64, Option<Schedule>)> {
    if !node.value.is_table() {
        return Some((node.read(rate)?, None));
    }
    let (name, parameters) = node.choice("shape")?;
    let schedule = match (name, parameters) {
        ("ramp", Some(node)) => ramp(&node.table(&RAMP)?),
        ("steps", Some(node)) => steps(&node.table(&STEPS)?),
        ("sine", Some(node)) => sine(&node, &node.table(&SINE)?),
        ("profile", Some(node)) => profile::read(&node, folder).map(Schedule::Profile),
        (other, _) => {
            node.refuse(SHAPE.unknown(other, "").into());
            None
        }
    }?;
    Some((schedule.first(), Some(schedule)))
}

fn ramp(table: &Table<'_>) -> Option<Schedule> {
    let from = table.required("from", "write for example from = \"100/s\"", rate);
    let to = table.required("to", "write for example to = \"5000/s\"", rate);
    let over = table.required("over", "write for example over = \"10m\"", positive_duration);
    Some(Schedule::Ramp { from: from?, to: to?, over: over? })
}

fn steps(table: &Table<'_>) -> Option<Schedule> {
    const RATES: &str = "write for example rates = [\"100/s\", \"500/s\"]";
    let each = table.required("each", "write for example each = \"1m\"", positive_duration);
    let Some(list) = table.node("rates") else {
        table.missing("rates", RATES);
        return None;
    };
    let items = list.items();
    if items.is_empty() && list.value.is_array() {
        list.refuse(Refusal::new("must not be empty").hint(RATES));
        return None;
    }
    if items.len() > MOST_STEPS {
        list.refuse(Refusal::new(format!("more than {MOST_STEPS} steps")).hint("write them into a profile"));
        return None;
    }
    let read: Vec<_> = items.iter().map(|item| item.read(rate)).collect();
    let rates = read.into_iter().collect::<Option<Vec<_>>>()?;
    (!rates.is_empty()).then_some(Schedule::Steps { rates, each: each? })
}

fn sine(node: &Node<'_>, table: &Table<'_>) -> Option<Schedule> {
    let mean = table.required("mean", "write for example mean = \"500/s\"", rate);
    let amplitude = table.required("amplitude", "write for example amplitude = \"300/s\"", rate);
    let period = table.required("period", "write for example period = \"10m\"", positive_duration);
    let (mean, amplitude, period) = (mean?, amplitude?, period?);
    if amplitude > mean {
        node.refuse(
            Refusal::new("the rate would fall below zero").hint("write an amplitude of at most the mean"),
        );
        return None;
    }
    Some(Schedule::Sine { mean, amplitude, period })
}

/// What becomes of arrivals that found no worker in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterOutage {
    /// After a second they are missed: never sent.
    #[default]
    Drop,
    /// Sent afterwards, at no more than 1.1 times the rate in all.
    Paced,
    /// Sent afterwards, as fast as the workers can.
    Burst,
}

/// Reads `after_outage`.
pub(super) fn after_outage(value: &DeValue<'_>) -> Result<AfterOutage, Refusal> {
    const WORDS: [(&str, AfterOutage); 3] =
        [("drop", AfterOutage::Drop), ("paced", AfterOutage::Paced), ("burst", AfterOutage::Burst)];
    let names = Names { what: "way to go on", now: &WORDS.map(|(word, _)| word), later: &[] };
    super::values::word(value, &WORDS, &names)
}
