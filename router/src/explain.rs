//! `explain`: of the cluster form of a command. Explaining the command itself would explain rtr's own, empty,
//! collection.

use bson::{Bson, Document, doc};

use crate::aggregated::{aggregation, collecting, counting};
use crate::body;
use crate::command::Command;
use crate::crud::{self, exchange_fresh};
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::upstream::{Upstream, answered, message};

pub(crate) async fn explain(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Document, Failure> {
    let asked = command.document()?;
    let explaining = explaining(&asked)?;
    let request = message(command.database, &explaining, command.request_id)?;
    let answer = exchange_fresh(router, upstream, &request, None).await?;
    let reply = answered(&answer)?.body;
    Ok(body::quiet(body::read(reply).map_err(crud::lost)?))
}

/// The command for rtr.
fn explaining(asked: &Document) -> Result<Document, Refusal> {
    let inner = asked.get_document("explain").map_err(|_| Refusal::bad_value("explain needs a command"))?;
    let (name, subject) = inner.iter().next().ok_or_else(|| Refusal::bad_value("explain needs a command"))?;
    if let Some(field) =
        ["txnNumber", "startTransaction", "autocommit", "lsid"].iter().find(|f| inner.contains_key(f))
    {
        return Err(Refusal::illegal(format!("the stand-in router cannot explain anything with {field}")));
    }
    let collection = subject.as_str().unwrap_or_default();
    let mut pipeline = match name.as_str() {
        "find" => return Ok(explained_find(asked, inner)),
        "aggregate" => {
            let renamed = inner.iter().enumerate().map(|(at, (name, value))| {
                (if at == 0 { "clusterAggregate".to_owned() } else { name.clone() }, value.clone())
            });
            renamed.filter(|(name, _)| name != "$db").collect()
        }
        "count" => aggregation(collection, counting(inner)?, inner),
        "distinct" => aggregation(collection, collecting(inner)?, inner),
        _ => {
            let name: String = name.chars().take(100).collect();
            return Err(Refusal::not_found(format!("the stand-in router cannot explain {name}")));
        }
    };
    pipeline.insert("explain", true);
    Ok(pipeline)
}

fn explained_find(asked: &Document, inner: &Document) -> Document {
    let fields = inner.iter().enumerate().filter(|(_, (name, _))| *name != "$db");
    let find: Document = fields
        .map(|(at, (name, value))| {
            (if at == 0 { "clusterFind".to_owned() } else { name.clone() }, value.clone())
        })
        .collect();
    let verbosity = asked.get("verbosity").cloned().unwrap_or(Bson::String("allPlansExecution".into()));
    doc! { "explain": find, "verbosity": verbosity }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_explained_in_their_cluster_form() {
        let asked = doc! { "explain": { "find": "c", "filter": { "a": 1 }, "$db": "d" }, "verbosity": "queryPlanner" };
        let find = doc! { "clusterFind": "c", "filter": { "a": 1 } };
        assert_eq!(explaining(&asked), Ok(doc! { "explain": find, "verbosity": "queryPlanner" }));
        let asked = doc! { "explain": { "aggregate": "c", "pipeline": [], "cursor": {} } };
        let expected = doc! { "clusterAggregate": "c", "pipeline": [], "cursor": {}, "explain": true };
        assert_eq!(explaining(&asked), Ok(expected));
        for (name, first) in [("count", "clusterAggregate"), ("distinct", "clusterAggregate")] {
            let explained = explaining(&doc! { "explain": { name: "c", "key": "a" } }).unwrap();
            assert_eq!(explained.keys().next().map(String::as_str), Some(first));
        }
    }

    #[test]
    fn other_commands_are_refused() {
        let code = |asked: Document| explaining(&asked).unwrap_err().code;
        assert_eq!(code(doc! { "explain": { "update": "c" } }), 59);
        assert_eq!(code(doc! { "explain": { "find": "c", "txnNumber": 1_i64 } }), 20);
        assert_eq!(code(doc! { "explain": 1 }), 2);
        assert_eq!(code(doc! { "explain": {} }), 2);
    }
}
