//! The elements of a BSON document, one after the other, where they lie.
//!
//! Only what must be known to step from one element to the next is checked: no names, no texts. That is
//! what makes it several times faster than a general reader, and it is all that a reply needs.

use crate::bytes::Bytes;
use crate::error::FormatError;

const WHAT: &str = "an element";

/// One element of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its type (<https://bsonspec.org/spec.html>).
    pub kind: u8,
    /// Its name, not checked to be UTF-8.
    pub name: &'a [u8],
    /// Its value as it is stored: lengths and final NULs included.
    pub value: &'a [u8],
}

/// What is left of a document.
#[derive(Clone, Debug)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The elements of one whole document.
    ///
    /// # Errors
    /// When it is not as long as it says, or does not end with a NUL.
    pub fn of(document: &'a [u8]) -> Result<Self, FormatError> {
        let mut bytes = Bytes(document);
        let announced = bytes.i32("a document")?;
        if usize::try_from(announced).ok() != Some(document.len()) {
            return Err(FormatError::Truncated("a document"));
        }
        match bytes.0.split_last() {
            Some((0, elements)) => Ok(Self(elements)),
            _ => Err(FormatError::Truncated("a document")),
        }
    }

    /// The next element; `None` at the end.
    ///
    /// # Errors
    /// When the document ends inside it, or its type is unknown.
    pub fn next_element(&mut self) -> Result<Option<Element<'a>>, FormatError> {
        let Some((kind, rest)) = self.0.split_first() else { return Ok(None) };
        let end = rest.iter().position(|byte| *byte == 0).ok_or(FormatError::Truncated("a name"))?;
        let (name, rest) = (&rest[..end], &rest[end + 1..]);
        let length = value_length(*kind, rest)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(FormatError::Truncated(WHAT))?;
        self.0 = rest;
        Ok(Some(Element { kind: *kind, name, value }))
    }

    /// The first element of this name that is still to come.
    ///
    /// # Errors
    /// Those of [`Elements::next_element`].
    pub fn find(&mut self, name: &[u8]) -> Result<Option<Element<'a>>, FormatError> {
        while let Some(element) = self.next_element()? {
            if element.name == name {
                return Ok(Some(element));
            }
        }
        Ok(None)
    }
}

fn value_length(kind: u8, rest: &[u8]) -> Result<usize, FormatError> {
    let prefixed = |more: usize| {
        let length = Bytes(rest).i32(WHAT)?;
        usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(more))
            .ok_or(FormatError::Truncated(WHAT))
    };
    let text = |from: usize| {
        let rest = rest.get(from..).ok_or(FormatError::Truncated(WHAT))?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or(FormatError::Truncated(WHAT))?;
        Ok(from + end + 1)
    };
    match kind {
        // Undefined, null, smallest and largest key.
        0x06 | 0x0a | 0x7f | 0xff => Ok(0),
        0x08 => Ok(1),
        0x10 => Ok(4),
        0x01 | 0x09 | 0x11 | 0x12 => Ok(8),
        0x07 => Ok(12),
        0x13 => Ok(16),
        0x02 | 0x0d | 0x0e => prefixed(4),
        0x05 => prefixed(5),
        0x0c => prefixed(16),
        // These count their own length field.
        0x03 | 0x04 | 0x0f => prefixed(0),
        0x0b => text(text(0)?),
        _ => Err(FormatError::Document(format!("unknown type {kind:#x}"))),
    }
}

impl<'a> Element<'a> {
    /// An integer, or a double that holds one.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self.kind {
            0x10 => Some(i32::from_le_bytes(self.value.try_into().ok()?).into()),
            0x12 => Some(i64::from_le_bytes(self.value.try_into().ok()?)),
            0x01 => {
                let number = f64::from_le_bytes(self.value.try_into().ok()?);
                // Beyond this not every integer has a double of its own.
                (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
            }
            _ => None,
        }
    }

    /// A text; what is not UTF-8 in it is replaced.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        let text = self.value.get(4..)?.split_last()?.1;
        (self.kind == 0x02).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The bytes of a document or of an array.
    #[must_use]
    pub fn as_document(&self) -> Option<&'a [u8]> {
        matches!(self.kind, 0x03 | 0x04).then_some(self.value)
    }

    /// A number that is not zero, or `true`: what servers mean by `ok`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self.kind {
            0x08 => self.value == [1],
            _ => self.as_i64().is_some_and(|number| number != 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
    use proptest::prelude::*;

    use super::*;

    fn every_type() -> Document {
        doc! {
            "double": 1.5, "text": "ü", "document": { "a": 1 }, "array": [1, "b"], "id": ObjectId::new(),
            "binary": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1] }),
            "undefined": Bson::Undefined, "bool": true, "date": Bson::DateTime(bson::DateTime::now()), "null": Bson::Null,
            "regex": Bson::RegularExpression(bson::Regex { pattern: bson::raw::cstr!("a").into(), options: bson::raw::cstr!("i").into() }),
            "code": Bson::JavaScriptCode("f()".into()), "symbol": Bson::Symbol("s".into()),
            "scoped": Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code: "g()".into(), scope: doc! { "x": 1 } }),
            "int": 7, "timestamp": Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }), "long": 8_i64,
            "decimal": Bson::Decimal128(bson::Decimal128::from_bytes([7; 16])), "min": Bson::MinKey, "max": Bson::MaxKey,
        }
    }

    fn names(document: &[u8]) -> Result<Vec<(Vec<u8>, u8)>, FormatError> {
        let mut elements = Elements::of(document)?;
        let mut names = Vec::new();
        while let Some(element) = elements.next_element()? {
            names.push((element.name.to_vec(), element.kind));
        }
        Ok(names)
    }

    #[test]
    fn every_type_is_stepped_over() {
        let raw = RawDocumentBuf::try_from(&every_type()).unwrap();
        let expected: Vec<_> = every_type()
            .iter()
            .map(|(name, value)| (name.clone().into_bytes(), value.element_type() as u8))
            .collect();
        assert_eq!(names(raw.as_bytes()).unwrap(), expected);
        let find = |name: &str| Elements::of(raw.as_bytes()).unwrap().find(name.as_bytes()).unwrap();
        assert_eq!(find("text").unwrap().as_text().unwrap(), "ü");
        assert_eq!([find("int"), find("long")].map(|e| e.unwrap().as_i64()), [Some(7), Some(8)]);
        assert_eq!((find("double").unwrap().as_i64(), find("nothing")), (None, None));
        assert!(find("bool").unwrap().is_true() && !find("null").unwrap().is_true());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let mut framed = (bytes.len() as u32 + 5).to_le_bytes().to_vec();
            framed.extend(&bytes);
            framed.push(0);
            let _read = (names(&bytes), names(&framed));
        }

        /// One byte of a good document is changed: what the general reader takes must be read alike.
        #[test]
        fn what_another_reader_takes_is_read_alike(at: prop::sample::Index, to: u8) {
            let mut bytes = RawDocumentBuf::try_from(&every_type()).unwrap().into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = to;
            let Ok(raw) = RawDocument::from_bytes(&bytes) else { return Ok(()) };
            let other: Result<Vec<_>, _> =
                raw.iter_elements().map(|e| e.map(|e| (e.key().as_str().as_bytes().to_vec(), e.element_type() as u8))).collect();
            if let (Ok(other), Ok(ours)) = (other, names(&bytes)) {
                prop_assert_eq!(ours, other);
            }
        }
    }
}
