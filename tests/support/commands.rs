//! The commands of a fake server: a standalone mongod 6.0 without sessions.

use bson::raw::{RawArrayBuf, RawDocument, RawDocumentBuf};
use bson::rawdoc;
use wire::Request;

use super::aggregate::aggregate;
use super::script::{Answer, code_name};
use super::store::{Collections, Documents, Filter, between, key, updated};

const VERSION: &str = "6.0.0";

/// Whether a command is one of those that have a service time.
pub fn is_data(command: &str) -> bool {
    matches!(command, "insert" | "find" | "update" | "delete" | "aggregate" | "count")
}

/// Whether a command is about the note of a load, which no script counts or disturbs.
pub fn is_note(request: &Request) -> bool {
    namespace(request).ends_with(".mongosoak")
}

/// Whether a command is the greeting, under one of its names.
pub fn is_hello(command: &str) -> bool {
    matches!(command, "hello" | "isMaster" | "ismaster")
}

/// `database.collection` that a command is for.
pub fn namespace(request: &Request) -> String {
    format!("{}.{}", request.database, request.body.get_str(&request.name).unwrap_or_default())
}

/// Carries a command out and builds its reply.
pub fn execute(collections: &mut Collections, request: &Request, special: Option<&Answer>) -> RawDocumentBuf {
    if let Some(Answer::Error { code, labels }) = special {
        return refusal(*code, "the script says so", labels);
    }
    let namespace = namespace(request);
    let reply = match request.name.as_str() {
        "insert" | "update" | "delete" | "find" | "aggregate" | "count" | "collStats" | "create"
        | "createIndexes" => {
            let documents = collections.entry(namespace.clone()).or_default();
            on_documents(documents, &namespace, request, special)
        }
        "drop" => {
            collections.remove(&namespace);
            Ok(rawdoc! { "ok": 1.0 })
        }
        "dropDatabase" => {
            let database = format!("{}.", request.database);
            collections.retain(|namespace, _| !namespace.starts_with(&database));
            Ok(rawdoc! { "ok": 1.0 })
        }
        "listCollections" => Ok(list_collections(collections, request)),
        name => Ok(about_the_server(name)),
    };
    reply.unwrap_or_else(|problem| refusal(2, &problem, &[]))
}

/// Commands on one collection, which is made when it is not there.
fn on_documents(
    documents: &mut Documents,
    namespace: &str,
    request: &Request,
    special: Option<&Answer>,
) -> Result<RawDocumentBuf, String> {
    match request.name.as_str() {
        "insert" if matches!(special, Some(Answer::AsSecondTry)) => {
            insert(documents, namespace, request, None)?;
            insert(documents, namespace, request, None)
        }
        "insert" => insert(documents, namespace, request, special),
        "update" => update(documents, request, special),
        "delete" => delete(documents, request, special),
        "find" => find(documents, namespace, &request.body, special),
        "aggregate" => {
            let stages = request.list("pipeline").map_err(|e| e.to_string())?;
            Ok(cursor(namespace, aggregate(documents, &stages)?.into_iter()))
        }
        "count" => Ok(rawdoc! { "n": documents.len() as i64, "ok": 1.0 }),
        "collStats" => Ok(stats(documents, namespace)),
        _ => Ok(rawdoc! { "numIndexesBefore": 1, "numIndexesAfter": 2, "ok": 1.0 }),
    }
}

/// Whether this is the first kind of read that a check of the data sends: a range of keys.
pub fn is_range_read(request: &Request) -> bool {
    let filter = request.body.get_document("filter").and_then(|filter| filter.get_document("_id"));
    request.name == "find" && filter.is_ok_and(|of_key| of_key.get("$gte").is_ok_and(|low| low.is_some()))
}

/// Commands that do not touch data.
fn about_the_server(command: &str) -> RawDocumentBuf {
    match command {
        // No `topologyVersion`, so drivers poll instead of streaming; no session timeout, so they
        // use no sessions.
        hello if is_hello(hello) => rawdoc! {
            "helloOk": true,
            "isWritablePrimary": true,
            "ismaster": true,
            "maxBsonObjectSize": 16_777_216,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "minWireVersion": 0,
            "maxWireVersion": 17,
            "readOnly": false,
            "ok": 1.0,
        },
        "ping" | "endSessions" => rawdoc! { "ok": 1.0 },
        "buildInfo" | "buildinfo" => {
            rawdoc! { "version": VERSION, "versionArray": [6, 0, 0, 0], "bits": 64, "ok": 1.0 }
        }
        "serverStatus" => rawdoc! {
            "version": VERSION,
            "process": "mongod",
            "pid": i64::from(std::process::id()),
            "ok": 1.0,
        },
        other => refusal(59, &format!("no such command: '{other}'"), &[]),
    }
}

fn refusal(code: i32, message: &str, labels: &[&str]) -> RawDocumentBuf {
    let mut reply = rawdoc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": code_name(code) };
    if !labels.is_empty() {
        reply.append(bson::raw::cstr!("errorLabels"), RawArrayBuf::from_iter(labels.iter().copied()));
    }
    reply
}

/// What one write of a command did: documents matched or inserted, and documents changed.
type Written = (i32, i32);

fn insert(
    documents: &mut Documents,
    namespace: &str,
    request: &Request,
    special: Option<&Answer>,
) -> Result<RawDocumentBuf, String> {
    write(request, "documents", special, |document| {
        let key = key(document).map_err(|problem| (2, problem))?;
        if documents.contains_key(&key) {
            let place = format!("collection: {namespace} index: _id_ dup key: {{ _id: {key} }}");
            return Err((11000, format!("E11000 duplicate key error {place}")));
        }
        documents.insert(key, document.to_owned());
        Ok((1, 0))
    })
}

fn update(
    documents: &mut Documents,
    request: &Request,
    special: Option<&Answer>,
) -> Result<RawDocumentBuf, String> {
    write(request, "updates", special, |update| {
        let part = |name| update.get_document(name).map_err(|e| (2, e.to_string()));
        let keys = Filter::new(part("q")?).map_err(|problem| (2, problem))?.keys(documents);
        let (mut matched, mut modified) = (0, 0);
        let limit = if update.get_bool("multi").unwrap_or(false) { usize::MAX } else { 1 };
        for key in keys.iter().take(limit) {
            let new = updated(&documents[key], part("u")?).map_err(|problem| (2, problem))?;
            matched += 1;
            modified += i32::from(new != documents[key]);
            documents.insert(key.clone(), new);
        }
        if keys.is_empty() && update.get_bool("upsert").unwrap_or(false) {
            // Only of a whole document: what operators would make of nothing, no test needs.
            let new = part("u")?;
            documents.insert(key(new).map_err(|problem| (2, problem))?, new.to_owned());
            matched = 1;
        }
        Ok((matched, modified))
    })
}

fn delete(
    documents: &mut Documents,
    request: &Request,
    special: Option<&Answer>,
) -> Result<RawDocumentBuf, String> {
    write(request, "deletes", special, |delete| {
        let filter = delete.get_document("q").map_err(|e| (2, e.to_string()))?;
        let keys = Filter::new(filter).map_err(|problem| (2, problem))?.keys(documents);
        let limit = if delete.get_i32("limit").unwrap_or(0) == 1 { 1 } else { usize::MAX };
        let mut deleted = 0;
        for key in keys.iter().take(limit) {
            // What is answered need not be what happened.
            if !matches!(special, Some(Answer::WithoutEffect)) {
                documents.remove(key);
            }
            deleted += 1;
        }
        Ok((deleted, 0))
    })
}

/// The common part of all write commands: planned errors, ordered or not, and the reply.
fn write(
    request: &Request,
    list: &str,
    special: Option<&Answer>,
    mut one: impl FnMut(&RawDocument) -> Result<Written, (i32, String)>,
) -> Result<RawDocumentBuf, String> {
    let ordered = request.body.get_bool("ordered").unwrap_or(true);
    let (mut n, mut n_modified, mut errors) = (0, 0, RawArrayBuf::new());
    for (index, item) in request.list(list).map_err(|e| e.to_string())?.iter().enumerate() {
        let written = match special {
            Some(Answer::WriteErrors { indexes, code }) if indexes.contains(&index) => {
                Err((*code, "the script says so".into()))
            }
            _ => one(item),
        };
        match written {
            Ok((matched, modified)) => (n, n_modified) = (n + matched, n_modified + modified),
            Err((code, message)) => {
                errors.push(rawdoc! { "index": index as i32, "code": code, "errmsg": message });
                if ordered {
                    break;
                }
            }
        }
    }
    let mut reply = rawdoc! { "n": n, "nModified": n_modified, "ok": 1.0 };
    if !errors.is_empty() {
        reply.append(bson::raw::cstr!("writeErrors"), errors);
    }
    if let Some(Answer::WriteConcernError { code }) = special {
        let error = rawdoc! { "code": *code, "codeName": code_name(*code), "errmsg": "the script says so" };
        reply.append(bson::raw::cstr!("writeConcernError"), error);
    }
    Ok(reply)
}

/// Everything in the first batch; the batch size is taken as a wish.
fn find(
    documents: &Documents,
    namespace: &str,
    body: &RawDocument,
    special: Option<&Answer>,
) -> Result<RawDocumentBuf, String> {
    let nothing = rawdoc! {};
    let part = |name| body.get_document(name).unwrap_or(&nothing);
    let mut keys = Filter::new(part("filter"))?.keys(documents);
    if !(part("min").is_empty() && part("max").is_empty()) {
        if part("hint").get_i32("_id").is_err() {
            return Err("min and max need the hint { _id: 1 }".into());
        }
        between(&mut keys, part("min"), part("max"))?;
    }
    if part("sort").get_i32("_id").is_ok_and(|direction| direction < 0) {
        keys.reverse();
    }
    let number = |name| body.get(name).ok().flatten().and_then(|n| n.as_i64().or(n.as_i32().map(i64::from)));
    let limit = number("limit").filter(|limit| *limit > 0).map_or(usize::MAX, |limit| limit as usize);
    let skip = number("skip").unwrap_or_default() as usize;
    let mut found: Vec<_> = keys.iter().skip(skip).take(limit).map(|key| documents[key].clone()).collect();
    if let (Some(Answer::LastTwice), [.., before, last]) = (special, found.as_mut_slice()) {
        before.clone_from(last);
    }
    Ok(cursor(namespace, found.into_iter()))
}

fn cursor(namespace: &str, batch: impl Iterator<Item = RawDocumentBuf>) -> RawDocumentBuf {
    let batch = RawArrayBuf::from_iter(batch);
    rawdoc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": namespace }, "ok": 1.0 }
}

fn stats(documents: &Documents, namespace: &str) -> RawDocumentBuf {
    let bytes: usize = documents.values().map(|document| document.as_bytes().len()).sum();
    rawdoc! {
        "ns": namespace,
        "count": documents.len() as i64,
        "size": bytes as i64,
        "storageSize": bytes as i64,
        "nindexes": 1,
        "ok": 1.0,
    }
}

fn list_collections(collections: &Collections, request: &Request) -> RawDocumentBuf {
    let database = format!("{}.", request.database);
    let wanted = request.body.get_document("filter").and_then(|filter| filter.get_str("name"));
    let names = collections.keys().filter_map(|namespace| namespace.strip_prefix(&database));
    let names = names.filter(|name| wanted.as_ref().map_or(true, |wanted| wanted == name));
    let entry = |name| rawdoc! { "name": name, "type": "collection", "options": {}, "info": {} };
    cursor(&format!("{database}$cmd.listCollections"), names.map(entry))
}
