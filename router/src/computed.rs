//! Reads that the engine has only as aggregations: `count` and `distinct`. And `explain`, of a command under its other
//! name.

use bson::{Bson, Document, RawDocumentBuf, doc};

use crate::answer::{Answer, Refusal};
use crate::command::Command;
use crate::relay::{Client, Ended, checked};
use crate::splice;
use crate::table::{Route, route};

/// Options that mean the same in an aggregation.
const KEPT: [&str; 6] = ["hint", "collation", "maxTimeMS", "comment", "$readPreference", "readConcern"];
const NAMESPACE_NOT_FOUND: i32 = 26;

/// Runs one.
pub(crate) async fn run(client: &mut Client<'_>, command: &Command) -> Result<Answer, Ended> {
    match command.name() {
        "count" => count(client, command).await,
        "distinct" => distinct(client, command).await,
        _ => explain(client, command).await,
    }
}

async fn count(client: &mut Client<'_>, command: &Command) -> Result<Answer, Ended> {
    let asked = command.document()?;
    let answer =
        client.aggregate(aggregation(command, &asked, counting(&asked)), &command.namespace()).await?;
    Ok(match answer {
        Ok(answer) => {
            // A number that fits 32 bits is sent as one, as servers do it.
            let n = first(&answer).and_then(|d| whole(d.get("n"))).unwrap_or(0);
            Ok(doc! { "n": i32::try_from(n).map_or(Bson::Int64(n), Bson::Int32) })
        }
        Err(Refusal { code: NAMESPACE_NOT_FOUND, .. }) => Ok(doc! { "n": 0 }),
        Err(refusal) => Err(refusal),
    })
}

/// Without a filter the servers' own counts are enough; they hold orphans, as those of a mongos do.
fn counting(asked: &Document) -> Vec<Document> {
    let filter = asked.get_document("query").ok().filter(|filter| !filter.is_empty());
    let edge = |name: &str| whole(asked.get(name)).map(i64::abs).filter(|n| *n > 0);
    let (skip, limit) = (edge("skip"), edge("limit"));
    if filter.is_none() && skip.is_none() && limit.is_none() {
        return vec![
            doc! { "$collStats": { "count": {} } },
            doc! { "$group": { "_id": 1, "n": { "$sum": "$count" } } },
        ];
    }
    let mut stages = vec![doc! { "$match": filter.cloned().unwrap_or_default() }];
    stages.extend(skip.map(|n| doc! { "$skip": n }));
    stages.extend(limit.map(|n| doc! { "$limit": n }));
    stages.push(doc! { "$group": { "_id": 1, "n": { "$sum": 1 } } });
    stages
}

async fn distinct(client: &mut Client<'_>, command: &Command) -> Result<Answer, Ended> {
    let asked = command.document()?;
    let Ok(key) = asked.get_str("key") else { return Ok(Err(Refusal::malformed("distinct needs a key"))) };
    let field = format!("${key}");
    let stages = vec![
        doc! { "$match": asked.get_document("query").cloned().unwrap_or_default() },
        doc! { "$unwind": &field },
        doc! { "$group": { "_id": &field } },
        doc! { "$group": { "_id": 1, "values": { "$push": "$_id" } } },
    ];
    let answer = client.aggregate(aggregation(command, &asked, stages), &command.namespace()).await?;
    Ok(match answer {
        Ok(answer) => {
            let values = first(&answer).and_then(|d| d.get_array("values").ok()).cloned().unwrap_or_default();
            Ok(doc! { "values": values })
        }
        Err(Refusal { code: NAMESPACE_NOT_FOUND, .. }) => Ok(doc! { "values": [] }),
        Err(refusal) => Err(refusal),
    })
}

fn aggregation(command: &Command, asked: &Document, stages: Vec<Document>) -> Document {
    let mut all = doc! {
        "clusterAggregate": command.subject(),
        "pipeline": stages,
        "cursor": {},
    };
    for name in KEPT {
        if let Some(value) = asked.get(name) {
            all.insert(name, value.clone());
        }
    }
    all.entry("readConcern".to_owned()).or_insert(doc! { "level": "local" }.into());
    all.insert("$db", command.database());
    all
}

async fn explain(client: &mut Client<'_>, command: &Command) -> Result<Answer, Ended> {
    let mut asked = command.document()?;
    let Ok(inner) = asked.get_document("explain").cloned() else {
        return Ok(Err(Refusal::malformed("explain needs a command")));
    };
    let name = inner.keys().next().cloned().unwrap_or_default();
    let Route::Engine(other) = route(&name) else {
        return Ok(Err(Refusal::impossible(&format!("explain of {name}"))));
    };
    let renamed = inner.into_iter().map(|(field, value)| {
        let field = if field == name { other.to_owned() } else { field };
        (field, value)
    });
    asked.insert("explain", renamed.collect::<Document>());
    asked.insert("$db", command.database());
    let body =
        RawDocumentBuf::try_from(&asked).map_err(|error| wire::FormatError::Document(error.to_string()))?;
    let frame = client.exchange(&wire::Msg::new(body).encode(0, 0)?).await?;
    let reply = splice::reply_body(&frame).and_then(|body| Document::try_from(body).ok()).unwrap_or_default();
    Ok(checked(reply))
}

fn first(answer: &Document) -> Option<&Document> {
    answer.get_document("cursor").ok()?.get_array("firstBatch").ok()?.first()?.as_document()
}

/// A whole number, whatever type it has.
pub(crate) fn whole(value: Option<&Bson>) -> Option<i64> {
    match value? {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_reads_as_little_as_it_can() {
        assert!(counting(&doc! { "count": "c" })[0].contains_key("$collStats"));
        assert!(counting(&doc! { "count": "c", "query": {} })[0].contains_key("$collStats"));
        let some = counting(&doc! { "count": "c", "query": { "a": 1 }, "skip": 3, "limit": -5 });
        let names: Vec<_> = some.iter().flat_map(Document::keys).map(String::as_str).collect();
        assert_eq!(names, ["$match", "$skip", "$limit", "$group"]);
        assert_eq!(some[2], doc! { "$limit": 5_i64 });
    }
}
