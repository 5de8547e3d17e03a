//! One `[[fault]]`. Kinds, parameters and defaults come from the catalogue.

use std::time::Duration;

use faults::Takes;
use faults::catalog;
use serde_json::{Map, Value};
use toml::de::DeValue;

use super::table::{Node, Refusal, Table};
use super::values::{count, count_in, duration, integer, number, positive_duration, size, text};
use super::words::Names;
use super::{FaultRule, FaultSpec, Target, When, quantity};

const FAULT: Names<'_> =
    Names { what: "key", now: &["do", "first", "at", "every", "times"], later: &["random", "when"] };

/// Kinds of the contract that this version does not know.
#[rustfmt::skip]
const KINDS_LATER: &[&str] = &[
    "move_chunks", "balancer", "split", "jumbo", "hot_shard", "move_primary", "add_shard", "remove_shard",
    "upgrade", "set_compatibility", "chaos_mesh",
];

/// Words for targets that this version does not know.
const TARGETS_LATER: &[&str] = &["donor", "recipient", "mongos"];

/// Reads it.
pub(super) fn read(node: &Node<'_>) -> FaultRule {
    let Some(table) = node.table(&FAULT) else {
        return FaultRule { spec: stand_in(), when: When::At(Vec::new()) };
    };
    let spec = match table.node("do") {
        Some(node) => action(&node),
        None => {
            table.missing("do", "write for example do = { kill = { target = \"primary\" } }");
            None
        }
    };
    FaultRule { spec: spec.unwrap_or_else(stand_in), when: when(&table).unwrap_or(When::At(Vec::new())) }
}

/// Takes the place of what could not be read.
fn stand_in() -> FaultSpec {
    FaultSpec::new("kill", &Value::Null).expect("all its parameters have defaults")
}

fn action(node: &Node<'_>) -> Option<FaultSpec> {
    let (name, parameters) = node.choice("fault kind")?;
    let Some(kind) = catalog::kind(name) else {
        let now: Vec<_> = catalog::KINDS.iter().map(|kind| kind.name).collect();
        let names = Names { what: "fault kind", now: &now, later: KINDS_LATER };
        node.refuse(names.unknown(name, "").into());
        return None;
    };
    let keys: Vec<_> = kind.parameters.iter().map(|parameter| parameter.name).collect();
    let keys = Names { what: "key", now: &keys, later: &[] };
    let mut values = Map::new();
    if let Some(given) = &parameters {
        let table = given.table(&keys)?;
        for parameter in kind.parameters {
            if let Some(value) = table.node(parameter.name) {
                values.insert(
                    parameter.name.into(),
                    value.read(|value| parameter_value(parameter.takes, value))?,
                );
            }
        }
    }
    // What the parameters do not say alone, the fault itself checks.
    FaultSpec::new(kind.name, &Value::Object(values)).map_err(|why| node.refuse(Refusal::new(why))).ok()
}

/// One parameter as the fault wants it.
fn parameter_value(takes: Takes, value: &DeValue<'_>) -> Result<Value, Refusal> {
    Ok(match takes {
        Takes::Target | Takes::Party => target(value)?.to_string().into(),
        Takes::Duration => duration(value)?.as_secs_f64().into(),
        Takes::Shift => shift(value)?.into(),
        Takes::Count => count(value)?.into(),
        Takes::Size => size(value)?.into(),
        Takes::Share => share(value)?.into(),
        Takes::Text => text(value)?.into(),
        Takes::Choice(words) => {
            let word = text(value)?;
            if !words.contains(&word.as_str()) {
                let names = Names { what: "word", now: words, later: &[] };
                return Err(names.unknown(&word, "").into());
            }
            word.into()
        }
        Takes::Texts => {
            let wrong = || Refusal::new("must be a list of texts in quotes");
            let items = value.as_array().ok_or_else(wrong)?;
            items.iter().map(|item| text(item.get_ref())).collect::<Result<Vec<_>, _>>()?.into()
        }
        Takes::Flag => value.as_bool().ok_or_else(|| Refusal::new("must be true or false"))?.into(),
        Takes::Any => any(value)?,
        Takes::Table if value.as_table().is_none() => return Err(Refusal::new("must be a table")),
        Takes::Table => any(value)?,
    })
}

/// A duration with its sign, in seconds.
fn shift(value: &DeValue<'_>) -> Result<f64, Refusal> {
    let written = text(value)?;
    let (sign, length) = match written.strip_prefix('-') {
        Some(length) => (-1.0, length),
        None => (1.0, written.strip_prefix('+').unwrap_or(&written)),
    };
    Ok(sign * quantity::duration(length)?.as_secs_f64())
}

/// A share above 0 and up to 1.
fn share(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |share| share > 0.0 && share <= 1.0, "it goes from above 0 to 1")
}

/// What the server is to get as it stands.
fn any(value: &DeValue<'_>) -> Result<Value, Refusal> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Integer(_) => integer(value)?.into(),
        DeValue::Float(_) => number(value, |_| true, "a finite number")?.into(),
        DeValue::Array(items) => {
            items.iter().map(|item| any(item.get_ref())).collect::<Result<Vec<_>, _>>()?.into()
        }
        DeValue::Table(table) => {
            let pairs =
                table.iter().map(|(key, value)| Ok((key.get_ref().to_string(), any(value.get_ref())?)));
            Value::Object(pairs.collect::<Result<_, Refusal>>()?)
        }
        DeValue::Datetime(_) => return Err(Refusal::new("a date cannot be given to a server; write a text")),
    })
}

fn target(value: &DeValue<'_>) -> Result<Target, Refusal> {
    let word = text(value)?;
    // `shard0.primary`, `config.primary`: only a sharded cluster has them.
    if TARGETS_LATER.contains(&word.as_str()) || word.ends_with(".primary") {
        let names = Names { what: "target", now: &Target::WORDS, later: &[&word] };
        return Err(names.unknown(&word, "").into());
    }
    word.parse().map_err(Refusal::new)
}

fn when(table: &Table<'_>) -> Option<When> {
    let first = table.optional("first", duration);
    let every = table.optional("every", positive_duration);
    let times = table.optional("times", |value| count_in(value, 1..=u32::MAX));
    let repeats = ["every", "times"].into_iter().find_map(|key| table.node(key));
    match (table.node("at"), table.node("first"), repeats) {
        (Some(at), Some(_), _) => {
            at.refuse(Refusal::new("stands beside \"first\"").hint("keep one of the two"));
            None
        }
        (Some(_), None, Some(repeats)) => {
            repeats.refuse(
                Refusal::new("goes with \"first\", not with \"at\"").hint("list every time in \"at\""),
            );
            None
        }
        (Some(at), None, None) => offsets(&at),
        (None, None, _) => {
            table.missing("first", "say when: first = \"5m\" (with every, times), or at = [\"5m\", \"12m\"]");
            None
        }
        // Once: the distance never counts.
        (None, Some(_), None) => Some(When::Every { first: first?, every: Duration::ZERO, times: Some(1) }),
        (None, Some(_), Some(repeats)) if table.node("every").is_none() => {
            repeats.refuse(Refusal::new("needs \"every\"").hint("add for example every = \"5m\""));
            None
        }
        (None, Some(_), Some(_)) => Some(When::Every { first: first?, every: every?, times }),
    }
}

/// In any order in the file, ascending in the scenario.
fn offsets(at: &Node<'_>) -> Option<When> {
    let mut offsets = Vec::new();
    let items = at.items();
    if items.is_empty() && at.value.is_array() {
        at.refuse(Refusal::new("names no time").hint("write for example at = [\"5m\", \"12m\"]"));
    }
    for item in &items {
        if let Some(offset) = item.read(duration) {
            if offsets.contains(&offset) {
                item.refuse(Refusal::new("stands here twice").hint("one rule injects once at a time"));
            }
            offsets.push(offset);
        }
    }
    offsets.sort_unstable();
    Some(When::At(offsets))
}
