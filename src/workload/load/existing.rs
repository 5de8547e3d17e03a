//! What is in the collection before a load: nothing, a part, all of it, or something that is not ours.

use bson::{Bson, RawDocument, doc};
use mongodb::options::Hint;

use super::marker::{Marker, Note, SUFFIX, UNCOUNTED, number};
use super::{LoadError, Loading, Unfinished};

/// Fresh documents of earlier runs that are looked at, and removed, at a time.
const REMOVED_AT_A_TIME: i64 = 5_000;
const NAMESPACE_EXISTS: i32 = 48;

/// What is there.
pub enum There {
    /// Nothing but this new note.
    Nothing(Note),
    /// What the note says, and perhaps some keys below the number behind it.
    Part(Note, u64),
    /// All of it.
    All {
        /// Fresh documents of earlier runs that were removed.
        removed: u64,
        /// Why that is not sure.
        doubt: Option<String>,
    },
}

/// Looks, and refuses what is not exactly what the scenario asks for.
pub async fn look(at: &Loading, unfinished: Unfinished) -> Result<There, LoadError> {
    let (empty, note) = ours(at).await?;
    if empty {
        return begin(at).await.map(There::Nothing);
    }
    let note = note.ok_or_else(|| LoadError::NotEmpty { namespace: at.namespace() })?;
    if let Some(difference) = note.difference(&fresh_note(at).await?) {
        return Err(LoadError::Mismatch { namespace: at.namespace(), difference });
    }
    if note.complete {
        let removed = remove_fresh(at).await?;
        return Ok(There::All { removed, doubt: miscounted(at, &note).await? });
    }
    if unfinished == Unfinished::Refuse {
        let (namespace, documents) = (at.namespace(), at.dataset.documents);
        return Err(LoadError::Partial { namespace, loaded_to: note.edge(), documents });
    }
    let top = at.patiently(|| highest_key(at)).await?;
    Ok(There::Part(note, top.map_or(0, |key| key + 1)))
}

/// Drops the collection and its note; only when the note says that it is ours. Whether there was anything. An
/// empty collection without a note is nobody's that we know of, and stays.
///
/// # Errors
/// When the collection is not ours, or the server refuses.
pub async fn drop_ours(at: &Loading) -> Result<bool, LoadError> {
    let (empty, note) = ours(at).await?;
    if note.is_none() {
        return if empty { Ok(false) } else { Err(LoadError::NotEmpty { namespace: at.namespace() }) };
    }
    let (collection, marker) = (at.collection(), Marker::new(&at.client, &at.dataset));
    // In this order: a note about nothing is harmless, data without a note is nobody's.
    at.patiently(|| async { collection.drop().await }).await?;
    at.patiently(|| async { marker.drop().await }).await?;
    Ok(!empty)
}

/// Whether the collection is empty, and the note about it. A note that is not about this collection is an
/// error, unless there is nothing that it could be about.
async fn ours(at: &Loading) -> Result<(bool, Option<Note>), LoadError> {
    let marker = Marker::new(&at.client, &at.dataset);
    let foreign = |what: String| LoadError::Foreign { namespace: at.namespace(), what };
    at.patiently(|| marker.barrier()).await?;
    let note = match at.patiently(|| marker.read()).await? {
        None => None,
        Some(found) => Some(
            Note::of(found).ok_or_else(|| foreign(format!("the document in {}{SUFFIX}", at.namespace())))?,
        ),
    };
    let collection = at.collection();
    let empty = at.patiently(|| async { collection.find_one(doc! {}).await }).await?.is_none();
    if let Some(note) = note.as_ref().filter(|_| !empty)
        && note.collection_uuid != at.patiently(|| uuid(at)).await?
    {
        let name = format!("{}{SUFFIX}", at.namespace());
        return Err(foreign(format!("the note in {name} is about an earlier collection of that name")));
    }
    Ok((empty, note))
}

/// Makes the collection and its note.
async fn begin(at: &Loading) -> Result<Note, LoadError> {
    let database = at.client.database(&at.dataset.database);
    let create = || async {
        match database.create_collection(&at.dataset.collection).await {
            Err(error) if crate::outcome::cause(&error).code == Some(NAMESPACE_EXISTS) => Ok(()),
            made => made,
        }
    };
    at.patiently(create).await?;
    let note = fresh_note(at).await?;
    at.patiently(|| Marker::new(&at.client, &at.dataset).write_owned(note.clone())).await?;
    Ok(note)
}

/// A note about the collection as it is now, of which nothing is sure.
pub async fn fresh_note(at: &Loading) -> Result<Note, LoadError> {
    let uuid = at.patiently(|| uuid(at)).await?;
    Ok(Note::new(&at.dataset, &at.documents, at.seed, uuid))
}

/// The UUID of the collection as hexadecimal text; `None`: there is no collection, or it has none.
async fn uuid(at: &Loading) -> mongodb::error::Result<Option<String>> {
    let list = doc! { "listCollections": 1, "filter": { "name": &at.dataset.collection } };
    let answer = at.client.database(&at.dataset.database).run_command(list).await?;
    let first =
        answer.get_document("cursor").and_then(|c| c.get_array("firstBatch")).ok().and_then(|b| b.first());
    let info = first.and_then(Bson::as_document).and_then(|c| c.get_document("info").ok());
    let Some(Bson::Binary(uuid)) = info.and_then(|info| info.get("uuid")) else {
        return Ok(None);
    };
    Ok(Some(uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

async fn highest_key(at: &Loading) -> mongodb::error::Result<Option<u64>> {
    let id = |key| at.documents.id(key);
    let filter = doc! { "_id": { "$gte": id(0), "$lt": id(at.dataset.documents) } };
    let found = at.collection().find_one(filter).sort(doc! { "_id": -1 }).await?;
    Ok(found.and_then(|raw| raw.get_i64("_id").ok()).and_then(|id| at.documents.key_of(id)))
}

/// Every document and index is there: says so in the database.
pub async fn complete(at: &Loading, mut note: Note) -> Result<(), LoadError> {
    (note.loaded_to, note.complete, note.counted) = (note.documents, true, counted(at).await?);
    at.patiently(|| Marker::new(&at.client, &at.dataset).write_owned(note.clone())).await
}

/// Notes that all of it is there now, but that the count will not tell whether it still is.
pub async fn uncount(at: &Loading) -> Result<(), LoadError> {
    let mut note = fresh_note(at).await?;
    (note.loaded_to, note.complete, note.counted) = (note.documents, true, UNCOUNTED);
    at.patiently(|| Marker::new(&at.client, &at.dataset).write_owned(note.clone())).await
}

/// What the server thinks how many there are: quick, and wrong after it crashed.
async fn counted(at: &Loading) -> Result<i64, LoadError> {
    let collection = at.collection();
    at.patiently(|| async { collection.estimated_document_count().await }).await.map(number)
}

/// Whether documents were lost or deleted since the load, or the server crashed: the count differs then.
async fn miscounted(at: &Loading, note: &Note) -> Result<Option<String>, LoadError> {
    if note.counted == UNCOUNTED {
        return Ok(Some("an earlier run was to delete documents".into()));
    }
    let (now, then) = (counted(at).await?, note.counted);
    Ok((now != then).then(|| format!("the server counts {now} documents, after the load it counted {then}")))
}

/// Removes what the workloads of earlier runs inserted above the loaded keys: it would be alien to this run.
async fn remove_fresh(at: &Loading) -> Result<u64, LoadError> {
    let (mut removed, mut gone_to) = (0, None);
    at.patiently(|| nothing_below(at)).await?.map_or(Ok(()), |what| Err(foreign(at, what)))?;
    loop {
        match at.patiently(|| fresh_keys(at)).await? {
            Fresh::None => return Ok(removed),
            Fresh::Foreign(what) => return Err(foreign(at, what)),
            // A delete whose reply was lost removes nothing when it is repeated; one that removed nothing at all
            // would be repeated without an end.
            Fresh::Keys { first, .. } if gone_to.is_some_and(|gone_to| first <= gone_to) => {
                return Err(still_there(at, first));
            }
            Fresh::Keys { first, last, count } => {
                let these = doc! { "_id": { "$gte": first, "$lte": last } };
                let collection = at.collection();
                at.patiently(|| async { collection.delete_many(these.clone()).await }).await?;
                removed += count;
                gone_to = Some(last);
            }
        }
    }
}

fn still_there(at: &Loading, id: i64) -> LoadError {
    let why = format!(
        "the document with _id {id} was deleted and is there again; does another run work on this collection?"
    );
    LoadError::Refused { namespace: at.namespace(), why }
}

fn foreign(at: &Loading, what: String) -> LoadError {
    LoadError::Foreign { namespace: at.namespace(), what }
}

enum Fresh {
    None,
    Foreign(String),
    Keys { first: i64, last: i64, count: u64 },
}

/// The next documents above the loaded ones, whatever the type of their `_id`.
async fn fresh_keys(at: &Loading) -> mongodb::error::Result<Fresh> {
    let id = |key| at.documents.id(key);
    let end = doc! { "_id": id(at.dataset.documents) };
    let collection = at.collection();
    let find = collection.find(doc! {}).hint(Hint::Keys(doc! { "_id": 1 })).min(end);
    // In order, so that nothing lies between the first and the last that was not checked.
    let mut cursor = find.sort(doc! { "_id": 1 }).limit(REMOVED_AT_A_TIME).await?;
    let (mut first, mut last, mut count) = (None, 0, 0);
    while cursor.advance().await? {
        match at.documents.check(cursor.current()) {
            Ok((key, _)) => {
                first.get_or_insert(id(key));
                last = id(key);
                count += 1;
            }
            Err(error) => return Ok(Fresh::Foreign(described(cursor.current(), &error.to_string()))),
        }
    }
    Ok(first.map_or(Fresh::None, |first| Fresh::Keys { first, last, count }))
}

/// What lies before the first key, if anything does.
async fn nothing_below(at: &Loading) -> mongodb::error::Result<Option<String>> {
    let collection = at.collection();
    let find =
        collection.find(doc! {}).hint(Hint::Keys(doc! { "_id": 1 })).max(doc! { "_id": at.documents.id(0) });
    let mut cursor = find.limit(1).await?;
    Ok(cursor.advance().await?.then(|| described(cursor.current(), "not a key of a load")))
}

fn described(raw: &RawDocument, why: &str) -> String {
    let id = raw.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    let id = id.map_or_else(|| "none".into(), |id| id.into_relaxed_extjson().to_string());
    format!("the document with _id {id} ({why})")
}
