//! The documents of a fake server, with just enough of the query language for keys.

use std::collections::{BTreeMap, BTreeSet};

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

/// One collection, by `_id`.
pub type Documents = BTreeMap<i64, RawDocumentBuf>;

/// All collections, by `database.collection`.
pub type Collections = BTreeMap<String, Documents>;

/// The key of a document.
pub fn key(document: &RawDocument) -> Result<i64, String> {
    let id = document.get("_id").map_err(|e| e.to_string())?;
    id.and_then(integer).ok_or_else(|| "the fake server wants an integer as _id".into())
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n),
        _ => None,
    }
}

/// Conditions on `_id`, and equality of other fields. All must hold.
#[derive(Clone, Debug)]
pub struct Filter {
    low: i64,
    high: i64,
    among: Option<BTreeSet<i64>>,
    equal: Vec<(String, RawBson)>,
}

impl Filter {
    /// Reads a filter; anything that is not understood is an error, so that no test passes by it.
    pub fn new(filter: &RawDocument) -> Result<Self, String> {
        let mut read = Self { low: i64::MIN, high: i64::MAX, among: None, equal: Vec::new() };
        for element in filter {
            let (name, value) = element.map_err(|e| e.to_string())?;
            match (name.as_str(), value) {
                ("_id", RawBsonRef::Document(conditions)) => read.narrow(conditions)?,
                ("_id", value) => {
                    let key = integer(value).ok_or_else(|| format!("_id: {value:?}"))?;
                    (read.low, read.high) = (key, key);
                }
                (name, value) => read.equal.push((name.to_owned(), value.into())),
            }
        }
        Ok(read)
    }

    fn narrow(&mut self, conditions: &RawDocument) -> Result<(), String> {
        for condition in conditions {
            let (operator, value) = condition.map_err(|e| e.to_string())?;
            if let ("$in", RawBsonRef::Array(list)) = (operator.as_str(), value) {
                self.among = Some(list.into_iter().filter_map(|key| integer(key.ok()?)).collect());
                continue;
            }
            let limit = integer(value).ok_or_else(|| format!("_id: {operator}: {value:?}"))?;
            match operator.as_str() {
                "$gte" => self.low = limit,
                "$gt" => self.low = limit.saturating_add(1),
                "$lte" => self.high = limit,
                "$lt" => self.high = limit.saturating_sub(1),
                "$eq" => (self.low, self.high) = (limit, limit),
                other => return Err(format!("the fake server does not know {other}")),
            }
        }
        Ok(())
    }

    /// Keys of the documents that fit, ascending.
    pub fn keys(&self, documents: &Documents) -> Vec<i64> {
        if self.low > self.high {
            return Vec::new();
        }
        let fits = |(key, document): &(&i64, &RawDocumentBuf)| {
            self.among.as_ref().is_none_or(|among| among.contains(key))
                && self.equal.iter().all(|(name, value)| {
                    document.get(name).is_ok_and(|found| found == Some(value.as_raw_bson_ref()))
                })
        };
        documents.range(self.low..=self.high).filter(fits).map(|(key, _)| *key).collect()
    }
}

/// The document after an update: `$set`, or another document in its place.
pub fn updated(document: &RawDocument, update: &RawDocument) -> Result<RawDocumentBuf, String> {
    let (operator, value) = update.iter().next().ok_or("an empty update")?.map_err(|e| e.to_string())?;
    match (operator.as_str(), value) {
        ("$set", RawBsonRef::Document(fields)) => set(document, fields).map_err(|e| e.to_string()),
        (name, _) if name.starts_with('$') => Err(format!("the fake server does not know {name}")),
        _ if key(update)? == key(document)? => Ok(update.to_owned()),
        _ => Err("an update must not change the _id".into()),
    }
}

/// Fields that exist keep their place, new ones go to the end.
fn set(document: &RawDocument, fields: &RawDocument) -> bson::error::Result<RawDocumentBuf> {
    let mut result = RawDocumentBuf::new();
    for element in document {
        let (name, old) = element?;
        result.append(name, fields.get(name.as_str())?.unwrap_or(old));
    }
    for element in fields {
        let (name, new) = element?;
        if document.get(name.as_str())?.is_none() {
            result.append(name, new);
        }
    }
    Ok(result)
}
