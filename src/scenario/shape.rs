//! `shape`: the kinds of documents, built in or from a file, and how they are written.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use toml::de::DeValue;

use super::Source;
use super::content::{Content, Field};
use super::table::{Node, Refusal};
use super::template::{self, Template};
use super::values::{count_in, word};
use super::words::Names;

/// Kind of document.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Five fields long, int, date, string, double; 400 bytes (the 2012 report).
    Row,
    /// The same with a text that compresses well: about 85 bytes on disk.
    RowRepetitive,
    /// Ten fields of 100 characters each, as YCSB makes them.
    Ycsb,
    /// YCSB with other numbers.
    YcsbFields {
        /// How many fields.
        fields: u32,
        /// Characters of each.
        length: u32,
    },
    /// From a file.
    Template(Arc<Template>),
}

const NAMES: Names<'_> = Names { what: "shape", now: &["row", "ycsb"], later: &[] };
const ROW: Names<'_> = Names { what: "key", now: &["text"], later: &[] };
const TEXT: Names<'_> = Names { what: "text", now: &["random", "repetitive"], later: &[] };
const YCSB: Names<'_> = Names { what: "key", now: &["fields", "length"], later: &[] };

/// YCSB's own numbers.
const YCSB_FIELDS: u32 = 10;
const YCSB_LENGTH: u32 = 100;
const MOST_YCSB_FIELDS: u32 = 10_000;
/// So that the largest document stays below the server's limit of 16 MiB.
const MOST_YCSB_BYTES: u64 = 15 << 20;

/// 91 bytes of structure and numbers, and a text that fills the document up to 400 bytes.
const ROW_TEXT: u32 = 309;
/// Characters after which a repetitive text begins again.
const ROW_REPEAT: u32 = 16;
/// 2000-01-01, UTC.
pub(super) const DATE_FROM_MS: i64 = 946_684_800_000;
/// 2030-01-01, UTC.
pub(super) const DATE_TO_MS: i64 = 1_893_456_000_000;

impl Shape {
    /// The fields of its documents, `_id` and `v` left out.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        match self {
            Self::Row => row(None),
            Self::RowRepetitive => row(Some(ROW_REPEAT)),
            Self::Ycsb => ycsb(YCSB_FIELDS, YCSB_LENGTH),
            Self::YcsbFields { fields, length } => ycsb(*fields, *length),
            Self::Template(template) => template.fields.clone(),
        }
    }

    /// YCSB's documents with these numbers; `None`: they would be too large.
    #[must_use]
    pub fn ycsb(fields: u32, length: u32) -> Option<Self> {
        let fits = u64::from(fields) * u64::from(length) <= MOST_YCSB_BYTES;
        match (fields, length) {
            (YCSB_FIELDS, YCSB_LENGTH) => Some(Self::Ycsb),
            (1..=MOST_YCSB_FIELDS, 0..) if fits => Some(Self::YcsbFields { fields, length }),
            _ => None,
        }
    }
}

fn field(name: impl Into<String>, content: Content) -> Field {
    Field { name: name.into(), content }
}

fn row(repeat: Option<u32>) -> Vec<Field> {
    vec![
        field("long", Content::Int64 { min: i64::MIN, max: i64::MAX }),
        field("int", Content::Int32 { min: i32::MIN, max: i32::MAX }),
        field("date", Content::Date { from_ms: DATE_FROM_MS, to_ms: DATE_TO_MS }),
        field("double", Content::Double { min: 0.0, max: 1.0 }),
        field("string", Content::Text { min: ROW_TEXT, max: ROW_TEXT, repeat }),
    ]
}

fn ycsb(fields: u32, length: u32) -> Vec<Field> {
    let text = Content::Text { min: length, max: length, repeat: None };
    (0..fields).map(|number| field(format!("field{number}"), text.clone())).collect()
}

/// As people name it; a file by its name.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row => f.write_str("row"),
            Self::RowRepetitive => f.write_str("row, repetitive"),
            Self::Ycsb => f.write_str("ycsb"),
            Self::YcsbFields { fields, length } => write!(f, "ycsb, {fields} x {length}"),
            Self::Template(template) => f.write_str(&template.file),
        }
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Whether a shape is the name of a file.
pub(super) fn is_file(shape: &str) -> bool {
    shape.contains(['/', '.'])
}

/// A name alone, a name with parameters, or a file beside the scenario.
pub(super) fn read(node: &Node<'_>, source: &Source) -> Option<Shape> {
    if let Some(file) = node.value.as_str().filter(|text| is_file(text)) {
        return Some(Shape::Template(Arc::new(template::read(node, file, source)?)));
    }
    let (name, parameters) = node.choice("shape")?;
    match (name, parameters) {
        ("row", None) => Some(Shape::Row),
        ("ycsb", None) => Some(Shape::Ycsb),
        ("row", Some(node)) => {
            let words = [("random", false), ("repetitive", true)];
            let text = |value: &DeValue<'_>| word(value, &words, &TEXT);
            let repetitive = node.table(&ROW)?.optional("text", text).unwrap_or(false);
            Some(if repetitive { Shape::RowRepetitive } else { Shape::Row })
        }
        ("ycsb", Some(node)) => {
            let table = node.table(&YCSB)?;
            let fields = table.optional("fields", |value| count_in(value, 1..=MOST_YCSB_FIELDS));
            let length = table.optional("length", |value| count_in(value, 0..=u32::MAX));
            let shape = Shape::ycsb(fields.unwrap_or(YCSB_FIELDS), length.unwrap_or(YCSB_LENGTH));
            if shape.is_none() {
                let message = "a document would be larger than the 16 MiB that a server takes";
                node.refuse(Refusal::new(message).hint("write fewer fields, or shorter ones"));
            }
            shape
        }
        (other, _) => {
            let mut unknown: Refusal = NAMES.unknown(other, "").into();
            unknown.hint = unknown.hint.map(|hint| format!("{hint}, or a file as \"orders.toml\""));
            node.refuse(unknown);
            None
        }
    }
}
