//! One TOML value into one checked value, or the reason why not.

use std::ops::RangeInclusive;
use std::time::Duration;

use bson::{Bson, Document};
use toml::de::DeValue;

use super::quantity::{self, Unreadable};
use super::table::{Refusal, kind};
use super::words::Names;

type Read<T> = Result<T, Refusal>;

impl From<Unreadable> for Refusal {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(unreadable.message).hint(unreadable.accepted)
    }
}

/// A text that is not empty.
pub(super) fn text(value: &DeValue<'_>) -> Read<String> {
    match value.as_str() {
        Some("") => Err(Refusal::new("must not be empty")),
        Some(text) => Ok(text.into()),
        None => Err(Refusal::new(format!("must be a text in quotes, not {}", kind(value)))),
    }
}

/// A text, or a number whose digits are taken as written: `mongod = 7.0`.
pub(super) fn text_or_number(value: &DeValue<'_>) -> Read<String> {
    match value {
        DeValue::Float(number) => Ok(number.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        value => text(value),
    }
}

/// A duration, zero allowed.
pub(super) fn duration(value: &DeValue<'_>) -> Read<Duration> {
    let text = value.as_str().ok_or_else(|| {
        Refusal::new(format!("must be a duration with its unit, not {}", kind(value)))
            .hint(quantity::DURATION)
    })?;
    Ok(quantity::duration(text)?)
}

/// A duration above zero.
pub(super) fn positive_duration(value: &DeValue<'_>) -> Read<Duration> {
    match duration(value)? {
        Duration::ZERO => Err(Refusal::new("must be longer than zero").hint(quantity::DURATION)),
        duration => Ok(duration),
    }
}

/// TOML's own numbers end at 2^63 - 1; tools that rewrite a file refuse larger ones.
pub(super) const LARGER_IN_QUOTES: &str = "write a number above 9223372036854775807 in quotes";

/// A whole number up to 2^64 - 1.
pub(super) fn count(value: &DeValue<'_>) -> Read<u64> {
    match value {
        DeValue::Integer(number) => {
            let read = match number.radix() {
                10 => quantity::count(number.as_str())?,
                radix => u64::from_str_radix(number.as_str(), radix).unwrap_or(u64::MAX),
            };
            if i64::try_from(read).is_err() {
                return Err(Refusal::new(format!("{number} is too large")).hint(LARGER_IN_QUOTES));
            }
            Ok(read)
        }
        DeValue::Float(number) => Ok(quantity::count(number.as_str())?),
        DeValue::String(text) => Ok(quantity::count(text)?),
        other => Err(Refusal::new(format!("must be a number, not {}", kind(other))).hint(quantity::COUNT)),
    }
}

/// A whole number in a range.
pub(super) fn count_in<T>(value: &DeValue<'_>, range: RangeInclusive<T>) -> Read<T>
where
    T: TryFrom<u64> + PartialOrd + std::fmt::Display,
{
    let number = count(value)?;
    T::try_from(number).ok().filter(|small| range.contains(small)).ok_or_else(|| {
        Refusal::new(format!("{number} is out of range")).hint(format!(
            "it goes from {} to {}",
            range.start(),
            range.end()
        ))
    })
}

/// A size in bytes.
pub(super) fn size(value: &DeValue<'_>) -> Read<u64> {
    let text = value.as_str().ok_or_else(|| {
        Refusal::new(format!("must be a size with its unit, not {}", kind(value))).hint(quantity::SIZE)
    })?;
    Ok(quantity::size(text)?)
}

/// Operations per second.
pub(super) fn rate(value: &DeValue<'_>) -> Read<f64> {
    let text = value.as_str().ok_or_else(|| {
        Refusal::new(format!("must be a rate with its time, not {}", kind(value))).hint(quantity::RATE)
    })?;
    Ok(quantity::rate(text)?)
}

/// A finite number; `fits` decides, `range` says what fits.
pub(super) fn number(value: &DeValue<'_>, fits: impl Fn(f64) -> bool, range: &str) -> Read<f64> {
    let read = match value {
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
        _ => None,
    };
    match read {
        Some(number) if f64::is_finite(number) && fits(number) => Ok(number),
        Some(number) => Err(Refusal::new(format!("{number} is out of range")).hint(range)),
        None => Err(Refusal::new(format!("must be a number, not {}", kind(value))).hint(range)),
    }
}

/// One of these words.
pub(super) fn word<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)], names: &Names<'_>) -> Read<T> {
    let text = text(value)?;
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(*meaning),
        None => Err(names.unknown(&text, "").into()),
    }
}

/// Stages of an aggregation that only reads, as MongoDB Extended JSON.
pub(super) fn pipeline(value: &DeValue<'_>) -> Read<Vec<Document>> {
    const EXAMPLE: &str = r#"write stages as in mongosh, in single quotes: '[{"$group": {"_id": "$int"}}]'"#;
    /// They write what no ledger knows, or never end.
    const NOT_FOR_US: [&str; 3] = ["$out", "$merge", "$changeStream"];
    let text = text(value)?;
    let refused = |why: String| Refusal::new(why).hint(EXAMPLE);
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| refused(format!("is no JSON: {error}")))?;
    let stages = match Bson::try_from(json) {
        Ok(Bson::Array(stages)) if !stages.is_empty() => stages,
        Ok(_) => return Err(refused("must be a list of stages".into())),
        Err(error) => return Err(refused(format!("is no Extended JSON: {error}"))),
    };
    let stage = |stage| match stage {
        Bson::Document(stage) if stage.len() == 1 && stage.keys().all(|name| name.starts_with('$')) => {
            match stage.keys().find(|name| NOT_FOR_US.contains(&name.as_str())) {
                Some(name) => Err(Refusal::new(format!("{name} is refused"))
                    .hint("read only: it must not write, and must end")),
                None => Ok(stage),
            }
        }
        other => Err(refused(format!("{other} is no stage"))),
    };
    stages.into_iter().map(stage).collect()
}

/// True or false.
pub(super) fn switch(value: &DeValue<'_>) -> Read<bool> {
    match value {
        DeValue::Boolean(value) => Ok(*value),
        other => Err(Refusal::new(format!("must be true or false, not {}", kind(other)))),
    }
}

/// A switch that can only be off so far.
pub(super) fn off(value: &DeValue<'_>) -> Read<()> {
    match value {
        DeValue::Boolean(false) => Ok(()),
        DeValue::Boolean(true) => {
            Err(Refusal::new("true is not in this version yet").hint("leave it out, or write false"))
        }
        other => Err(Refusal::new(format!("must be true or false, not {}", kind(other)))),
    }
}

/// A name that is safe as a folder, a file and a column: letters, digits, `.`, `_`, `-`.
pub(super) fn plain_name(value: &DeValue<'_>) -> Read<String> {
    let name = text(value)?;
    check_plain_name(&name)?;
    Ok(name)
}

/// See [`plain_name`].
pub(super) fn check_plain_name(name: &str) -> Read<()> {
    const LONGEST: usize = 64;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.chars().all(plain) && !name.starts_with(['.', '-']) && name.len() <= LONGEST && !name.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(format!("{} is no plain name", quantity::quoted(name))).hint(
        "use at most 64 letters, digits, \"_\", \"-\" and \".\", beginning with a letter, a digit or \"_\"",
    ))
}
