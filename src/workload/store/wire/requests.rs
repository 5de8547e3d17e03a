//! The commands of one workload. Those for single documents are built once, and only keys, versions and
//! documents change; the others are built anew each time.

use std::ops::Range;

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use wire::hot::Message;

use super::super::asked::{Asked, Counted};
use crate::dataset::Documents;
use crate::scenario::{Dataset, ReadConcern, Workload, WriteConcern};

/// What an update looks like around its key and its change: `{ q: { _id: key }, u: change }`.
const QUERY: &[u8] = b"\x03q\0\x12\0\0\0\x12_id\0";
const CHANGE: &[u8] = b"\0\x03u\0";
/// Documents of one message: together with the largest document behind them they fit into 48 MB.
const FULL_BYTES: usize = 31_000_000;

/// Requests that are filled in anew for each operation.
#[derive(Debug)]
pub(super) struct Requests {
    documents: Documents,
    collection: String,
    database: String,
    read_concern: ReadConcern,
    /// What reads say of their read preference.
    read_mode: Option<&'static str>,
    pub(super) asked: Asked,
    find: Message,
    find_key: Range<usize>,
    insert: Message,
    update: Message,
    delete: Message,
}

impl Requests {
    /// The requests of this workload.
    pub(super) fn new(dataset: &Dataset, workload: &Workload, documents: Documents) -> Self {
        let asked = Asked::of(workload);
        let write = |command: &str, list: &str, ordered: bool| {
            let concern = match workload.write_concern {
                WriteConcern::Majority => Bson::from("majority"),
                WriteConcern::Nodes(nodes) => Bson::Int32(nodes.cast_signed()),
            };
            let body = doc! {
                command: &dataset.collection,
                "ordered": ordered,
                "writeConcern": { "w": concern },
                "$db": &dataset.database,
            };
            Message::with_list(&raw(&body), list)
        };
        let mut requests = Self {
            documents,
            collection: dataset.collection.clone(),
            database: dataset.database.clone(),
            read_concern: workload.read_concern,
            read_mode: None,
            find: Message::new(&rawdoc! {}),
            find_key: 0..0,
            insert: write("insert", "documents", asked.ordered),
            update: write("update", "updates", true),
            delete: write("delete", "deletes", true),
            asked,
        };
        requests.make_find();
        requests
    }

    /// Reads say from now on what kind of server they may go to.
    pub(super) fn set_read_mode(&mut self, mode: Option<&'static str>) {
        if self.read_mode != mode {
            self.read_mode = mode;
            self.make_find();
        }
    }

    fn make_find(&mut self) {
        let filter = doc! { "_id": 0_i64 };
        self.find = self.read_command(
            doc! { "find": &self.collection, "filter": filter, "limit": 1, "singleBatch": true },
        );
        #[expect(clippy::expect_used, reason = "the filter is written above")]
        let key = self.find.slot(&["filter", "_id"]).expect("the filter has a key");
        self.find_key = key;
    }

    /// The document of a key.
    pub(super) fn read(&mut self, key: u64) -> &mut Message {
        self.find.fill(&self.find_key, &self.documents.id(key).to_le_bytes());
        &mut self.find
    }

    /// New documents under consecutive keys, as many as fit into one message, and how many these are.
    pub(super) fn insert(&mut self, first: u64, count: u64) -> (&mut Message, u64) {
        let list = self.insert.list();
        let from = list.len();
        let mut key = first;
        while key < first + count && list.len() - from < FULL_BYTES {
            self.documents.encode(key, 0, list);
            key += 1;
        }
        (&mut self.insert, key - first)
    }

    /// A new version of one document: its fields are set.
    pub(super) fn update(&mut self, key: u64, version: u32) -> &mut Message {
        let documents = &self.documents;
        write_update(self.update.list(), documents.id(key), |list| {
            documents.encode_update(key, version, list);
        });
        &mut self.update
    }

    /// A new version of one document: it is replaced.
    pub(super) fn replace(&mut self, key: u64, version: u32) -> &mut Message {
        write_update(self.update.list(), self.documents.id(key), |list| {
            self.documents.encode(key, version, list)
        });
        &mut self.update
    }

    /// Deletes one document.
    pub(super) fn delete(&mut self, key: u64) -> &mut Message {
        let item = rawdoc! { "q": { "_id": self.documents.id(key) }, "limit": 1 };
        self.delete.list().extend_from_slice(item.as_bytes());
        &mut self.delete
    }

    /// Documents from a key on, in the order of the keys.
    pub(super) fn scan(&self, key: u64, length: u32) -> Message {
        self.find_many(doc! { "_id": { "$gte": self.documents.id(key) } }, doc! { "_id": 1 }, length)
    }

    /// Documents in which the field has this value.
    pub(super) fn find_by(&self, value: Bson) -> Message {
        self.find_many(doc! { &self.asked.field: value }, doc! {}, self.asked.limit)
    }

    /// All in one answer where they fit: of exactly `limit` documents some servers would keep the cursor.
    fn find_many(&self, filter: Document, sort: Document, limit: u32) -> Message {
        let batch = i64::from(limit) + 1;
        let mut body = doc! { "find": &self.collection, "filter": filter };
        if !sort.is_empty() {
            body.insert("sort", sort);
        }
        body.extend(doc! { "limit": i64::from(limit), "batchSize": batch });
        self.read_command(body)
    }

    /// Counts the documents of a range of keys on the server.
    pub(super) fn count(&self, key: u64, length: u32) -> Message {
        self.aggregate(Counted::stages(&self.documents, key, length).to_vec(), None)
    }

    /// The user's aggregation.
    pub(super) fn pipeline(&self, key: u64) -> Message {
        let key = self.asked.pipeline_takes_key.then_some(key);
        self.aggregate(self.asked.pipeline.clone(), key)
    }

    fn aggregate(&self, pipeline: Vec<Document>, key: Option<u64>) -> Message {
        let mut body = doc! { "aggregate": &self.collection, "pipeline": pipeline, "cursor": {} };
        if let Some(key) = key {
            body.insert("let", doc! { "key": self.documents.id(key) });
        }
        self.read_command(body)
    }

    /// What a cursor holds back.
    pub(super) fn get_more(&self, cursor: i64) -> Message {
        let body = doc! { "getMore": cursor, "collection": &self.collection, "$db": &self.database };
        Message::new(&raw(&body))
    }

    fn read_command(&self, mut body: Document) -> Message {
        body.insert("readConcern", doc! { "level": self.read_concern.word() });
        body.insert("$db", &self.database);
        if let Some(mode) = self.read_mode {
            body.insert("$readPreference", doc! { "mode": mode });
        }
        Message::new(&raw(&body))
    }
}

fn write_update(list: &mut Vec<u8>, id: i64, change: impl FnOnce(&mut Vec<u8>)) {
    let start = list.len();
    list.extend([0; 4]);
    list.extend(QUERY);
    list.extend(id.to_le_bytes());
    list.extend(CHANGE);
    change(list);
    list.push(0);
    // A change is at most a few megabytes.
    let length = (list.len() - start) as u32;
    list[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

#[expect(clippy::expect_used, reason = "no name of ours holds a NUL")]
fn raw(body: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(body).expect("a document of ours is well-formed")
}

#[cfg(test)]
mod tests {
    use bson::RawDocument;

    use super::*;
    use crate::scenario::Shape;

    #[test]
    fn an_update_is_one_document_of_a_query_and_a_change() {
        let documents = Documents::new(Shape::Row, 7);
        let mut list = Vec::new();
        let change = documents.update(5, 3);
        write_update(&mut list, documents.id(5), |list| list.extend_from_slice(&change));
        let item = Document::try_from(RawDocument::from_bytes(&list).unwrap()).unwrap();
        let change = Document::try_from(RawDocument::from_bytes(&change).unwrap()).unwrap();
        assert_eq!(item, doc! { "q": { "_id": 5_i64 }, "u": change });
    }
}
