//! The placeholders of a template: `{ int = { min = 1, max = 9 } }` and so on.

use toml::de::DeValue;
use toml::value::{Datetime, Offset};

use super::content::{Constant, Content, MOST_DOCUMENT_BYTES};
use super::shape::{DATE_FROM_MS, DATE_TO_MS};
use super::table::{Log, Node, Refusal, Table, kind, ordered};
use super::template::{content, document};
use super::values::{count_in, integer, number};
use super::words::{Names, closest};

const WORDS: &[&str] = &[
    "sequence",
    "int",
    "long",
    "double",
    "date",
    "string",
    "bool",
    "object_id",
    "pick",
    "document",
    "array",
];
const NOTHING: Names<'_> = Names { what: "key", now: &[], later: &[] };
const SEQUENCE: Names<'_> = Names { what: "key", now: &["start", "step"], later: &[] };
const RANGE: Names<'_> = Names { what: "key", now: &["min", "max"], later: &[] };
const DATE: Names<'_> = Names { what: "key", now: &["from", "to"], later: &[] };
const STRING: Names<'_> = Names { what: "key", now: &["length", "min", "max", "repeat"], later: &[] };
const ARRAY: Names<'_> = Names { what: "key", now: &["of", "length"], later: &[] };

/// More choices than this belong into a collection.
const MOST_CHOICES: usize = 10_000;

/// What became of a word.
pub(super) enum Read {
    /// It names a placeholder; `None`: with problems, which are booked.
    Content(Option<Content>),
    /// It names none.
    None,
}

/// The only key of a table, and its value.
pub(super) fn read(word: &str, node: &Node<'_>, log: &Log) -> Read {
    if WORDS.contains(&word) {
        return Read::Content(placeholder(word, node, log));
    }
    let like_parameters = node.value.is_table() || node.value.is_integer();
    match closest(word, WORDS.iter().copied()).filter(|_| like_parameters) {
        Some(meant) => {
            let message = format!("unknown placeholder {word:?}");
            let hint = format!(
                "did you mean {meant:?}? An embedded document of this one field is written {{ document = \
                 {{ {word} = ... }} }} (placeholders: {})",
                WORDS.join(", ")
            );
            log.key(&node.path, message, Some(hint));
            Read::Content(None)
        }
        None => Read::None,
    }
}

fn placeholder(word: &str, node: &Node<'_>, log: &Log) -> Option<Content> {
    match word {
        "sequence" => {
            let table = node.table(&SEQUENCE)?;
            let (start, step) = (table.optional("start", integer), table.optional("step", integer));
            Some(Content::Sequence { start: start.unwrap_or(0), step: step.unwrap_or(1) })
        }
        "int" => {
            let (min, max) = integers(node, i64::from(i32::MIN), i64::from(i32::MAX))?;
            Some(match (i32::try_from(min), i32::try_from(max)) {
                (Ok(min), Ok(max)) => Content::Int32 { min, max },
                _ => Content::Int64 { min, max },
            })
        }
        "long" => integers(node, i64::MIN, i64::MAX).map(|(min, max)| Content::Int64 { min, max }),
        "double" => double(node),
        "date" => dates(node),
        "string" => string(node),
        "bool" => node.table(&NOTHING).map(|_| Content::Bool),
        "object_id" => node.table(&NOTHING).map(|_| Content::ObjectId),
        "pick" => pick(node),
        "document" => {
            let DeValue::Table(table) = node.value else {
                node.table(&NOTHING);
                return None;
            };
            document(ordered(&node.path, table, log), log).map(Content::Document)
        }
        _ => array(node, log),
    }
}

fn integers(node: &Node<'_>, least: i64, most: i64) -> Option<(i64, i64)> {
    let table = node.table(&RANGE)?;
    let min = table.node("min").map_or(Some(least), |node| node.read(integer));
    let max = table.node("max").map_or(Some(most), |node| node.read(integer));
    let (min, max) = (min?, max?);
    in_order(node, min <= max, "\"min\" is above \"max\"")?;
    Some((min, max))
}

fn double(node: &Node<'_>) -> Option<Content> {
    let table = node.table(&RANGE)?;
    let read = |value: &DeValue<'_>| number(value, |_| true, "write a number, as 0.5");
    let min = table.node("min").map_or(Some(0.0), |node| node.read(read));
    let max = table.node("max").map_or(Some(1.0), |node| node.read(read));
    let (min, max) = (min?, max?);
    in_order(node, min < max && (max - min).is_finite(), "\"min\" must be below \"max\"")?;
    Some(Content::Double { min, max })
}

fn dates(node: &Node<'_>) -> Option<Content> {
    let table = node.table(&DATE)?;
    let from = table.node("from").map_or(Some(DATE_FROM_MS), |node| node.read(date));
    let to = table.node("to").map_or(Some(DATE_TO_MS), |node| node.read(date));
    let (from_ms, to_ms) = (from?, to?);
    in_order(node, from_ms < to_ms, "\"from\" must be before \"to\"")?;
    Some(Content::Date { from_ms, to_ms })
}

/// `20`, `{ length = 20 }`, `{ min = 5, max = 30 }`, and how often it repeats.
fn string(node: &Node<'_>) -> Option<Content> {
    if !node.value.is_table() {
        let length = node.read(length)?;
        return Some(Content::Text { min: length, max: length, repeat: None });
    }
    let table = node.table(&STRING)?;
    let repeat = table.optional("repeat", |value| count_in(value, 1..=MOST_LENGTH));
    let (min, max) = lengths(node, &table)?;
    Some(Content::Text { min, max, repeat: repeat.filter(|repeat| *repeat < max) })
}

const MOST_LENGTH: u32 = MOST_DOCUMENT_BYTES as u32;

fn length(value: &DeValue<'_>) -> Result<u32, Refusal> {
    count_in(value, 0..=MOST_LENGTH)
}

/// Either `length`, or `max` with or without `min`.
fn lengths(node: &Node<'_>, table: &Table<'_>) -> Option<(u32, u32)> {
    let read = |key| table.node(key).map(|node: Node<'_>| node.read(length));
    match (read("length"), read("min"), read("max")) {
        (Some(length), None, None) => length.map(|length| (length, length)),
        (None, min, Some(max)) => {
            let (min, max) = (min.unwrap_or(Some(0))?, max?);
            in_order(node, min <= max, "\"min\" is above \"max\"")?;
            Some((min, max))
        }
        _ => {
            let hint = "write \"length\", or \"min\" and \"max\"";
            node.refuse(Refusal::new("the length is not clear").hint(hint));
            None
        }
    }
}

fn pick(node: &Node<'_>) -> Option<Content> {
    let choices: Vec<_> = node.items().iter().map(|item| item.read(constant)).collect();
    if node.value.is_array() && !(1..=MOST_CHOICES).contains(&choices.len()) {
        let message = format!("{} choices", choices.len());
        node.refuse(Refusal::new(message).hint(format!("write 1 to {MOST_CHOICES}")));
        return None;
    }
    choices.into_iter().collect::<Option<Vec<_>>>().filter(|choices| !choices.is_empty()).map(Content::Pick)
}

fn array(node: &Node<'_>, log: &Log) -> Option<Content> {
    let table = node.table(&ARRAY)?;
    for key in ARRAY.now.iter().filter(|key| table.node(key).is_none()) {
        table.missing(key, "write for example { array = { of = { int = {} }, length = 3 } }");
    }
    let of = table.node("of").and_then(|node| content(&node, log));
    let length = table.node("length").and_then(|node| {
        if node.value.is_table() {
            let table = node.table(&RANGE)?;
            lengths(&node, &table)
        } else {
            node.read(length).map(|length| (length, length))
        }
    });
    let (min, max) = length?;
    Some(Content::Array { of: Box::new(of?), min, max })
}

fn in_order(node: &Node<'_>, holds: bool, message: &str) -> Option<()> {
    if !holds {
        node.refuse(Refusal::new(message));
    }
    holds.then_some(())
}

/// A text, a number, true or false, or a date. A whole number is 32 bits wide if it fits.
pub(super) fn constant(value: &DeValue<'_>) -> Result<Constant, Refusal> {
    Ok(match value {
        DeValue::String(text) => Constant::Text(text.to_string()),
        DeValue::Boolean(value) => Constant::Bool(*value),
        DeValue::Integer(_) => {
            let number = integer(value)?;
            i32::try_from(number).map_or(Constant::Int64(number), Constant::Int32)
        }
        DeValue::Float(_) => Constant::Double(number(value, |_| true, "write a number, as 0.5")?),
        DeValue::Datetime(_) => Constant::Date(date(value)?),
        other => {
            let message = format!("must be a text, a number, a date, true or false, not {}", kind(other));
            return Err(Refusal::new(message));
        }
    })
}

/// Milliseconds since 1970. A date alone is its midnight, a time without offset is UTC.
fn date(value: &DeValue<'_>) -> Result<i64, Refusal> {
    const HINT: &str = "write for example 2024-02-29 or 2024-02-29T12:00:00Z, without quotes";
    let DeValue::Datetime(Datetime { date, time, offset }) = value else {
        return Err(Refusal::new(format!("must be a date, not {}", kind(value))).hint(HINT));
    };
    let date = date.ok_or_else(|| Refusal::new("is a time without a date").hint(HINT))?;
    let time = time.map_or_else(|| "00:00:00".to_owned(), |time| time.to_string());
    let offset = offset.unwrap_or(Offset::Z);
    bson::DateTime::parse_rfc3339_str(format!("{date}T{time}{offset}"))
        .map(bson::DateTime::timestamp_millis)
        .map_err(|_| Refusal::new("is no date that a server can hold").hint(HINT))
}
