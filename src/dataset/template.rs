//! A BSON document of fixed layout: built once, then copied and filled in.
//!
//! All fields have a fixed length, so a document is one copy of the template and a few writes at
//! known offsets, without a map or an allocation per field.

use std::ops::Range;

use super::random::SplitMix64;

/// First of the 64 printable characters `0` to `o` that texts are made of.
const TEXT_BASE: u64 = 0x3030_3030_3030_3030;

/// The six bits of each byte that choose one of them.
const TEXT_MASK: u64 = 0x3f3f_3f3f_3f3f_3f3f;

/// Dates lie in the thirty years from 2000-01-01 ...
const DATE_FROM_MS: u64 = 946_684_800_000;

/// ... to 2030-01-01, UTC.
const DATE_SPAN_MS: u64 = 1_893_456_000_000 - DATE_FROM_MS;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The key, as a 64-bit integer.
    Key,
    /// The version, as a 32-bit integer.
    Version,
    /// Any 64-bit integer.
    Int64,
    /// Any 32-bit integer.
    Int32,
    /// A date between 2000 and 2030.
    Date,
    /// A number in `[0, 1)`.
    Double,
    /// This many printable characters.
    Text(usize),
}

impl Content {
    /// BSON element type (<https://bsonspec.org/spec.html>).
    const fn element_type(self) -> u8 {
        match self {
            Self::Double => 0x01,
            Self::Text(_) => 0x02,
            Self::Date => 0x09,
            Self::Version | Self::Int32 => 0x10,
            Self::Key | Self::Int64 => 0x12,
        }
    }

    /// Bytes of the value that are filled in.
    const fn width(self) -> usize {
        match self {
            Self::Version | Self::Int32 => 4,
            Self::Key | Self::Int64 | Self::Date | Self::Double => 8,
            Self::Text(length) => length,
        }
    }
}

/// Name and content of a field.
pub(super) type Field = (&'static str, Content);

/// A document that lacks nothing but its values.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

/// Where the value of a field goes.
#[derive(Clone, Debug)]
struct Slot {
    name: &'static str,
    content: Content,
    value: Range<usize>,
}

impl Template {
    /// A document of these fields, in this order.
    pub(super) fn new(fields: &[Field]) -> Self {
        let mut bytes = vec![0; 4];
        let slot = |&(name, content): &Field| {
            bytes.push(content.element_type());
            bytes.extend(name.as_bytes());
            bytes.push(0);
            if let Content::Text(length) = content {
                // The length of a BSON string counts the NUL behind it.
                bytes.extend((length as u32 + 1).to_le_bytes());
            }
            let start = bytes.len();
            bytes.resize(start + content.width(), 0);
            let value = start..bytes.len();
            if matches!(content, Content::Text(_)) {
                bytes.push(0);
            }
            Slot { name, content, value }
        };
        let slots = fields.iter().map(slot).collect();
        close(&mut bytes);
        Self { bytes, slots }
    }

    /// A document whose only field is this one.
    pub(super) fn within(self, name: &str) -> Self {
        let mut bytes = vec![0; 4];
        bytes.push(0x03);
        bytes.extend(name.as_bytes());
        bytes.push(0);
        let shift = bytes.len();
        bytes.extend(self.bytes);
        close(&mut bytes);
        let moved = |value: Range<usize>| value.start + shift..value.end + shift;
        let slots = self.slots.into_iter().map(|slot| Slot { value: moved(slot.value), ..slot });
        Self { bytes, slots: slots.collect() }
    }

    /// Length of the document in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the document with all its values.
    pub(super) fn write(&self, seed: u64, key: u64, version: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let document = &mut out[start..];
        let mut random = SplitMix64::of([seed, key, version.into()]);
        for slot in &self.slots {
            let value = &mut document[slot.value.clone()];
            match slot.content {
                Content::Key => value.copy_from_slice(&key.to_le_bytes()),
                Content::Version => value.copy_from_slice(&version.to_le_bytes()),
                Content::Int64 => value.copy_from_slice(&random.next().to_le_bytes()),
                Content::Int32 => value.copy_from_slice(&((random.next() >> 32) as u32).to_le_bytes()),
                Content::Date => {
                    let date = DATE_FROM_MS + random.below(DATE_SPAN_MS);
                    value.copy_from_slice(&date.to_le_bytes());
                }
                Content::Double => value.copy_from_slice(&random.unit().to_le_bytes()),
                Content::Text(_) => write_text(&mut random, value),
            }
        }
    }

    /// The field that the byte at `at` belongs to; `None` behind the last one.
    pub(super) fn field_at(&self, at: usize) -> Option<&'static str> {
        // The byte before a field's name belongs to that field, the NUL behind a text to the text.
        let behind = |slot: &&Slot| {
            let nul = usize::from(matches!(slot.content, Content::Text(_)));
            at < slot.value.end + nul
        };
        self.slots.iter().find(behind).map(|slot| slot.name)
    }
}

/// Ends a document and writes its length at its start.
fn close(bytes: &mut Vec<u8>) {
    bytes.push(0);
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
}

/// Eight characters from each random number: 6 bits of each of its bytes.
fn write_text(random: &mut SplitMix64, text: &mut [u8]) {
    let mut characters = || ((random.next() & TEXT_MASK) + TEXT_BASE).to_le_bytes();
    let mut chunks = text.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&characters());
    }
    let rest = chunks.into_remainder();
    let length = rest.len();
    if length > 0 {
        rest.copy_from_slice(&characters()[..length]);
    }
}
