//! What a document holds: a function of the seed, its key and its version, down to the last byte.

use std::borrow::Borrow;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use super::fixed::Fixed;
use super::place::field_at;
use super::random::SplitMix64;
use super::tree::{self, Node, Part};
use super::value::{DOCUMENT, Value};
use crate::scenario::Shape;
use crate::scenario::content::document_bytes;

/// `_id` and `v` in BSON.
const OUR_FIELDS_BYTES: usize = 20;

/// The documents of one shape and one seed. Cheap to clone.
///
/// Every document starts with `_id` (the key as a 64-bit integer) and `v` (the version as a 32-bit
/// integer). All other fields are constant, follow from the key, or are random: drawn anew for each version
/// from the stream of (seed, key, version). Texts are of 64 printable characters (6 bits a byte, so they
/// compress by a quarter unless they repeat).
#[derive(Clone, Debug)]
pub struct Documents {
    seed: u64,
    /// Stands in the database for key 0.
    first: u64,
    whole: Arc<Layout>,
    update: Arc<Layout>,
    mean_bytes: usize,
    most_bytes: usize,
}

/// How a document is made.
#[derive(Debug)]
enum Layout {
    /// The fast way, where all documents are alike but for their values.
    Fixed(Fixed),
    Tree(Vec<Part>),
}

impl Layout {
    fn new(parts: Vec<Part>) -> Self {
        Fixed::new(&parts).map_or(Self::Tree(parts), Self::Fixed)
    }

    fn write(&self, seed: u64, key: u64, version: u32, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(fixed) => fixed.write(seed, key, version, out),
            Self::Tree(parts) => {
                let mut random = SplitMix64::of([seed, key, version.into()]);
                tree::write(parts, &mut random, (key, version), out);
            }
        }
    }
}

/// How a document is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Not BSON, or without a 64-bit integer as `_id`.
    #[error("document without a key: {0}")]
    NoKey(String),
    /// Without a 32-bit integer as `v`.
    #[error("document {key} without a version: {reason}")]
    NoVersion {
        /// Its key.
        key: u64,
        /// What is wrong with `v`.
        reason: String,
    },
    /// A field has another value, type, name, place or length, is missing, or is not one of ours.
    #[error("document {key} version {version}: {field} is not as written (from byte {at} on)")]
    Differs {
        /// Its key.
        key: u64,
        /// Its version.
        version: u32,
        /// The first field that is not as written, or `end` when there is more behind the last one.
        field: String,
        /// Offset of the first wrong byte behind the length field.
        at: usize,
    },
}

impl Documents {
    /// The documents of this shape and seed.
    #[must_use]
    pub fn new(shape: impl Borrow<Shape>, seed: u64) -> Self {
        let fields = shape.borrow().fields();
        let mut parts =
            vec![Part::new("_id", Node::Value(Value::Key)), Part::new("v", Node::Value(Value::Version))];
        parts.extend(Part::of(&fields));
        let update = vec![Part::new("$set", Node::Parts(DOCUMENT, parts[1..].to_vec()))];
        let (whole, update) = (Layout::new(parts), Layout::new(update));
        let bytes = document_bytes(&fields);
        let (mean_bytes, most_bytes) = match &whole {
            Layout::Fixed(fixed) => (fixed.len(), fixed.len()),
            Layout::Tree(_) => {
                (bytes.mean as usize + OUR_FIELDS_BYTES, bytes.most as usize + OUR_FIELDS_BYTES)
            }
        };
        Self { seed, first: 0, whole: Arc::new(whole), update: Arc::new(update), mean_bytes, most_bytes }
    }

    /// The same with other keys in the database: the tool counts its keys from 0 on, stored are those from
    /// `first` on.
    #[must_use]
    pub fn starting_at(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// The `_id` of a key: stored as signed integers; 2^63 of them are enough.
    #[must_use]
    pub fn id(&self, key: u64) -> i64 {
        i64::try_from(self.first.saturating_add(key)).unwrap_or(i64::MAX)
    }

    /// The key of an `_id`; `None`: it is before the first one.
    #[must_use]
    pub fn key_of(&self, id: i64) -> Option<u64> {
        u64::try_from(id).ok()?.checked_sub(self.first)
    }

    /// Length of a document in bytes, on average: exactly 400 (row) or 1,155 (ycsb).
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.mean_bytes
    }

    /// Length of the longest document in bytes.
    #[must_use]
    pub const fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Appends the document as BSON.
    pub fn encode(&self, key: u64, version: u32, out: &mut Vec<u8>) {
        self.whole.write(self.seed, self.first.wrapping_add(key), version, out);
    }

    /// The document.
    ///
    /// # Panics
    /// Never: what is written is a well-formed document.
    #[must_use]
    pub fn document(&self, key: u64, version: u32) -> RawDocumentBuf {
        let mut bytes = Vec::with_capacity(self.mean_bytes);
        self.encode(key, version, &mut bytes);
        RawDocumentBuf::from_bytes(bytes).expect("what is written is a well-formed document")
    }

    /// The update `{ $set: { … } }`, as BSON, that turns any version of the document into exactly
    /// this one. It sets every field but `_id`; a server keeps the order of fields that exist.
    #[must_use]
    pub fn update(&self, key: u64, version: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.mean_bytes + OUR_FIELDS_BYTES);
        self.encode_update(key, version, &mut bytes);
        bytes
    }

    /// Appends that update.
    pub fn encode_update(&self, key: u64, version: u32, out: &mut Vec<u8>) {
        self.update.write(self.seed, self.first.wrapping_add(key), version, out);
    }

    /// Reads key and version and compares every byte with what was written for them.
    ///
    /// # Errors
    /// [`ContentError`], with the first field that is not as written.
    pub fn check(&self, raw: &RawDocument) -> Result<(u64, u32), ContentError> {
        let stored = raw.get_i64("_id").map_err(|e| ContentError::NoKey(e.to_string()))?.cast_unsigned();
        let version = raw.get_i32("v").map_err(|e| {
            let reason = e.to_string();
            ContentError::NoVersion { key: stored, reason }
        })?;
        let version = version.cast_unsigned();
        let key = stored.wrapping_sub(self.first);
        let expected = self.document(key, version);
        if expected.as_bytes() == raw.as_bytes() {
            return Ok((key, version));
        }
        let at = first_difference(expected.as_bytes(), raw.as_bytes());
        let field = field_at(&expected, at).unwrap_or_else(|| "end".into());
        Err(ContentError::Differs { key: stored, version, field, at })
    }
}

/// Offset of the first byte that differs. The length at the start follows from the rest, so it is
/// left out: it would hide the field that made it wrong.
fn first_difference(expected: &[u8], found: &[u8]) -> usize {
    let both = expected.iter().zip(found).skip(4);
    4 + both.take_while(|(expected, found)| expected == found).count()
}

#[cfg(test)]
mod tests;
