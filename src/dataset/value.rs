//! The values of documents: how each is drawn, and how it is written in BSON.

use super::random::SplitMix64;
use crate::scenario::content::{Constant, Content};

/// First of the 64 printable characters `0` to `o` that texts are made of.
const TEXT_BASE: u64 = 0x3030_3030_3030_3030;

/// The six bits of each byte that choose one of them.
const TEXT_MASK: u64 = 0x3f3f_3f3f_3f3f_3f3f;

/// A value without parts. Its bytes follow from the key, the version and the stream of random numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// The key, as a 64-bit integer.
    Key,
    /// The version, as a 32-bit integer.
    Version,
    /// `start + key * step`, wrapping.
    Sequence { start: i64, step: i64 },
    /// `min + [0, span)`, wrapping; a span of 0 is 2^64: any 64 bits.
    Int64 { min: i64, span: u64 },
    /// The same with 32 bits; a span of 2^32 is any 32 bits.
    Int32 { min: i32, span: u64 },
    /// Milliseconds.
    Date { from_ms: i64, span_ms: u64 },
    /// `min + [0, 1) * width`.
    Double { min: f64, width: f64, below: f64 },
    /// So many characters, which begin again after `repeat`.
    Text { min: u32, max: u32, repeat: Option<u32> },
    /// True or false.
    Bool,
    /// 12 random bytes.
    ObjectId,
    /// One of these.
    Pick(Vec<Written>),
    /// Always this.
    Constant(Written),
}

/// A value in BSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    element_type: u8,
    bytes: Box<[u8]>,
}

// Types of BSON elements (<https://bsonspec.org/spec.html>).
const DOUBLE: u8 = 0x01;
const TEXT: u8 = 0x02;
pub(super) const DOCUMENT: u8 = 0x03;
pub(super) const ARRAY: u8 = 0x04;
const OBJECT_ID: u8 = 0x07;
const BOOL: u8 = 0x08;
const DATE: u8 = 0x09;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

impl Written {
    fn new(constant: &Constant) -> Self {
        let (element_type, bytes) = match constant {
            Constant::Text(text) => {
                let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
                bytes.extend(text.as_bytes());
                bytes.push(0);
                (TEXT, bytes)
            }
            Constant::Int32(number) => (INT32, number.to_le_bytes().to_vec()),
            Constant::Int64(number) => (INT64, number.to_le_bytes().to_vec()),
            Constant::Double(number) => (DOUBLE, number.to_le_bytes().to_vec()),
            Constant::Bool(value) => (BOOL, vec![u8::from(*value)]),
            Constant::Date(ms) => (DATE, ms.to_le_bytes().to_vec()),
        };
        Self { element_type, bytes: bytes.into() }
    }
}

impl Value {
    /// The value of a content; `None`: it has parts.
    pub(super) fn of(content: &Content) -> Option<Self> {
        Some(match content {
            Content::Constant(constant) => Self::Constant(Written::new(constant)),
            Content::Sequence { start, step } => Self::Sequence { start: *start, step: *step },
            Content::Int32 { min, max } => {
                Self::Int32 { min: *min, span: (i64::from(*max) - i64::from(*min)).cast_unsigned() + 1 }
            }
            Content::Int64 { min, max } => {
                Self::Int64 { min: *min, span: max.wrapping_sub(*min).cast_unsigned().wrapping_add(1) }
            }
            Content::Double { min, max } => Self::Double { min: *min, width: max - min, below: *max },
            Content::Date { from_ms, to_ms } => {
                Self::Date { from_ms: *from_ms, span_ms: to_ms.wrapping_sub(*from_ms).cast_unsigned() }
            }
            Content::Text { min, max, repeat } => Self::Text { min: *min, max: *max, repeat: *repeat },
            Content::Bool => Self::Bool,
            Content::ObjectId => Self::ObjectId,
            Content::Pick(choices) => Self::Pick(choices.iter().map(Written::new).collect()),
            Content::Document(_) | Content::List(_) | Content::Array { .. } => return None,
        })
    }

    /// Type and width in bytes, if they are the same in every document.
    pub(super) fn layout(&self) -> Option<(u8, usize)> {
        Some(match self {
            Self::Version | Self::Int32 { .. } => (INT32, 4),
            Self::Key | Self::Sequence { .. } | Self::Int64 { .. } => (INT64, 8),
            Self::Date { .. } => (DATE, 8),
            Self::Double { .. } => (DOUBLE, 8),
            Self::Bool => (BOOL, 1),
            Self::ObjectId => (OBJECT_ID, 12),
            Self::Constant(written) => (written.element_type, written.bytes.len()),
            Self::Text { min, max, .. } => return (min == max).then_some((TEXT, *min as usize + 5)),
            Self::Pick(choices) => {
                let layout = |written: &Written| (written.element_type, written.bytes.len());
                let first = choices.first().map(layout)?;
                return choices.iter().all(|choice| layout(choice) == first).then_some(first);
            }
        })
    }

    /// Writes a value of fixed layout into its place.
    pub(super) fn fill(&self, random: &mut SplitMix64, (key, version): (u64, u32), place: &mut [u8]) {
        match self {
            Self::Key => place.copy_from_slice(&key.to_le_bytes()),
            Self::Version => place.copy_from_slice(&version.to_le_bytes()),
            Self::Sequence { start, step } => {
                let number = start.wrapping_add(key.cast_signed().wrapping_mul(*step));
                place.copy_from_slice(&number.to_le_bytes());
            }
            Self::Int64 { span: 0, .. } => place.copy_from_slice(&random.next().to_le_bytes()),
            Self::Int64 { min, span } | Self::Date { from_ms: min, span_ms: span } => {
                let number = min.wrapping_add_unsigned(random.below(*span));
                place.copy_from_slice(&number.to_le_bytes());
            }
            Self::Int32 { span: ANY_32_BITS, .. } => {
                place.copy_from_slice(&((random.next() >> 32) as u32).to_le_bytes());
            }
            Self::Int32 { min, span } => {
                let number = min.wrapping_add_unsigned(random.below(*span) as u32);
                place.copy_from_slice(&number.to_le_bytes());
            }
            Self::Double { min, width, below } => {
                place.copy_from_slice(&double(random.unit(), *min, *width, *below).to_le_bytes());
            }
            Self::Bool => place[0] = u8::from(random.next() >> 63 == 1),
            Self::ObjectId => {
                place[..8].copy_from_slice(&random.next().to_le_bytes());
                place[8..].copy_from_slice(&random.next().to_le_bytes()[..4]);
            }
            Self::Text { repeat, .. } => fill_text(random, *repeat, place),
            Self::Pick(choices) => place.copy_from_slice(&choose(random, choices).bytes),
            Self::Constant(written) => place.copy_from_slice(&written.bytes),
        }
    }

    /// Appends a value of any layout, and gives its type. Draws the same numbers as [`Self::fill`].
    pub(super) fn append(&self, random: &mut SplitMix64, of: (u64, u32), out: &mut Vec<u8>) -> u8 {
        let start = out.len();
        match (self, self.layout()) {
            (_, Some((element_type, width))) => {
                out.resize(start + width, 0);
                self.fill(random, of, &mut out[start..]);
                element_type
            }
            (Self::Pick(choices), None) => {
                let written = choose(random, choices);
                out.extend(&written.bytes);
                written.element_type
            }
            (Self::Text { min, max, repeat }, None) => {
                let length = count(random, *min, *max);
                out.resize(start + length as usize + 5, 0);
                fill_text(random, *repeat, &mut out[start..]);
                TEXT
            }
            // Everything else has a layout.
            (_, None) => 0,
        }
    }
}

const ANY_32_BITS: u64 = 1 << 32;

/// Evenly from min to max; draws nothing when they are the same.
pub(super) fn count(random: &mut SplitMix64, min: u32, max: u32) -> u32 {
    if min == max { min } else { min + random.below(u64::from(max - min) + 1) as u32 }
}

/// Rounding may lead to the upper end, which is not part of it.
fn double(unit: f64, min: f64, width: f64, below: f64) -> f64 {
    let number = min + unit * width;
    if number < below { number } else { below.next_down().max(min) }
}

fn choose<'a>(random: &mut SplitMix64, choices: &'a [Written]) -> &'a Written {
    &choices[random.below(choices.len() as u64) as usize]
}

/// Length, characters and NUL of a text that takes the whole place.
fn fill_text(random: &mut SplitMix64, repeat: Option<u32>, place: &mut [u8]) {
    let length = place.len() - 5;
    // The length of a BSON string counts the NUL behind it.
    place[..4].copy_from_slice(&(length as u32 + 1).to_le_bytes());
    place[length + 4] = 0;
    let text = &mut place[4..length + 4];
    let fresh = repeat.map_or(length, |repeat| length.min(repeat as usize));
    write_text(random, &mut text[..fresh]);
    let mut written = fresh;
    while written < length {
        let more = written.min(length - written);
        text.copy_within(..more, written);
        written += more;
    }
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
