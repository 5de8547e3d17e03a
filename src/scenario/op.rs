//! `op` of a `[[workload]]`: one kind of operation with its parameters, or a mix of them.

use std::fmt;

use bson::Document;
use serde::Serialize;
use toml::de::DeValue;

use super::table::{Node, Refusal, Table};
use super::values::{count_in, number, pipeline, switch, text};
use super::words::Names;

/// The server takes no more in one message.
const LARGEST_BATCH: u32 = 100_000;
/// Documents of one read: they fit into one answer of the server (16 MB), and into our memory.
const LARGEST_READ: u32 = 10_000;
const DEFAULT_FIND_LIMIT: u32 = 10;
/// `maxscanlength` of YCSB's workload E.
const DEFAULT_LENGTH: u32 = 100;

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// New documents under fresh keys.
    Insert,
    /// One document by its key.
    Read,
    /// Documents by the value of an indexed field.
    Find,
    /// Documents of consecutive keys.
    Scan,
    /// A new version of one document, by its key: its fields are set.
    Update,
    /// A new version of one document, by its key: it is replaced.
    Replace,
    /// One document is read, then updated.
    ReadModifyWrite,
    /// One document, by its key.
    Delete,
    /// What an aggregation pipeline makes of the documents.
    Aggregate,
}

impl OpKind {
    /// All of them. A mix has its parts in this order, so that the order in the file decides nothing.
    pub const ALL: [Self; 9] = [
        Self::Insert,
        Self::Read,
        Self::Find,
        Self::Scan,
        Self::Update,
        Self::Replace,
        Self::ReadModifyWrite,
        Self::Delete,
        Self::Aggregate,
    ];

    /// Whether it changes data.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::Find | Self::Scan | Self::Aggregate)
    }

    /// As in the scenario file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Read => "read",
            Self::Find => "find",
            Self::Scan => "scan",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::ReadModifyWrite => "read_modify_write",
            Self::Delete => "delete",
            Self::Aggregate => "aggregate",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Keys of its parameters.
    const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Insert => &["batch", "ordered"],
            Self::Find => &["field", "limit"],
            Self::Scan => &["length"],
            Self::Aggregate => &["length", "pipeline"],
            Self::Read | Self::Update | Self::Replace | Self::ReadModifyWrite | Self::Delete => &[],
        }
    }
}

/// A kind of operation with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// New documents under fresh keys.
    Insert {
        /// Documents per operation, at least 1 (1: `insertOne`).
        batch: u32,
        /// The server stops at the first document that it refuses.
        ordered: bool,
    },
    /// One document by its key.
    Read,
    /// Documents in which a field has the value that it had when a chosen document was inserted.
    Find {
        /// A field with a secondary index.
        field: String,
        /// At most this many documents, at least 1.
        limit: u32,
    },
    /// Documents from a chosen key on, in the order of the keys.
    Scan {
        /// At most this many documents, at least 1; how many is drawn evenly for each operation.
        length: u32,
    },
    /// A new version of one document by `$set`.
    Update,
    /// A new version of one document by `replaceOne`.
    Replace,
    /// One document is read and compared, then updated.
    ReadModifyWrite,
    /// One document, by its key.
    Delete,
    /// An aggregation.
    Aggregate(Aggregation),
}

/// What an aggregation computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// Number, lowest and highest key of the documents in a range of this many keys, at least 1, from a
    /// chosen key on. The answer is checked.
    Length(u32),
    /// The user's own stages. The answer is not checked.
    Pipeline(Vec<Document>),
}

impl Op {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Insert { .. } => OpKind::Insert,
            Self::Read => OpKind::Read,
            Self::Find { .. } => OpKind::Find,
            Self::Scan { .. } => OpKind::Scan,
            Self::Update => OpKind::Update,
            Self::Replace => OpKind::Replace,
            Self::ReadModifyWrite => OpKind::ReadModifyWrite,
            Self::Delete => OpKind::Delete,
            Self::Aggregate(_) => OpKind::Aggregate,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().word())
    }
}

const NAMES: [&str; 9] = {
    let mut names = [""; 9];
    let mut at = 0;
    while at < names.len() {
        names[at] = OpKind::ALL[at].word();
        at += 1;
    }
    names
};
const MIX: &str = "write for example op = { mix = { read = 95, update = 5 } }";

/// Reads it; a single operation has the weight 1. `None`: it was refused.
pub(super) fn read(node: &Node<'_>) -> Option<Vec<(Op, f64)>> {
    let (name, parameters) = node.choice("operation")?;
    if name == "mix" {
        let Some(parts) = parameters else {
            node.refuse(Refusal::new("a mix needs its parts").hint(MIX));
            return None;
        };
        let table = parts.table(&Names { what: "operation", now: &NAMES, later: &[] })?;
        return mix(node, &table);
    }
    let Some(kind) = OpKind::of_word(name) else {
        let valid: Vec<_> = NAMES.into_iter().chain(["mix"]).collect();
        node.refuse(Names { what: "operation", now: &valid, later: &[] }.unknown(name, "").into());
        return None;
    };
    let table = match &parameters {
        Some(parameters) => Some(parameters.table(&keys(kind.parameters()))?),
        None => None,
    };
    Some(vec![(operation(kind, table.as_ref(), node)?, 1.0)])
}

const fn keys<'a>(now: &'a [&'a str]) -> Names<'a> {
    Names { what: "key", now, later: &[] }
}

fn mix(node: &Node<'_>, table: &Table<'_>) -> Option<Vec<(Op, f64)>> {
    if table.is_empty() {
        node.refuse(Refusal::new("a mix needs its parts").hint(MIX));
    }
    let parts = OpKind::ALL.into_iter().filter_map(|kind| Some((kind, table.node(kind.word())?)));
    // Every part is read, so that all problems are found.
    let parts: Vec<_> = parts.map(|(kind, node)| part(kind, &node)).collect();
    let parts: Vec<_> = parts.into_iter().collect::<Option<_>>()?;
    (!parts.is_empty()).then_some(parts)
}

/// `read = 95` or `scan = { weight = 5, length = 100 }`.
fn part(kind: OpKind, node: &Node<'_>) -> Option<(Op, f64)> {
    if !node.value.is_table() {
        let weight = node.read(weight)?;
        return Some((operation(kind, None, node)?, weight));
    }
    let names: Vec<_> = ["weight"].into_iter().chain(kind.parameters().iter().copied()).collect();
    let table = node.table(&keys(&names))?;
    let weight = table.required("weight", "write its weight in the mix, as weight = 5", weight);
    let op = operation(kind, Some(&table), node);
    Some((op?, weight?))
}

fn weight(value: &DeValue<'_>) -> Result<f64, Refusal> {
    number(value, |x| x > 0.0, "write a weight above zero")
}

/// Parameters that are left out have their defaults.
fn operation(kind: OpKind, table: Option<&Table<'_>>, node: &Node<'_>) -> Option<Op> {
    let count = |key, default, most| match table {
        Some(table) => table.optional_or(key, default, |value| count_in(value, 1..=most)),
        None => Some(default),
    };
    Some(match kind {
        OpKind::Insert => {
            let batch = count("batch", 1, LARGEST_BATCH);
            let ordered = table.map_or(Some(true), |table| table.optional_or("ordered", true, switch));
            Op::Insert { batch: batch?, ordered: ordered? }
        }
        OpKind::Read => Op::Read,
        OpKind::Find => {
            const FIELD: &str = "name an indexed field, as find = { field = \"int\", limit = 10 }";
            let field = match table {
                Some(table) => table.required("field", FIELD, text),
                None => {
                    node.refuse(Refusal::new("find needs its field").hint(FIELD));
                    None
                }
            };
            Op::Find { limit: count("limit", DEFAULT_FIND_LIMIT, LARGEST_READ)?, field: field? }
        }
        OpKind::Scan => Op::Scan { length: count("length", DEFAULT_LENGTH, LARGEST_READ)? },
        OpKind::Update => Op::Update,
        OpKind::Replace => Op::Replace,
        OpKind::ReadModifyWrite => Op::ReadModifyWrite,
        OpKind::Delete => Op::Delete,
        OpKind::Aggregate => {
            let length = count("length", DEFAULT_LENGTH, LARGEST_READ)?;
            match table.and_then(|table| table.node("pipeline").map(|stages| (table, stages))) {
                None => Op::Aggregate(Aggregation::Length(length)),
                Some((table, stages)) => {
                    if let Some(length) = table.node("length") {
                        length
                            .refuse(Refusal::new("stands beside \"pipeline\"").hint("write one of the two"));
                    }
                    Op::Aggregate(Aggregation::Pipeline(stages.read(pipeline)?))
                }
            }
        }
    })
}
