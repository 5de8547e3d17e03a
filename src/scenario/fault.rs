//! One `[[fault]]`. Kinds, parameters and defaults come from the catalogue.

use std::time::Duration;

use faults::Takes;
use faults::catalog;
use serde_json::{Map, Value};
use toml::de::DeValue;

use super::table::{Node, Refusal, Table};
use super::values::{count, count_in, duration, integer, number, size, text, word};
use super::words::Names;
use super::{Choice, FaultRule, FaultSpec, Majority, Target, When, quantity};

mod schedule;

#[rustfmt::skip]
const FAULT: Names<'_> = Names {
    what: "key",
    now: &["do", "mix", "first", "at", "every", "times", "random", "when", "after", "wait", "majority"],
    later: &[],
};
const CHOICE: Names<'_> = Names { what: "key", now: &["do", "weight"], later: &[] };
const MAJORITY: Names<'_> = Names { what: "word", now: &["kept", "may_be_lost"], later: &[] };
const MAJORITY_WORDS: [(&str, Majority); 2] =
    [("kept", Majority::Kept), ("may_be_lost", Majority::MayBeLost)];

/// So that no sum of weights overflows.
const MOST_WEIGHT: u32 = 1_000_000;

/// Kinds of the contract that this version does not know.
#[rustfmt::skip]
const KINDS_LATER: &[&str] = &[
    "jumbo", "hot_shard", "move_primary", "add_shard",
    "upgrade", "set_compatibility", "chaos_mesh",
];

/// Words for targets that this version does not know.
const TARGETS_LATER: &[&str] = &["donor", "recipient"];

/// Reads it.
pub(super) fn read(node: &Node<'_>) -> FaultRule {
    let table = node.table(&FAULT);
    let choices = table.as_ref().map(choices).unwrap_or_default();
    let when = table.as_ref().and_then(schedule::read).unwrap_or(When::At(Vec::new()));
    // Its moment would be over when a triggered fault had waited.
    let wait = if matches!(when, When::Cued { .. }) { Duration::ZERO } else { FaultRule::WAIT };
    FaultRule {
        choices: if choices.is_empty() { vec![Choice { spec: stand_in(), weight: 1 }] } else { choices },
        wait: table.as_ref().and_then(|table| table.optional("wait", duration)).unwrap_or(wait),
        majority: table
            .as_ref()
            .and_then(|table| table.optional("majority", |value| word(value, &MAJORITY_WORDS, &MAJORITY)))
            .unwrap_or_default(),
        when,
    }
}

/// Takes the place of what could not be read.
fn stand_in() -> FaultSpec {
    FaultSpec::new("kill", &Value::Null).expect("all its parameters have defaults")
}

/// `do`, or the faults of a `mix`.
fn choices(table: &Table<'_>) -> Vec<Choice> {
    match (table.node("do"), table.node("mix")) {
        (Some(_), Some(mix)) => {
            mix.refuse(Refusal::new("stands beside \"do\"").hint("keep one of the two"));
            Vec::new()
        }
        (Some(node), None) => action(&node).map(|spec| Choice { spec, weight: 1 }).into_iter().collect(),
        (None, Some(mix)) => {
            let items = mix.items();
            if items.len() < 2 && mix.value.is_array() {
                let hint = "write for example mix = [{ do = \"kill\", weight = 3 }, { do = \"pause\" }]";
                mix.refuse(Refusal::new("needs two faults or more").hint(hint));
            }
            items.iter().map(|item| choice(item).unwrap_or(Choice { spec: stand_in(), weight: 1 })).collect()
        }
        (None, None) => {
            table.missing("do", "write for example do = { kill = { target = \"primary\" } }");
            Vec::new()
        }
    }
}

/// One entry of a mix.
fn choice(node: &Node<'_>) -> Option<Choice> {
    let table = node.table(&CHOICE)?;
    let weight = table.optional_or("weight", 1, |value| count_in(value, 1..=MOST_WEIGHT));
    let Some(node) = table.node("do") else {
        table.missing("do", "write for example { do = { kill = { target = \"primary\" } }, weight = 3 }");
        return None;
    };
    Some(Choice { spec: action(&node)?, weight: weight? })
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
pub(super) fn parameter_value(takes: Takes, value: &DeValue<'_>) -> Result<Value, Refusal> {
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
    if TARGETS_LATER.contains(&word.as_str()) {
        let names = Names { what: "target", now: &Target::WORDS, later: &[&word] };
        return Err(names.unknown(&word, "").into());
    }
    word.parse().map_err(Refusal::new)
}
