//! `count` and `distinct`, of which a mongod has no cluster form: as pipelines.

use bson::{Bson, Document, doc};

use crate::body;
use crate::command::Command;
use crate::crud::{self, exchange_fresh};
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::upstream::{Upstream, answered, message};

/// Options that mean the same to an aggregation.
const SHARED_OPTIONS: [&str; 6] =
    ["hint", "collation", "readConcern", "maxTimeMS", "comment", "$readPreference"];

const NAMESPACE_NOT_FOUND: i32 = 26;
const NOT_ON_A_VIEW: i32 = 166;

/// `count`: without a query from the statistics of the collection, as servers do; they include documents of ranges
/// that moved away and were not deleted yet. With a query each document is looked at.
pub(crate) async fn count(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Document, Failure> {
    let collection = command.collection()?;
    let asked = command.document()?;
    let exact = counting(&asked)?;
    let mut result = Err(Refusal::namespace_not_found(&collection));
    let is_plain = exact.len() == 2;
    if is_plain {
        let statistics = vec![
            doc! { "$collStats": { "count": {} } },
            doc! { "$group": { "_id": 1, "n": { "$sum": "$count" } } },
        ];
        result = run(router, upstream, command, aggregation(&collection, statistics, &asked)).await?;
    }
    if !is_plain || matches!(&result, Err(refusal) if refusal.code == NOT_ON_A_VIEW) {
        result = run(router, upstream, command, aggregation(&collection, exact, &asked)).await?;
    }
    match result {
        Ok(found) => Ok(doc! { "n": count_in(found.as_ref()), "ok": 1.0 }),
        Err(refusal) if refusal.code == NAMESPACE_NOT_FOUND => Ok(doc! { "n": 0, "ok": 1.0 }),
        Err(refusal) => Err(refusal.into()),
    }
}

/// The stages that count. Two of them if nothing restricts what is counted.
pub(crate) fn counting(asked: &Document) -> Result<Vec<Document>, Refusal> {
    let query = asked.get_document("query").ok().cloned().unwrap_or_default();
    let (skip, limit) = (number(asked, "skip")?, number(asked, "limit")?);
    let mut stages = Vec::new();
    if skip < 0 {
        return Err(Refusal::bad_value("skip must not be negative"));
    }
    let restricted = !query.is_empty() || skip != 0 || limit != 0;
    stages.push(doc! { "$match": query });
    if skip != 0 {
        stages.push(doc! { "$skip": skip });
    }
    if limit != 0 {
        // A negative limit is an old way to say: in one batch.
        stages.push(doc! { "$limit": limit.checked_abs().unwrap_or(i64::MAX) });
    }
    if restricted && stages.len() == 1 {
        // Tells a query without skip and limit from nothing at all.
        stages.push(doc! { "$project": { "_id": 1 } });
    }
    stages.push(doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
    Ok(stages)
}

fn number(asked: &Document, name: &str) -> Result<i64, Refusal> {
    match asked.get(name) {
        None | Some(Bson::Null) => Ok(0),
        Some(Bson::Int32(number)) => Ok((*number).into()),
        Some(Bson::Int64(number)) => Ok(*number),
        Some(Bson::Double(number)) if number.fract() == 0.0 => Ok(*number as i64),
        Some(other) => Err(Refusal::bad_value(format!("{name} must be a whole number, not {other}"))),
    }
}

fn count_in(found: Option<&Document>) -> Bson {
    let count = found.and_then(|found| found.get("n"));
    match count {
        // Servers answer with the shortest type that holds it.
        Some(Bson::Int64(count)) => i32::try_from(*count).map_or(Bson::Int64(*count), Bson::Int32),
        Some(count) => count.clone(),
        None => Bson::Int32(0),
    }
}

/// `distinct`: each different value once, elements of arrays by themselves. At most 16 MB, as everywhere.
pub(crate) async fn distinct(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Document, Failure> {
    let collection = command.collection()?;
    let asked = command.document()?;
    let aggregation = aggregation(&collection, collecting(&asked)?, &asked);
    match run(router, upstream, command, aggregation).await? {
        Ok(found) => {
            let values = found.and_then(|found| found.get_array("values").ok().cloned()).unwrap_or_default();
            Ok(doc! { "values": values, "ok": 1.0 })
        }
        Err(refusal) if refusal.code == NAMESPACE_NOT_FOUND => {
            Ok(doc! { "values": Vec::<Bson>::new(), "ok": 1.0 })
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// The stages that collect values.
pub(crate) fn collecting(asked: &Document) -> Result<Vec<Document>, Refusal> {
    let key = asked.get_str("key").ok().filter(|key| !key.is_empty() && !key.starts_with('$'));
    let key = key.ok_or_else(|| Refusal::bad_value("distinct needs a key"))?;
    let mut stages = Vec::new();
    if let Ok(query) = asked.get_document("query") {
        stages.push(doc! { "$match": query });
    }
    // Arrays may be anywhere on the path. What is empty or missing is kept until the end, where null counts as a
    // value and nothing does not.
    let ends = key.match_indices('.').map(|(at, _)| at).chain([key.len()]);
    for end in ends {
        let path = format!("${}", &key[..end]);
        stages.push(doc! { "$unwind": { "path": path, "preserveNullAndEmptyArrays": true } });
    }
    stages.push(doc! { "$match": { key: { "$exists": true } } });
    stages.push(doc! { "$group": { "_id": format!("${key}") } });
    stages.push(doc! { "$group": { "_id": 1, "values": { "$push": "$_id" } } });
    Ok(stages)
}

/// The command of a pipeline with the options of another command.
pub(crate) fn aggregation(collection: &str, pipeline: Vec<Document>, asked: &Document) -> Document {
    let mut command = doc! { "clusterAggregate": collection, "pipeline": pipeline, "cursor": {} };
    for name in SHARED_OPTIONS {
        if let Some(value) = asked.get(name) {
            command.insert(name, value);
        }
    }
    if !command.contains_key("readConcern") {
        command.insert("readConcern", doc! { "level": "local" });
    }
    command
}

/// Runs a pipeline of one document at most.
async fn run(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
    aggregation: Document,
) -> Result<Result<Option<Document>, Refusal>, Failure> {
    let request = message(command.database, &aggregation, command.request_id)?;
    let namespace = command.namespace();
    let answer = exchange_fresh(router, upstream, &request, namespace.as_deref()).await?;
    let reply = answered(&answer)?.body;
    let is_ok = body::is_ok(reply).map_err(crud::lost)?;
    let reply = body::read(reply).map_err(crud::lost)?;
    if !is_ok {
        return Ok(Err(Refusal::of_reply(&reply)));
    }
    Ok(Ok(crate::places::first_batch(&reply).into_iter().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_pipelines() {
        let group = doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } };
        assert_eq!(counting(&doc! { "count": "c", "query": {} }).unwrap().len(), 2);
        let asked = doc! { "count": "c", "query": { "a": 1 } };
        let stages = counting(&asked).unwrap();
        assert_eq!((stages.len(), &stages[0]), (3, &doc! { "$match": { "a": 1 } }));
        let asked = doc! { "count": "c", "query": { "a": 1 }, "skip": 2, "limit": -3_i64 };
        let expected =
            vec![doc! { "$match": { "a": 1 } }, doc! { "$skip": 2_i64 }, doc! { "$limit": 3_i64 }, group];
        assert_eq!(counting(&asked), Ok(expected));
        for wrong in [doc! { "skip": -1 }, doc! { "limit": "x" }, doc! { "limit": 1.5 }] {
            assert_eq!(counting(&wrong).unwrap_err().code, 2);
        }
    }

    #[test]
    fn a_count_has_the_shortest_type_that_holds_it() {
        assert_eq!(count_in(None), Bson::Int32(0));
        assert_eq!(count_in(Some(&doc! { "n": 7_i64 })), Bson::Int32(7));
        assert_eq!(count_in(Some(&doc! { "n": 1_i64 << 40 })), Bson::Int64(1 << 40));
    }

    #[test]
    fn each_part_of_a_path_is_unwound() {
        let stages = collecting(&doc! { "distinct": "c", "key": "a.b", "query": { "x": 1 } }).unwrap();
        let unwind = |path| doc! { "$unwind": { "path": path, "preserveNullAndEmptyArrays": true } };
        assert_eq!(stages[..3], [doc! { "$match": { "x": 1 } }, unwind("$a"), unwind("$a.b")]);
        assert_eq!(stages.len(), 6);
        assert_eq!(collecting(&doc! { "distinct": "c" }).unwrap_err().code, 2);
    }

    #[test]
    fn options_are_carried_over_and_reads_are_local_unless_asked_otherwise() {
        let asked = doc! { "count": "c", "hint": "x", "fields": 1 };
        let command = aggregation("c", Vec::new(), &asked);
        let expected = doc! { "clusterAggregate": "c", "pipeline": [], "cursor": {}, "hint": "x",
        "readConcern": { "level": "local" } };
        assert_eq!(command, expected);
        let asked = doc! { "readConcern": { "level": "majority" } };
        let command = aggregation("c", Vec::new(), &asked);
        assert_eq!(command.get_document("readConcern").unwrap(), &doc! { "level": "majority" });
    }
}
