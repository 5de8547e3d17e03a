//! The documents of a fake server, with just enough of the query language for keys.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

/// One collection, by `_id`.
pub type Documents = BTreeMap<Id, RawDocumentBuf>;

/// An `_id`, in the order of a server's index: all numbers come before all texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// All collections, by `database.collection`.
pub type Collections = BTreeMap<String, Documents>;

/// The key of a document.
pub fn key(document: &RawDocument) -> Result<Id, String> {
    match document.get("_id").map_err(|e| e.to_string())? {
        Some(RawBsonRef::String(text)) => Ok(Id::Text(text.into())),
        id => id
            .and_then(integer)
            .map(Id::Number)
            .ok_or_else(|| "the fake server wants an integer or a text as _id".into()),
    }
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
    low: Option<i64>,
    high: Option<i64>,
    among: Option<BTreeSet<Id>>,
    equal: Vec<(String, RawBson)>,
}

impl Filter {
    /// Reads a filter; anything that is not understood is an error, so that no test passes by it.
    pub fn new(filter: &RawDocument) -> Result<Self, String> {
        let mut read = Self { low: None, high: None, among: None, equal: Vec::new() };
        for element in filter {
            let (name, value) = element.map_err(|e| e.to_string())?;
            match (name.as_str(), value) {
                ("_id", RawBsonRef::Document(conditions)) => read.narrow(conditions)?,
                ("_id", RawBsonRef::String(text)) => {
                    read.among = Some(BTreeSet::from([Id::Text(text.into())]));
                }
                ("_id", value) => {
                    let key = integer(value).ok_or_else(|| format!("_id: {value:?}"))?;
                    (read.low, read.high) = (Some(key), Some(key));
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
                self.among =
                    Some(list.into_iter().filter_map(|key| integer(key.ok()?).map(Id::Number)).collect());
                continue;
            }
            let limit = integer(value).ok_or_else(|| format!("_id: {operator}: {value:?}"))?;
            match operator.as_str() {
                "$gte" => self.low = Some(limit),
                "$gt" => self.low = Some(limit.saturating_add(1)),
                "$lte" => self.high = Some(limit),
                "$lt" => self.high = Some(limit.saturating_sub(1)),
                "$eq" => (self.low, self.high) = (Some(limit), Some(limit)),
                other => return Err(format!("the fake server does not know {other}")),
            }
        }
        Ok(())
    }

    /// Keys of the documents that fit, ascending. As on a server, a comparison with a number finds
    /// numbers only.
    pub fn keys(&self, documents: &Documents) -> Vec<Id> {
        let fits = |(key, document): &(&Id, &RawDocumentBuf)| {
            self.among.as_ref().is_none_or(|among| among.contains(key))
                && self.equal.iter().all(|(name, value)| {
                    document.get(name).is_ok_and(|found| found == Some(value.as_raw_bson_ref()))
                })
        };
        let found =
            |range: Range<'_, Id, RawDocumentBuf>| range.filter(fits).map(|(k, _)| k.clone()).collect();
        let (low, high) = (self.low.unwrap_or(i64::MIN), self.high.unwrap_or(i64::MAX));
        match (self.low, self.high) {
            (None, None) => found(documents.range::<Id, _>(..)),
            _ if low > high => Vec::new(),
            _ => found(documents.range(Id::Number(low)..=Id::Number(high))),
        }
    }
}

/// The part of an index between `min` (inclusive) and `max` (exclusive), both optional and of any type.
pub fn between(keys: &mut Vec<Id>, min: &RawDocument, max: &RawDocument) -> Result<(), String> {
    let edge = |bound: &RawDocument| if bound.is_empty() { Ok(None) } else { key(bound).map(Some) };
    let (min, max) = (edge(min)?, edge(max)?);
    keys.retain(|key| min.as_ref().is_none_or(|min| key >= min) && max.as_ref().is_none_or(|max| key < max));
    Ok(())
}

/// The document after an update: `$set`, `$setOnInsert` (which changes nothing that exists), or another
/// document in its place.
pub fn updated(document: &RawDocument, update: &RawDocument) -> Result<RawDocumentBuf, String> {
    let (operator, value) = update.iter().next().ok_or("an empty update")?.map_err(|e| e.to_string())?;
    match (operator.as_str(), value) {
        ("$set", RawBsonRef::Document(fields)) => set(document, fields).map_err(|e| e.to_string()),
        ("$setOnInsert", _) => Ok(document.to_owned()),
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
