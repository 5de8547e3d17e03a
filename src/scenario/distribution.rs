//! `distribution`: which key an operation picks, as a checked type, and how it is written.

use serde::Serialize;
use toml::de::DeValue;

use super::table::{Node, Refusal};
use super::values::{number, switch};
use super::words::Names;

/// The exponent of YCSB.
pub const DEFAULT_EXPONENT: f64 = 0.99;

/// Which of the acknowledged keys an operation picks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Each the same.
    Uniform,
    /// Skewed by Zipf's law.
    Zipfian {
        /// Above zero; 0.99 in YCSB.
        exponent: f64,
        /// Whether the hot keys are scattered over the key space; else they are the lowest ones.
        scrambled: bool,
    },
    /// Zipf's law over age: the newest key is the hottest.
    Latest {
        /// Above zero; 0.99 in YCSB.
        exponent: f64,
    },
    /// A share of the keys gets a share of the operations; even within and without.
    Hotspot {
        /// Share of the keys that is hot, above 0, up to 1 (0.2).
        keys: f64,
        /// Share of the operations that goes to them, 0 to 1 (0.8).
        operations: f64,
        /// Whether the hot keys are scattered over the key space; else they are the lowest ones.
        scrambled: bool,
    },
    /// Falling exponentially with age: `percentile` % of the operations go to the newest `keys` of all.
    Exponential {
        /// Above 0, below 100 (95).
        percentile: f64,
        /// Share of all keys, above 0, up to 1 (6/7).
        keys: f64,
    },
    /// One after the other, all workers of the workload together, again and again.
    Sequential,
}

const NAMES: Names<'_> = Names {
    what: "distribution",
    now: &["uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"],
    later: &[],
};
const ZIPFIAN: Names<'_> = Names { what: "key", now: &["exponent", "scrambled"], later: &[] };
const LATEST: Names<'_> = Names { what: "key", now: &["exponent"], later: &[] };
const HOTSPOT: Names<'_> = Names { what: "key", now: &["keys", "operations", "scrambled"], later: &[] };
const EXPONENTIAL: Names<'_> = Names { what: "key", now: &["percentile", "keys"], later: &[] };

impl Distribution {
    /// The distribution of that name with YCSB's parameters; `None`: there is none of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "uniform" => Self::Uniform,
            "zipfian" => Self::Zipfian { exponent: DEFAULT_EXPONENT, scrambled: true },
            "latest" => Self::Latest { exponent: DEFAULT_EXPONENT },
            "hotspot" => Self::Hotspot { keys: 0.2, operations: 0.8, scrambled: true },
            "exponential" => Self::Exponential { percentile: 95.0, keys: 6.0 / 7.0 },
            "sequential" => Self::Sequential,
            _ => return None,
        })
    }

    /// Whether it is about the age of keys, so that what was just inserted counts.
    #[must_use]
    pub const fn is_by_age(self) -> bool {
        matches!(self, Self::Latest { .. } | Self::Exponential { .. })
    }
}

/// A name alone, or a name with parameters; `{ zipfian = 0.8 }` is short for the exponent.
pub(super) fn read(node: &Node<'_>) -> Option<Distribution> {
    let (name, parameters) = node.choice("distribution")?;
    let Some(mut distribution) = Distribution::named(name) else {
        node.refuse(NAMES.unknown(name, "").into());
        return None;
    };
    if let Some(parameters) = parameters {
        set(&mut distribution, name, &parameters)?;
    }
    Some(distribution)
}

/// Puts the given parameters in the place of the defaults.
fn set(distribution: &mut Distribution, name: &str, node: &Node<'_>) -> Option<()> {
    match distribution {
        Distribution::Uniform | Distribution::Sequential => {
            node.refuse(Refusal::new(format!("{name} has no parameters")).hint(format!("write \"{name}\"")));
            return None;
        }
        Distribution::Zipfian { exponent, .. } | Distribution::Latest { exponent }
            if !node.value.is_table() =>
        {
            *exponent = node.read(positive_exponent)?;
        }
        Distribution::Zipfian { exponent, scrambled } => {
            let table = node.table(&ZIPFIAN)?;
            put(exponent, table.optional("exponent", positive_exponent));
            put(scrambled, table.optional("scrambled", switch));
        }
        Distribution::Latest { exponent } => {
            put(exponent, node.table(&LATEST)?.optional("exponent", positive_exponent));
        }
        Distribution::Hotspot { keys, operations, scrambled } => {
            let table = node.table(&HOTSPOT)?;
            put(keys, table.optional("keys", share_of_keys));
            put(operations, table.optional("operations", share));
            put(scrambled, table.optional("scrambled", switch));
        }
        Distribution::Exponential { percentile, keys } => {
            let table = node.table(&EXPONENTIAL)?;
            put(percentile, table.optional("percentile", percentage));
            put(keys, table.optional("keys", share_of_keys));
        }
    }
    Some(())
}

fn put<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn positive_exponent(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |x| x > 0.0, "write an exponent above 0, as 0.99")
}

fn share_of_keys(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |x| 0.0 < x && x <= 1.0, "write a share of the keys above 0, up to 1, as 0.2")
}

fn share(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |x| (0.0..=1.0).contains(&x), "write a share of the operations from 0 to 1, as 0.8")
}

fn percentage(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |x| 0.0 < x && x < 100.0, "write a percentage above 0, below 100, as 95")
}
