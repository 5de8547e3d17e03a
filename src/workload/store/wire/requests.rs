//! The commands of one workload, built once: only keys, versions and documents change.

use std::ops::Range;

use bson::{Bson, Document, RawDocumentBuf, doc};
use wire::hot::Message;

use crate::dataset::{Documents, id};
use crate::scenario::{Dataset, Workload, WriteConcern};

/// What an update looks like around its key and its change: `{ q: { _id: key }, u: change }`.
const QUERY: &[u8] = b"\x03q\0\x12\0\0\0\x12_id\0";
const CHANGE: &[u8] = b"\0\x03u\0";

/// Requests that are filled in anew for each operation.
#[derive(Debug)]
pub(super) struct Requests {
    documents: Documents,
    collection: String,
    database: String,
    read_concern: &'static str,
    find: Message,
    find_key: Range<usize>,
    insert: Message,
    update: Message,
}

impl Requests {
    /// The requests of this workload. `read_mode` is what reads say of their read preference.
    pub(super) fn new(
        dataset: &Dataset,
        workload: &Workload,
        documents: Documents,
        read_mode: Option<&str>,
    ) -> Self {
        let (database, collection) = (dataset.database.clone(), dataset.collection.clone());
        let read_concern = "local";
        let (find, find_key) = find_message(&database, &collection, read_concern, read_mode);
        let write = |command: &str, list: &str| {
            let concern = match workload.write_concern {
                WriteConcern::Majority => Bson::from("majority"),
                WriteConcern::Nodes(nodes) => Bson::Int32(nodes.cast_signed()),
            };
            let body = doc! {
                command: &collection,
                "ordered": true,
                "writeConcern": { "w": concern },
                "$db": &database,
            };
            Message::with_list(&raw(&body), list)
        };
        let (insert, update) = (write("insert", "documents"), write("update", "updates"));
        Self { documents, collection, database, read_concern, find, find_key, insert, update }
    }

    /// Reads say from now on what kind of server they may go to.
    pub(super) fn set_read_mode(&mut self, mode: Option<&str>) {
        (self.find, self.find_key) = find_message(&self.database, &self.collection, self.read_concern, mode);
    }

    /// The document of a key.
    pub(super) fn read(&mut self, key: u64) -> &mut Message {
        self.find.fill(&self.find_key, &key.to_le_bytes());
        &mut self.find
    }

    /// New documents under consecutive keys.
    pub(super) fn insert(&mut self, first: u64, count: u64) -> &mut Message {
        let list = self.insert.list();
        for key in first..first + count {
            self.documents.encode(key, 0, list);
        }
        &mut self.insert
    }

    /// A new version of one document.
    pub(super) fn update(&mut self, key: u64, version: u32) -> &mut Message {
        let change = self.documents.update(key, version);
        write_item(self.update.list(), key, &change);
        &mut self.update
    }
}

fn write_item(list: &mut Vec<u8>, key: u64, change: &[u8]) {
    let start = list.len();
    list.extend([0; 4]);
    list.extend(QUERY);
    list.extend(key.to_le_bytes());
    list.extend(CHANGE);
    list.extend(change);
    list.push(0);
    // A change is at most a few megabytes.
    let length = (list.len() - start) as u32;
    list[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn find_message(
    database: &str,
    collection: &str,
    read_concern: &str,
    mode: Option<&str>,
) -> (Message, Range<usize>) {
    let mut body = doc! {
        "find": collection,
        "filter": { "_id": id(0) },
        "limit": 1,
        "singleBatch": true,
        "readConcern": { "level": read_concern },
        "$db": database,
    };
    if let Some(mode) = mode {
        body.insert("$readPreference", doc! { "mode": mode });
    }
    let message = Message::new(&raw(&body));
    #[expect(clippy::expect_used, reason = "the body is written above")]
    let key = message.slot(&["filter", "_id"]).expect("the filter has a key");
    (message, key)
}

/// Whether a document holds every byte that was written for its key and the version that it names.
pub(super) fn is_as_written(documents: &Documents, key: u64, found: &[u8], scratch: &mut Vec<u8>) -> bool {
    let version = wire::hot::Elements::of(found).ok().and_then(|mut all| all.find(b"v").ok().flatten());
    let Some(version) = version.and_then(|v| <[u8; 4]>::try_from(v.value).ok()) else { return false };
    scratch.clear();
    documents.encode(key, u32::from_le_bytes(version), scratch);
    scratch == found
}

#[expect(clippy::expect_used, reason = "no name of ours holds a NUL")]
fn raw(body: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(body).expect("a document of ours is well-formed")
}
