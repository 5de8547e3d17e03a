//! Which field of a document a byte belongs to: for messages about documents that are not as written.

use bson::RawBsonRef;
use bson::RawDocument;

/// The dotted path of the field that the byte at `at` of a document of ours belongs to; `None`: the end of
/// the document. A name belongs to its field.
pub(super) fn field_at(document: &RawDocument, at: usize) -> Option<String> {
    // Elements follow each other behind the length, each as long as its type, name, NUL and value.
    let mut behind = 4;
    for element in document {
        let (name, value) = element.ok()?;
        let start = behind + name.len() + 2;
        behind = start + value_bytes(value)?;
        if at < behind {
            let inner = match value {
                RawBsonRef::Document(inner) => Some(inner),
                RawBsonRef::Array(items) => Some(RawDocument::from_bytes(items.as_bytes()).ok()?),
                _ => None,
            };
            let below = inner.filter(|_| at >= start).and_then(|inner| field_at(inner, at - start));
            return Some(below.map_or_else(|| name.to_string(), |below| format!("{name}.{below}")));
        }
    }
    None
}

/// Of the types that our documents hold.
fn value_bytes(value: RawBsonRef<'_>) -> Option<usize> {
    Some(match value {
        RawBsonRef::Int32(_) => 4,
        RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::DateTime(_) => 8,
        RawBsonRef::Boolean(_) => 1,
        RawBsonRef::ObjectId(_) => 12,
        RawBsonRef::String(text) => text.len() + 5,
        RawBsonRef::Document(inner) => inner.as_bytes().len(),
        RawBsonRef::Array(items) => items.as_bytes().len(),
        _ => return None,
    })
}
