//! What a document holds: a function of the seed, its key and its version, down to the last byte.

use bson::{RawDocument, RawDocumentBuf};

use super::template::{Content, Field, Template};
use crate::scenario::Shape;

/// 91 bytes of structure and numbers, and a text that fills the document up to 400 bytes.
const ROW: [Field; 7] = [
    ("_id", Content::Key),
    ("v", Content::Version),
    ("long", Content::Int64),
    ("int", Content::Int32),
    ("date", Content::Date),
    ("double", Content::Double),
    ("string", Content::Text(309)),
];

/// Field names and lengths of the YCSB core workload, plus the version.
const YCSB: [Field; 12] = [
    ("_id", Content::Key),
    ("v", Content::Version),
    ("field0", Content::Text(100)),
    ("field1", Content::Text(100)),
    ("field2", Content::Text(100)),
    ("field3", Content::Text(100)),
    ("field4", Content::Text(100)),
    ("field5", Content::Text(100)),
    ("field6", Content::Text(100)),
    ("field7", Content::Text(100)),
    ("field8", Content::Text(100)),
    ("field9", Content::Text(100)),
];

/// The documents of one shape and one seed.
///
/// Every document starts with `_id` (the key as a 64-bit integer) and `v` (the version as a 32-bit
/// integer). All other fields are random, drawn anew for each version from the stream of
/// (seed, key, version): numbers over their whole range, dates between 2000 and 2030, doubles in
/// `[0, 1)`, texts of 64 printable characters (6 bits a byte, so they compress by a quarter).
#[derive(Clone, Debug)]
pub struct Documents {
    seed: u64,
    whole: Template,
    update: Template,
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
        field: &'static str,
        /// Offset of the first wrong byte behind the length field.
        at: usize,
    },
}

impl Documents {
    /// The documents of this shape and seed.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Self {
        let fields: &[Field] = match shape {
            Shape::Row => &ROW,
            Shape::Ycsb => &YCSB,
        };
        let update = Template::new(&fields[1..]).within("$set");
        Self { seed, whole: Template::new(fields), update }
    }

    /// Length of each document in bytes: 400 (row) or 1,155 (ycsb).
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.whole.len()
    }

    /// Appends the document as BSON.
    pub fn encode(&self, key: u64, version: u32, out: &mut Vec<u8>) {
        self.whole.write(self.seed, key, version, out);
    }

    /// The document.
    ///
    /// # Panics
    /// Never: a template is a well-formed document.
    #[must_use]
    pub fn document(&self, key: u64, version: u32) -> RawDocumentBuf {
        let mut bytes = Vec::with_capacity(self.whole.len());
        self.encode(key, version, &mut bytes);
        RawDocumentBuf::from_bytes(bytes).expect("a template is a well-formed document")
    }

    /// The update `{ $set: { … } }`, as BSON, that turns any version of the document into exactly
    /// this one. It sets every field but `_id`; a server keeps the order of fields that exist.
    #[must_use]
    pub fn update(&self, key: u64, version: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.update.len());
        self.update.write(self.seed, key, version, &mut bytes);
        bytes
    }

    /// Reads key and version and compares every byte with what was written for them.
    ///
    /// # Errors
    /// [`ContentError`], with the first field that is not as written.
    pub fn check(&self, raw: &RawDocument) -> Result<(u64, u32), ContentError> {
        let key = raw.get_i64("_id").map_err(|e| ContentError::NoKey(e.to_string()))?.cast_unsigned();
        let version = raw.get_i32("v").map_err(|e| ContentError::NoVersion { key, reason: e.to_string() })?;
        let version = version.cast_unsigned();
        let expected = self.document(key, version);
        if expected.as_bytes() == raw.as_bytes() {
            return Ok((key, version));
        }
        let at = first_difference(expected.as_bytes(), raw.as_bytes());
        let field = self.whole.field_at(at).unwrap_or("end");
        Err(ContentError::Differs { key, version, field, at })
    }
}

/// Offset of the first byte that differs. The length at the start follows from the rest, so it is
/// left out: it would hide the field that made it wrong.
fn first_difference(expected: &[u8], found: &[u8]) -> usize {
    let both = expected.iter().zip(found).skip(4);
    4 + both.take_while(|(expected, found)| expected == found).count()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};
    use proptest::prelude::*;

    use super::*;

    fn fnv1a(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn row(key: u64, version: u32) -> Document {
        Document::try_from(&*Documents::new(Shape::Row, 7).document(key, version)).unwrap()
    }

    #[test]
    fn a_document_never_changes_between_versions_of_the_tool() {
        let row = Documents::new(Shape::Row, 42).document(4_294_967_309, 3);
        let golden = [
            &b"\x90\x01\0\0\x12_id\0\x0d\0\0\0\x01\0\0\0\x10v\0\x03\0\0\0"[..],
            b"\x12long\0\x5c\x7f/\xe0\xb4f\xb41\x10int\0{R\x01<\x09date\0\x96\xe1\xe6_-\x01\0\0",
            b"\x01double\0\x22-\xf7Ev\xdc\xe5?\x02string\0\x36\x01\0\0F`mJ6;kKe4hm><Dk^",
        ];
        assert_eq!(row.as_bytes()[..106], golden.concat());
        assert_eq!(fnv1a(row.as_bytes()), 0x6765_a1e6_040a_1b4a);
        let ycsb = Documents::new(Shape::Ycsb, 42).document(4_294_967_309, 3);
        assert_eq!(fnv1a(ycsb.as_bytes()), 0x50fc_20cd_8fc4_b298);
    }

    #[test]
    fn documents_have_the_promised_fields_and_lengths() {
        let row = row(17, 2);
        let names: Vec<&str> = row.keys().map(String::as_str).collect();
        assert_eq!(names, ["_id", "v", "long", "int", "date", "double", "string"]);
        assert_eq!((row.get_i64("_id").unwrap(), row.get_i32("v").unwrap()), (17, 2));
        let year = row.get_datetime("date").unwrap().try_to_rfc3339_string().unwrap();
        assert!(("2000".."2030").contains(&&year[..4]), "{year}");
        assert!((0.0..1.0).contains(&row.get_f64("double").unwrap()));
        assert!(row.get_str("string").unwrap().bytes().all(|byte| byte.is_ascii_graphic()));

        let ycsb = Documents::new(Shape::Ycsb, 7);
        let document = Document::try_from(&*ycsb.document(17, 2)).unwrap();
        assert_eq!(document.len(), 12);
        assert_eq!(document.get_str("field9").unwrap().len(), 100);
        assert_eq!((raw(&row).as_bytes().len(), ycsb.len_bytes()), (400, 1_155));
    }

    #[test]
    fn each_planted_defect_is_found_in_its_field() {
        let documents = Documents::new(Shape::Row, 7);
        let field = |change: fn(&mut Document)| {
            let mut document = row(5, 1);
            change(&mut document);
            match documents.check(&raw(&document)).unwrap_err() {
                ContentError::Differs { key: 5, field, .. } => field,
                error => panic!("{error}"),
            }
        };
        assert_eq!(field(|d| drop(d.insert("int", 1))), "int");
        assert_eq!(field(|d| drop(d.insert("int", 1_i64))), "int");
        assert_eq!(field(|d| drop(d.insert("string", "short"))), "string");
        assert_eq!(field(|d| drop(d.insert("double", -0.5))), "double");
        assert_eq!(field(|d| drop(d.remove("date"))), "date");
        assert_eq!(field(|d| drop(d.remove("string"))), "string");
        assert_eq!(field(|d| drop(d.insert("more", 1))), "end");
        assert_eq!(field(|d| drop(d.insert("v", 2))), "long");
        assert_eq!(field(|d| d.remove("_id").map_or((), |id| drop(d.insert("_id", id)))), "_id");
    }

    #[test]
    fn a_document_without_key_or_version_is_said_to_be_so() {
        let documents = Documents::new(Shape::Row, 7);
        let check = |document: Document| documents.check(&raw(&document)).unwrap_err();
        assert!(matches!(check(doc! { "v": 1 }), ContentError::NoKey(_)));
        assert!(matches!(check(doc! { "_id": "a", "v": 1 }), ContentError::NoKey(_)));
        assert!(matches!(check(doc! { "_id": 3_i64 }), ContentError::NoVersion { key: 3, .. }));
    }

    proptest! {
        #[test]
        fn what_is_written_passes_and_any_changed_byte_does_not(
            key: u64, version: u32, at: prop::sample::Index, change in 1_u8..,
        ) {
            for shape in [Shape::Row, Shape::Ycsb] {
                let documents = Documents::new(shape, 1);
                let mut bytes = documents.document(key, version).into_bytes();
                prop_assert_eq!(documents.check(RawDocument::from_bytes(&bytes).unwrap()), Ok((key, version)));
                let at = at.index(bytes.len());
                bytes[at] ^= change;
                if let Ok(raw) = RawDocument::from_bytes(&bytes) {
                    prop_assert!(documents.check(raw).is_err());
                }
            }
        }

        #[test]
        fn an_update_leads_from_any_version_to_exactly_the_next(key: u64, from: u32, to: u32) {
            for shape in [Shape::Row, Shape::Ycsb] {
                let documents = Documents::new(shape, 1);
                let update = documents.update(key, to);
                let mut update = Document::try_from(RawDocument::from_bytes(&update).unwrap()).unwrap();
                let Some(Bson::Document(fields)) = update.remove("$set") else { panic!("no $set") };
                prop_assert!(update.is_empty());
                let mut document = Document::try_from(&*documents.document(key, from)).unwrap();
                document.extend(fields);
                prop_assert_eq!(documents.check(&raw(&document)), Ok((key, to)));
            }
        }
    }
}
