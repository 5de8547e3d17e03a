//! What a document holds, as a checked description: fields, their contents, and how many bytes they come
//! to. `dataset` makes the documents.

/// The server takes no larger document.
pub const MOST_DOCUMENT_BYTES: u64 = 16 << 20;

/// A field of a document, or of an embedded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Not empty, without `.`, `$` at its start and NUL.
    pub name: String,
    /// What it holds.
    pub content: Content,
}

/// What a field, or an item of an array, holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The same in every document.
    Constant(Constant),
    /// A 64-bit integer that follows from the key: `start + key * step` (it wraps at 64 bits).
    Sequence {
        /// Of the key 0.
        start: i64,
        /// From one key to the next.
        step: i64,
    },
    /// A 32-bit integer, both ends included.
    Int32 {
        /// Smallest.
        min: i32,
        /// Largest, not below `min`.
        max: i32,
    },
    /// A 64-bit integer, both ends included.
    Int64 {
        /// Smallest.
        min: i64,
        /// Largest, not below `min`.
        max: i64,
    },
    /// A floating-point number in `[min, max)`.
    Double {
        /// Smallest.
        min: f64,
        /// Above `min`.
        max: f64,
    },
    /// A point in time in `[from, to)`, in milliseconds since 1970, UTC.
    Date {
        /// Earliest.
        from_ms: i64,
        /// After `from_ms`.
        to_ms: i64,
    },
    /// Printable characters; so many of them, both ends included.
    Text {
        /// Shortest.
        min: u32,
        /// Longest, not below `min`.
        max: u32,
        /// Begins again after so many characters, at least 1; `None`: random throughout.
        repeat: Option<u32>,
    },
    /// True or false.
    Bool,
    /// 12 random bytes.
    ObjectId,
    /// One of these, at least one.
    Pick(Vec<Constant>),
    /// An embedded document.
    Document(Vec<Field>),
    /// These, one after the other.
    List(Vec<Content>),
    /// So many of the same kind, both ends included.
    Array {
        /// The kind.
        of: Box<Content>,
        /// Fewest.
        min: u32,
        /// Most, not below `min`.
        max: u32,
    },
}

/// A value that is written as it is.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the types of BSON")]
pub enum Constant {
    Text(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Bool(bool),
    /// Milliseconds since 1970, UTC.
    Date(i64),
}

/// Bytes of something in BSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes {
    /// On average.
    pub mean: f64,
    /// At most.
    pub most: u64,
}

impl Bytes {
    const fn exactly(bytes: u64) -> Self {
        Self { mean: bytes as f64, most: bytes }
    }

    const fn plus(self, other: Self) -> Self {
        Self { mean: self.mean + other.mean, most: self.most.saturating_add(other.most) }
    }
}

impl Constant {
    fn bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64 + 5,
            Self::Int32(_) => 4,
            Self::Int64(_) | Self::Double(_) | Self::Date(_) => 8,
            Self::Bool(_) => 1,
        }
    }
}

impl Content {
    /// Of the value alone, without type and name.
    fn bytes(&self) -> Bytes {
        match self {
            Self::Constant(constant) => Bytes::exactly(constant.bytes()),
            Self::Bool => Bytes::exactly(1),
            Self::Int32 { .. } => Bytes::exactly(4),
            Self::Sequence { .. } | Self::Int64 { .. } | Self::Double { .. } | Self::Date { .. } => {
                Bytes::exactly(8)
            }
            Self::ObjectId => Bytes::exactly(12),
            Self::Text { min, max, .. } => Bytes { mean: mean(*min, *max) + 5.0, most: u64::from(*max) + 5 },
            Self::Pick(choices) => {
                let sizes = || choices.iter().map(Constant::bytes);
                let mean = sizes().sum::<u64>() as f64 / choices.len().max(1) as f64;
                Bytes { mean, most: sizes().max().unwrap_or(0) }
            }
            Self::Document(fields) => document_bytes(fields),
            Self::List(items) => {
                let item = |(index, content): (usize, &Self)| element(digits(index as u64), content.bytes());
                items.iter().enumerate().map(item).fold(Bytes::exactly(5), Bytes::plus)
            }
            Self::Array { of, min, max } => {
                let each = of.bytes();
                let count = mean(*min, *max);
                let (names, most_names) = (index_bytes(count as u64) as f64, index_bytes(u64::from(*max)));
                Bytes {
                    mean: 5.0 + names + count * (each.mean + 2.0),
                    most: 5 + most_names + each.most.saturating_add(2).saturating_mul(u64::from(*max)),
                }
            }
        }
    }

    /// The content of a dotted path within this one. Arrays are looked through, as an index does.
    fn at(&self, path: &str) -> bool {
        match self {
            Self::Document(fields) => has_path(fields, path),
            Self::Array { of, .. } => of.at(path),
            Self::List(items) => items.iter().any(|item| item.at(path)),
            _ => false,
        }
    }
}

/// Of a document of these fields and nothing else.
#[must_use]
pub fn document_bytes(fields: &[Field]) -> Bytes {
    let one = |field: &Field| element(field.name.len() as u64, field.content.bytes());
    fields.iter().map(one).fold(Bytes::exactly(5), Bytes::plus)
}

/// Whether a document of these fields has this dotted path. Arrays are looked through, as an index does.
#[must_use]
pub fn has_path(fields: &[Field], path: &str) -> bool {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let field = fields.iter().find(|field| field.name == name);
    field.is_some_and(|field| rest.is_none_or(|rest| field.content.at(rest)))
}

/// All dotted paths, in the order of the fields, embedded documents before their own fields.
#[must_use]
pub fn paths(fields: &[Field]) -> Vec<String> {
    let mut paths = Vec::new();
    add_paths("", fields, &mut paths);
    paths
}

fn add_paths(above: &str, fields: &[Field], paths: &mut Vec<String>) {
    for Field { name, content } in fields {
        let path = format!("{above}{name}");
        let mut inner = content;
        while let Content::Array { of, .. } = inner {
            inner = of;
        }
        paths.push(path.clone());
        if let Content::Document(fields) = inner {
            add_paths(&format!("{path}."), fields, paths);
        }
    }
}

/// Type, name, its NUL, and the value.
const fn element(name_bytes: u64, value: Bytes) -> Bytes {
    Bytes::exactly(name_bytes + 2).plus(value)
}

fn mean(min: u32, max: u32) -> f64 {
    f64::midpoint(f64::from(min), f64::from(max))
}

fn digits(index: u64) -> u64 {
    index.checked_ilog10().unwrap_or(0) as u64 + 1
}

/// Digits of all numbers below `count`: the names of an array's items.
fn index_bytes(count: u64) -> u64 {
    let powers = std::iter::successors(Some(10_u64), |power| power.checked_mul(10));
    // Every number has one digit, those from 10 on one more, and so on.
    count + powers.take_while(|power| *power < count).map(|power| count - power).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_items_are_counted_in_digits() {
        for count in [0, 1, 9, 10, 11, 99, 100, 101, 12_345] {
            assert_eq!(index_bytes(count), (0..count).map(digits).sum::<u64>(), "{count}");
        }
    }

    #[test]
    fn paths_lead_into_documents_and_through_arrays() {
        let leaf = |name: &str| Field { name: name.into(), content: Content::Bool };
        let inner = Content::Document(vec![leaf("b"), leaf("c")]);
        let array = Content::Array { of: Box::new(inner.clone()), min: 0, max: 3 };
        let field = |name: &str, content| Field { name: name.into(), content };
        let fields = [field("a", inner), leaf("x"), field("list", array)];
        assert_eq!(paths(&fields), ["a", "a.b", "a.c", "x", "list", "list.b", "list.c"]);
        assert!(paths(&fields).iter().all(|path| has_path(&fields, path)));
        for wrong in ["", "b", "a.x", "x.a", "a.b.c", "list.0", "a."] {
            assert!(!has_path(&fields, wrong), "{wrong}");
        }
    }
}
