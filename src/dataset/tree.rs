//! A BSON document of any layout: a tree of its parts, written from top to bottom.

use super::fixed::close;
use super::random::SplitMix64;
use super::value::{self, ARRAY, DOCUMENT, Value};
use crate::scenario::content::{Content, Field};

/// Arrays of a fixed number of items up to this many are spelled out, so that their layout may be fixed.
const MOST_SPELLED_OUT: u32 = 256;

/// A named part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) node: Node,
}

/// What a part is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Value(Value),
    /// An embedded document, or an array whose items are known, by its element type.
    Parts(u8, Vec<Part>),
    /// So many items of one kind.
    Array {
        of: Box<Node>,
        min: u32,
        max: u32,
    },
}

impl Part {
    pub(super) fn new(name: impl Into<String>, node: Node) -> Self {
        Self { name: name.into(), node }
    }

    /// The parts of a document of these fields.
    pub(super) fn of(fields: &[Field]) -> Vec<Self> {
        fields.iter().map(|field| Self::new(&field.name, Node::of(&field.content))).collect()
    }
}

impl Node {
    fn of(content: &Content) -> Self {
        if let Some(value) = Value::of(content) {
            return Self::Value(value);
        }
        match content {
            Content::Document(fields) => Self::Parts(DOCUMENT, Part::of(fields)),
            Content::List(items) => Self::items(items.iter().map(Self::of)),
            Content::Array { of, min, max } if min == max && *max <= MOST_SPELLED_OUT => {
                Self::items((0..*max).map(|_| Self::of(of)))
            }
            Content::Array { of, min, max } => {
                Self::Array { of: Box::new(Self::of(of)), min: *min, max: *max }
            }
            // All others are values.
            _ => Self::Parts(DOCUMENT, Vec::new()),
        }
    }

    fn items(items: impl Iterator<Item = Self>) -> Self {
        Self::Parts(
            ARRAY,
            (0..).zip(items).map(|(index, node): (u32, _)| Part::new(index.to_string(), node)).collect(),
        )
    }

    /// Appends the value, and gives its type.
    fn append(&self, random: &mut SplitMix64, of: (u64, u32), out: &mut Vec<u8>) -> u8 {
        match self {
            Self::Value(value) => value.append(random, of, out),
            Self::Parts(element_type, parts) => {
                write(parts, random, of, out);
                *element_type
            }
            Self::Array { of: item, min, max } => {
                let start = out.len();
                out.extend([0; 4]);
                for index in 0..value::count(random, *min, *max) {
                    element(index.to_string().as_bytes(), item, random, of, out);
                }
                close(out, start);
                ARRAY
            }
        }
    }
}

/// Appends a document of these parts. `of` is its key and version.
pub(super) fn write(parts: &[Part], random: &mut SplitMix64, of: (u64, u32), out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    for part in parts {
        element(part.name.as_bytes(), &part.node, random, of, out);
    }
    close(out, start);
}

fn element(name: &[u8], node: &Node, random: &mut SplitMix64, of: (u64, u32), out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    out.extend(name);
    out.push(0);
    // The type of a value may be drawn with it.
    out[at] = node.append(random, of, out);
}
