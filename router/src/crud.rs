//! Commands that go to rtr under another name, with the rest of their bytes as they came.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, Uuid, doc, rawdoc};
use tokio::time::sleep;
use wire::Frame;
use wire::hot::Elements;

use crate::body;
use crate::command::Command;
use crate::dispatch::Reply;
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::upstream::{Upstream, answered};

/// rtr's idea of who owns what is out of date. Unlike a mongos, its `clusterAggregate` does not help itself.
const STALE: [i64; 2] = [13388, 249];
/// When a shard has no more data for now, and the cursor stays open, rtr asks it again from a thread that is not made
/// for it, and ends by a failed assertion (seen with 6.0.5: `haveClient()`, from `AsyncResultsMerger`).
const NO_STREAMS: &str = "the stand-in router cannot do change streams and tailable cursors: a getMore would end the server behind it";
const STALE_RESENDS: u32 = 10;
const STALE_PAUSE: Duration = Duration::from_millis(20);

/// `find` and `aggregate`: under a session of ours, so that their cursor can be ended, and with the read concern
/// that a mongos would add. Without one a secondary also returns what does not belong to it.
pub(crate) async fn read(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
    renamed: &str,
) -> Result<Reply, Failure> {
    let body = command.sections.body;
    let (is_stream, writes) = match renamed {
        "clusterAggregate" => special_stages(body),
        _ => (flag(body, &[b"tailable", b"awaitData"])?, false),
    };
    if is_stream {
        return Err(Refusal::illegal(NO_STREAMS).into());
    }
    // The many reads that can leave no cursor are spared the cost of a session.
    let lease = (!flag(body, &[b"singleBatch"])?).then(|| router.cursors.lease());
    let mut more = lease.as_ref().map(|lease| session_fields(lease.session)).unwrap_or_default();
    if !command.has_read_concern {
        more.append(bson::raw::cstr!("readConcern"), rawdoc! { "level": "local" });
    }
    if !command.has_write_concern && writes {
        more.append(bson::raw::cstr!("writeConcern"), rawdoc! { "w": "majority" });
    }
    let request = command.renamed(renamed, Some(&more))?;
    let namespace = command.namespace();
    let answer = exchange_fresh(router, upstream, &request, namespace.as_deref()).await?;
    let reply = answered(&answer)?.body;
    match (body::cursor_id(reply).map_err(lost)?, lease) {
        (_, None) => {}
        (0, Some(lease)) => lease.no_cursor(),
        (id, Some(lease)) => {
            // A cursor of a whole database has a collection of its own name.
            let (database, collection) = cursor_namespace(reply).unwrap_or_default();
            lease.opened(id, &database, &collection);
        }
    }
    translated(&answer)
}

/// `getMore`: under the session of its cursor.
pub(crate) async fn get_more(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Reply, Failure> {
    let id = body::integer(command.sections.body, "getMore")?;
    let id = id.ok_or_else(|| Refusal::bad_value("getMore needs the id of a cursor"))?;
    let resumed = router.cursors.resume(id).ok_or_else(|| Refusal {
        code: 43,
        code_name: "CursorNotFound".into(),
        message: format!("cursor id {id} not found"),
    })?;
    let more = session_fields(resumed.session);
    let answer = upstream.exchange(&command.renamed("clusterGetMore", Some(&more))?).await?;
    let reply = answered(&answer)?.body;
    if body::is_ok(reply).map_err(lost)? {
        if body::cursor_id(reply).map_err(lost)? == 0 {
            resumed.exhausted();
        }
    } else if ends_cursor(body::integer(reply, "code").map_err(lost)?) {
        resumed.gone();
    }
    translated(&answer)
}

/// Errors of a `getMore` after which the cursor may still be used: it was in use, or the request was wrong.
fn ends_cursor(code: Option<i64>) -> bool {
    const STAYS: [i64; 7] = [2, 9, 13, 14, 72, 12051, 40415];
    !code.is_some_and(|code| STAYS.contains(&code))
}

/// `insert`, `update` and `delete`: with the write concern that a mongos would take from the cluster.
pub(crate) async fn write(
    upstream: &mut Upstream,
    command: &Command<'_>,
    renamed: &str,
) -> Result<Reply, Failure> {
    let more = (!command.has_write_concern).then(|| rawdoc! { "writeConcern": { "w": "majority" } });
    let answer = upstream.exchange(&command.renamed(renamed, more.as_deref())?).await?;
    translated(&answer)
}

/// Commands about rtr's own state.
pub(crate) async fn as_is(upstream: &mut Upstream, command: &Command<'_>) -> Result<Reply, Failure> {
    let answer = upstream.exchange(&command.renamed(command.name, None)?).await?;
    translated(&answer)
}

/// Sends a read, and sends it again after rtr has read the routing table anew, until it is not stale any more.
pub(crate) async fn exchange_fresh(
    router: &Router,
    upstream: &mut Upstream,
    request: &Frame,
    namespace: Option<&str>,
) -> Result<Frame, Failure> {
    let mut answer = upstream.exchange(request).await?;
    for _ in 0..STALE_RESENDS {
        let Some(stale) = stale_namespace(answered(&answer)?.body, namespace).map_err(lost)? else { break };
        router.counters.stale_resends.fetch_add(1, Ordering::Relaxed);
        let flush: Document = match stale {
            Some(namespace) => doc! { "flushRouterConfig": namespace },
            None => doc! { "flushRouterConfig": 1 },
        };
        upstream.command("admin", &flush).await?;
        sleep(STALE_PAUSE).await;
        answer = upstream.exchange(request).await?;
    }
    Ok(answer)
}

/// `None` if the reply does not say that rtr is stale; else what it is stale about, if it says so.
fn stale_namespace(
    reply: &[u8],
    namespace: Option<&str>,
) -> Result<Option<Option<String>>, wire::FormatError> {
    // Good replies, the many, are settled by their first two or three fields.
    if body::is_ok(reply)? || !body::integer(reply, "code")?.is_some_and(|code| STALE.contains(&code)) {
        return Ok(None);
    }
    for name in [&b"ns"[..], b"db"] {
        if let Some(named) = Elements::of(reply)?.find(name)?.and_then(|element| element.as_text()) {
            return Ok(Some(Some(named)));
        }
    }
    Ok(Some(namespace.map(str::to_owned)))
}

/// Whether one of these fields of a request is there and true.
fn flag(request: &[u8], names: &[&[u8]]) -> Result<bool, wire::FormatError> {
    let mut elements = Elements::of(request)?;
    while let Some(element) = elements.next_element()? {
        if names.contains(&element.name) && element.is_true() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a pipeline begins with a change stream, and whether it ends with a stage that writes.
fn special_stages(request: &[u8]) -> (bool, bool) {
    let names = || -> Result<Vec<&[u8]>, wire::FormatError> {
        let pipeline = Elements::of(request)?.find(b"pipeline")?.and_then(|pipeline| pipeline.as_document());
        let mut stages = Elements::of(pipeline.unwrap_or(b"\x05\0\0\0\0"))?;
        let mut names = Vec::new();
        while let Some(stage) = stages.next_element()? {
            if let Some(stage) = stage.as_document()
                && let Some(operator) = Elements::of(stage)?.next_element()?
            {
                names.push(operator.name);
            }
        }
        Ok(names)
    };
    // A malformed pipeline is for rtr to refuse.
    let names = names().unwrap_or_default();
    let is_stream = names.first() == Some(&&b"$changeStream"[..]);
    (is_stream, matches!(names.last(), Some(&(b"$out" | b"$merge"))))
}

fn session_fields(session: Uuid) -> RawDocumentBuf {
    let id = bson::Binary::from(session);
    rawdoc! { "lsid": { "id": id } }
}

/// `cursor.ns` of a reply.
fn cursor_namespace(reply: &[u8]) -> Option<(String, String)> {
    let cursor = Elements::of(reply).ok()?.find(b"cursor").ok()??.as_document()?;
    let namespace = Elements::of(cursor).ok()?.find(b"ns").ok()??.as_text()?;
    let (database, collection) = namespace.split_once('.')?;
    Some((database.to_owned(), collection.to_owned()))
}

/// The answer of rtr for the client: without the gossip of servers.
fn translated(answer: &Frame) -> Result<Reply, Failure> {
    let (header, sections) = (answer.header(), answered(answer)?);
    let mut result = Ok(());
    let frame = sections.with_body(header.request_id, header.response_to, |out| {
        result = body::write(out, sections.body, None, body::is_gossip, None);
    });
    result.and(frame).map(Reply::Frame).map_err(lost)
}

/// What rtr sent was not understood: nothing after it would be.
pub(crate) fn lost(error: wire::FormatError) -> Failure {
    Failure::UpstreamLost(error.to_string())
}

#[cfg(test)]
mod tests {
    use wire::Msg;

    use super::*;

    #[test]
    fn stages_that_need_something_else_are_seen() {
        let stages =
            |pipeline: bson::RawArrayBuf| special_stages(rawdoc! { "pipeline": pipeline }.as_bytes());
        let pipeline = |stages: &[RawDocumentBuf]| stages.iter().cloned().collect::<bson::RawArrayBuf>();
        let (matching, stream) = (rawdoc! { "$match": {} }, rawdoc! { "$changeStream": {} });
        assert_eq!(stages(pipeline(&[])), (false, false));
        assert_eq!(stages(pipeline(std::slice::from_ref(&matching))), (false, false));
        assert_eq!(stages(pipeline(&[stream, matching.clone()])), (true, false));
        assert_eq!(stages(pipeline(&[matching, rawdoc! { "$out": "x" }])), (false, true));
        assert_eq!(special_stages(rawdoc! { "pipeline": 1 }.as_bytes()), (false, false));
        assert_eq!(special_stages(b"no document"), (false, false));
    }

    #[test]
    fn stale_answers_say_what_they_are_stale_about() {
        let stale = |reply: RawDocumentBuf| stale_namespace(reply.as_bytes(), Some("d.asked")).unwrap();
        assert_eq!(stale(rawdoc! { "ok": 1.0, "code": 13388 }), None);
        assert_eq!(stale(rawdoc! { "ok": 0.0, "code": 26 }), None);
        assert_eq!(stale(rawdoc! { "ok": 0.0, "code": 13388, "ns": "d.c" }), Some(Some("d.c".into())));
        assert_eq!(stale(rawdoc! { "ok": 0.0, "code": 249, "db": "d" }), Some(Some("d".into())));
        assert_eq!(stale(rawdoc! { "ok": 0.0, "code": 13388 }), Some(Some("d.asked".into())));
    }

    #[test]
    fn cursors_without_an_end_are_seen() {
        let is_tailable =
            |request: RawDocumentBuf| flag(request.as_bytes(), &[b"tailable", b"awaitData"]).unwrap();
        assert!(is_tailable(rawdoc! { "find": "c", "tailable": true }));
        assert!(is_tailable(rawdoc! { "find": "c", "awaitData": 1 }));
        assert!(!is_tailable(rawdoc! { "find": "c", "tailable": false, "filter": { "tailable": true } }));
    }

    #[test]
    fn replies_lose_their_gossip_and_keep_their_numbers() {
        let body = rawdoc! { "n": 1, "ok": 1.0, "$clusterTime": { "a": 1 }, "operationTime": 5 };
        let Ok(Reply::Frame(frame)) = translated(&Msg::new(body).encode(3, 9).unwrap()) else { panic!() };
        assert_eq!((frame.header().request_id, frame.header().response_to), (3, 9));
        assert_eq!(Msg::decode(&frame).unwrap().body, rawdoc! { "n": 1, "ok": 1.0 });
    }

    #[test]
    fn the_namespace_of_a_cursor_is_taken_from_the_reply() {
        let reply =
            rawdoc! { "cursor": { "firstBatch": [], "id": 5_i64, "ns": "d.$cmd.aggregate" }, "ok": 1.0 };
        assert_eq!(cursor_namespace(reply.as_bytes()), Some(("d".into(), "$cmd.aggregate".into())));
        assert_eq!(cursor_namespace(rawdoc! {}.as_bytes()), None);
    }
}
