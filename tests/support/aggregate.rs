//! As much of aggregation as drivers and the tool ask for: `$match` first, then one `$group` over everything
//! with sums of ones, minima and maxima of `_id`, or a `$limit`.

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::rawdoc;

use super::store::{Documents, Filter, Id};

/// What the stages make of the documents; anything that is not understood is an error, so that no test
/// passes by it.
pub fn aggregate(documents: &Documents, stages: &[RawDocumentBuf]) -> Result<Vec<RawDocumentBuf>, String> {
    let nothing = rawdoc! {};
    let (filter, stages) = match stages {
        [first, rest @ ..] if first.get_document("$match").is_ok() => {
            (first.get_document("$match").map_err(|e| e.to_string())?, rest)
        }
        all => (&*nothing, all),
    };
    let keys = Filter::new(filter)?.keys(documents);
    match stages {
        [only] if only.get_document("$group").is_ok() => {
            let group = only.get_document("$group").map_err(|e| e.to_string())?;
            // As on a server: no document, no group.
            if keys.is_empty() { Ok(Vec::new()) } else { Ok(vec![grouped(&keys, group)?]) }
        }
        [only] => {
            let limit = only.get("$limit").ok().flatten().and_then(|limit| limit.as_i64());
            let limit = limit.ok_or("the fake server only groups everything, or limits")?;
            Ok(keys.iter().take(limit as usize).map(|key| documents[key].clone()).collect())
        }
        _ => Err("the fake server only groups everything, or limits".into()),
    }
}

fn grouped(keys: &[Id], group: &RawDocument) -> Result<RawDocumentBuf, String> {
    let number = |key: Option<&Id>| match key {
        Some(Id::Number(number)) => Ok(*number),
        other => Err(format!("no number: {other:?}")),
    };
    let mut result = RawDocumentBuf::new();
    for field in group {
        let (name, value) = field.map_err(|e| e.to_string())?;
        let RawBsonRef::Document(accumulator) = value else {
            // The `_id`, which is the same for all.
            result.append(name, value);
            continue;
        };
        let (operator, operand) =
            accumulator.iter().next().ok_or("no accumulator")?.map_err(|e| e.to_string())?;
        match (operator.as_str(), operand.as_str()) {
            ("$sum", None) => result.append(name, i32::try_from(keys.len()).map_err(|e| e.to_string())?),
            ("$min", Some("$_id")) => result.append(name, number(keys.first())?),
            ("$max", Some("$_id")) => result.append(name, number(keys.last())?),
            (other, _) => return Err(format!("the fake server does not know {other} of that")),
        }
    }
    Ok(result)
}
