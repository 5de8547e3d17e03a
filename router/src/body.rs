//! Changes to a document as bytes: everything that is not meant stays as it was sent.

use bson::{Document, RawDocument, RawDocumentBuf};
use wire::FormatError;
use wire::hot::{Element, Elements};

/// What servers tell each other, or drivers with sessions, in every reply.
pub(crate) const GOSSIP: [&str; 6] = [
    "$clusterTime",
    "operationTime",
    "lastCommittedOpTime",
    "$gleStats",
    "$configServerState",
    "$topologyTime",
];

/// Deeper than any server allows; without a bound a hostile document ends the process by its stack.
const DEPTH_MAX: usize = 200;

/// Appends a document to `out`: the elements of `document` without those that `drops` names, the first one under
/// another name if one is given, and behind them the elements of `more`.
pub(crate) fn write(
    out: &mut Vec<u8>,
    document: &[u8],
    rename: Option<&str>,
    drops: impl Fn(&[u8]) -> bool,
    more: Option<&RawDocument>,
) -> Result<(), FormatError> {
    let start = out.len();
    out.extend([0; 4]);
    let mut elements = Elements::of(document)?;
    let mut rename = rename;
    while let Some(element) = elements.next_element()? {
        let new_name = rename.take();
        if !drops(element.name) {
            append(out, &element, new_name.map_or(element.name, str::as_bytes));
        }
    }
    if let Some(more) = more {
        let bytes = more.as_bytes();
        out.extend(&bytes[4..bytes.len() - 1]);
    }
    out.push(0);
    // A document that got longer than 31 bits is refused with the whole message.
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn append(out: &mut Vec<u8>, element: &Element<'_>, name: &[u8]) {
    out.push(element.kind);
    out.extend(name);
    out.push(0);
    out.extend(element.value);
}

pub(crate) fn is_gossip(name: &[u8]) -> bool {
    // Most names of a reply are settled by their first byte.
    matches!(name.first(), Some(b'$' | b'o' | b'l')) && GOSSIP.iter().any(|gossip| gossip.as_bytes() == name)
}

/// Takes the gossip out of a reply.
pub(crate) fn quiet(mut reply: Document) -> Document {
    for name in GOSSIP {
        reply.remove(name);
    }
    reply
}

/// The document as values. Use only where the values are needed: it is much slower than bytes.
pub(crate) fn read(document: &[u8]) -> Result<Document, FormatError> {
    check_depth(document, 0)?;
    let malformed = |error: bson::error::Error| FormatError::Document(error.to_string());
    let raw = RawDocumentBuf::from_bytes(document.to_vec()).map_err(malformed)?;
    Document::try_from(&*raw).map_err(malformed)
}

fn check_depth(document: &[u8], depth: usize) -> Result<(), FormatError> {
    if depth > DEPTH_MAX {
        return Err(FormatError::Document(format!("nested deeper than {DEPTH_MAX}")));
    }
    let mut elements = Elements::of(document)?;
    while let Some(element) = elements.next_element()? {
        let inside = match element.kind {
            // Code with scope: its length, a text with its length, and a document.
            0x0f => scope_of(element.value),
            _ => element.as_document(),
        };
        if let Some(inside) = inside {
            check_depth(inside, depth + 1)?;
        }
    }
    Ok(())
}

fn scope_of(value: &[u8]) -> Option<&[u8]> {
    let length = i32::from_le_bytes(*value.get(4..)?.first_chunk()?);
    value.get(8 + usize::try_from(length).ok()?..)
}

/// Whether a reply says that it went well.
pub(crate) fn is_ok(reply: &[u8]) -> Result<bool, FormatError> {
    Ok(Elements::of(reply)?.find(b"ok")?.is_some_and(|ok| ok.is_true()))
}

/// An integer of a document.
pub(crate) fn integer(document: &[u8], name: &str) -> Result<Option<i64>, FormatError> {
    Ok(Elements::of(document)?.find(name.as_bytes())?.and_then(|element| element.as_i64()))
}

/// `cursor.id` of a reply; 0 if there is none.
pub(crate) fn cursor_id(reply: &[u8]) -> Result<i64, FormatError> {
    let cursor = Elements::of(reply)?.find(b"cursor")?;
    let id = cursor.and_then(|cursor| cursor.as_document()).map(|cursor| integer(cursor, "id"));
    Ok(id.transpose()?.flatten().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use proptest::prelude::*;

    use super::*;

    fn changed(document: &RawDocument, rename: Option<&str>, more: Option<&RawDocument>) -> RawDocumentBuf {
        let mut out = vec![9];
        write(&mut out, document.as_bytes(), rename, |name| name == b"lsid", more).unwrap();
        assert_eq!(out.remove(0), 9, "what was there before stays");
        RawDocumentBuf::from_bytes(out).unwrap()
    }

    #[test]
    fn the_first_name_changes_and_the_rest_keeps_its_bytes_and_order() {
        let sent = rawdoc! { "find": "c", "lsid": { "id": 1 }, "filter": { "find": 1.5 }, "$db": "d" };
        let expected = rawdoc! { "clusterFind": "c", "filter": { "find": 1.5 }, "$db": "d", "readConcern": { "level": "local" } };
        let more = rawdoc! { "readConcern": { "level": "local" } };
        assert_eq!(changed(&sent, Some("clusterFind"), Some(&more)), expected);
        assert_eq!(changed(&rawdoc! {}, Some("x"), None), rawdoc! {});
        assert_eq!(changed(&rawdoc! { "lsid": 1, "a": 1 }, Some("x"), None), rawdoc! { "a": 1 });
    }

    #[test]
    fn replies_are_understood() {
        let reply = rawdoc! { "cursor": { "firstBatch": [], "id": 77_i64 }, "ok": 1.0 };
        assert_eq!(cursor_id(reply.as_bytes()), Ok(77));
        assert_eq!(is_ok(reply.as_bytes()), Ok(true));
        let refusal = rawdoc! { "ok": 0.0, "code": 13388 };
        assert_eq!(cursor_id(refusal.as_bytes()), Ok(0));
        assert_eq!(is_ok(refusal.as_bytes()), Ok(false));
        assert_eq!(integer(refusal.as_bytes(), "code"), Ok(Some(13388)));
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_and_not_recursed_into() {
        let nested = |depth: usize| {
            (0..depth).fold(b"\x05\0\0\0\0".to_vec(), |inner, _| {
                let length = (inner.len() + 8) as u32;
                [&length.to_le_bytes()[..], b"\x03a\0", &inner, b"\0"].concat()
            })
        };
        assert!(read(&nested(150)).is_ok());
        assert!(read(&nested(5_000)).is_err());
    }

    #[test]
    fn gossip_is_taken_out() {
        assert_eq!(quiet(doc! { "ok": 1, "operationTime": 3, "$clusterTime": {} }), doc! { "ok": 1 });
        assert!(GOSSIP.iter().all(|name| is_gossip(name.as_bytes())));
        assert!(!is_gossip(b"ok") && !is_gossip(b"") && !is_gossip(b"lastErrorObject"));
    }

    proptest! {
        #[test]
        fn random_documents_never_panic(bytes: Vec<u8>) {
            let mut out = Vec::new();
            let _result = write(&mut out, &bytes, Some("x"), |_| false, None);
            let _results = (read(&bytes), is_ok(&bytes), cursor_id(&bytes), integer(&bytes, "code"));
        }

        #[test]
        fn damaged_documents_never_panic(at: prop::sample::Index, to: u8) {
            let code = bson::JavaScriptCodeWithScope { code: "c".into(), scope: doc! { "a": 1 } };
            let document = doc! { "a": [1, { "b": null }], "code": code, "regex": bson::Regex {
                pattern: "a".try_into().unwrap(), options: "i".try_into().unwrap() } };
            let mut bytes = RawDocumentBuf::try_from(&document).unwrap().into_bytes();
            prop_assert_eq!(read(&bytes), Ok(document));
            let at = at.index(bytes.len());
            bytes[at] = to;
            let mut out = Vec::new();
            if write(&mut out, &bytes, None, |_| false, None).is_ok() {
                prop_assert_eq!(&out, &bytes);
            }
            let _document = read(&bytes);
        }
    }
}
