//! The note in the database that says what was loaded, and how far: one document in the collection
//! `<collection>.mongosoak`. It is written behind a majority, and never says more than is true.

use bson::{Document, doc};
use mongodb::options::{
    Acknowledgment, CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Collection};
use serde::{Deserialize, Serialize};

use crate::dataset::Documents;
use crate::scenario::Dataset;

/// Behind the name of the collection, that of its note.
pub const SUFFIX: &str = ".mongosoak";
const ID: &str = "load";
const OWNER: &str = "mongosoak";
const FORMAT: i32 = 1;
/// In the place of a count: no server counts that, so the next use looks up every key.
pub const UNCOUNTED: i64 = -1;
/// Keys whose documents go into the fingerprint; one of them is far out.
const FINGERPRINT_KEYS: [u64; 4] = [0, 1, 999, 4_294_967_309];

/// What was, or is being, loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    #[serde(rename = "_id")]
    id: String,
    by: String,
    format: i32,
    /// Seed of the documents, as text: it may be larger than a 64-bit integer of BSON.
    seed: String,
    /// Shape, for people.
    shape: String,
    /// Fingerprint of some documents: seed, shape and all.
    content: String,
    /// What stands in the database for key 0.
    #[serde(default)]
    pub first: i64,
    /// Keys 0 to this minus one.
    pub documents: i64,
    /// Every key below is there, acknowledged by a majority.
    pub loaded_to: i64,
    /// All documents and indexes are there.
    pub complete: bool,
    /// What the server counted when it was complete: not always the truth, but the same again. [`UNCOUNTED`]:
    /// documents were, or are about to be, deleted.
    pub counted: i64,
    /// Which collection of that name this is about: another one has another UUID. `None`: the server has none.
    pub collection_uuid: Option<String>,
}

impl Note {
    /// For a load that is about to begin.
    pub fn new(dataset: &Dataset, documents: &Documents, seed: u64, collection_uuid: Option<String>) -> Self {
        let shape = serde_json::json!(dataset.shape);
        let shape = shape.as_str().map_or_else(|| shape.to_string(), str::to_owned);
        Self {
            id: ID.into(),
            by: OWNER.into(),
            format: FORMAT,
            seed: seed.to_string(),
            shape,
            content: fingerprint(documents),
            first: number(dataset.first),
            documents: number(dataset.documents),
            loaded_to: 0,
            complete: false,
            counted: 0,
            collection_uuid,
        }
    }

    /// Reads one that a version of this tool wrote that we understand; `None`: it is something else.
    pub fn of(found: Document) -> Option<Self> {
        let note: Self = bson::deserialize_from_document(found).ok()?;
        (note.by == OWNER && note.format == FORMAT).then_some(note)
    }

    /// How the two sets of documents differ, with both values; `None`: they are the same.
    pub fn difference(&self, asked: &Self) -> Option<String> {
        let differ = |what: &str, here: &dyn std::fmt::Display, asked: &dyn std::fmt::Display| {
            Some(format!("{what} {here} is loaded, {what} {asked} is asked for"))
        };
        if self.seed != asked.seed {
            differ("seed", &self.seed, &asked.seed)
        } else if self.shape != asked.shape {
            differ("shape", &self.shape, &asked.shape)
        } else if self.first != asked.first {
            differ("first =", &self.first, &asked.first)
        } else if self.documents != asked.documents {
            differ("documents =", &self.documents, &asked.documents)
        } else if self.content != asked.content {
            Some(format!("shape {} has other fields now than when it was loaded", self.shape))
        } else {
            None
        }
    }

    /// The first key that may be missing.
    pub fn edge(&self) -> u64 {
        u64::try_from(self.loaded_to).unwrap_or(0)
    }
}

/// As the database has it.
pub fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// FNV-1a over some documents.
fn fingerprint(documents: &Documents) -> String {
    let mut bytes = Vec::new();
    for key in FINGERPRINT_KEYS {
        documents.encode(key, 0, &mut bytes);
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Where the note is.
#[derive(Clone, Debug)]
pub struct Marker {
    notes: Collection<Document>,
}

impl Marker {
    /// The place of the note for this collection.
    pub fn new(client: &Client, dataset: &Dataset) -> Self {
        // Journalled on a majority: the documents before it are on the disk as well then, which even a
        // standalone that is killed does not forget.
        let concern = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
        // Whatever the URI says: what a secondary knows may be old.
        let options = CollectionOptions::builder()
            .write_concern(concern)
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let database = client.database(&dataset.database);
        Self { notes: database.collection_with_options(&format!("{}{SUFFIX}", dataset.collection), options) }
    }

    /// Waits until a majority has everything that was written before; changes nothing, and makes no collection.
    /// Without it, reads of what the majority has may miss the last writes of an earlier run.
    pub async fn barrier(&self) -> mongodb::error::Result<()> {
        let nothing = doc! { "$setOnInsert": { "format": FORMAT } };
        self.notes.update_one(doc! { "_id": ID }, nothing).await.map(drop)
    }

    /// What stands there; `None`: nothing.
    pub async fn read(&self) -> mongodb::error::Result<Option<Document>> {
        self.notes.find_one(doc! { "_id": ID }).await
    }

    /// Replaces the note. When it returns, this and every write before it is kept by a majority.
    pub async fn write(&self, note: &Note) -> mongodb::error::Result<()> {
        let note = bson::serialize_to_document(note)?;
        self.notes.replace_one(doc! { "_id": ID }, note).upsert(true).await?;
        Ok(())
    }

    /// As [`Self::write`], for a call that is repeated.
    pub async fn write_owned(self, note: Note) -> mongodb::error::Result<()> {
        self.write(&note).await
    }

    /// Removes the note and its collection.
    pub async fn drop(&self) -> mongodb::error::Result<()> {
        self.notes.drop().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Shape;

    fn note(seed: u64, shape: Shape, documents: u64) -> Note {
        let dataset = Dataset { shape: shape.clone(), documents, ..Dataset::default() };
        Note::new(&dataset, &Documents::new(shape, seed), seed, None)
    }

    #[test]
    fn another_set_of_documents_is_told_with_both_values() {
        let loaded = note(1, Shape::Row, 100);
        assert_eq!(loaded.difference(&note(1, Shape::Row, 100)), None);
        let words = |asked: Note| loaded.difference(&asked).unwrap();
        assert_eq!(
            words(note(u64::MAX, Shape::Row, 100)),
            "seed 1 is loaded, seed 18446744073709551615 is asked for"
        );
        assert_eq!(words(note(1, Shape::Ycsb, 100)), "shape row is loaded, shape ycsb is asked for");
        assert_eq!(words(note(1, Shape::Row, 7)), "documents = 100 is loaded, documents = 7 is asked for");
        let changed = Note { content: "0".into(), ..note(1, Shape::Row, 100) };
        assert!(words(changed).contains("other fields"));
    }

    #[test]
    fn a_note_survives_its_way_through_the_database() {
        let note = Note { loaded_to: 3, complete: true, ..note(7, Shape::Row, 10) };
        let document = bson::serialize_to_document(&note).unwrap();
        assert_eq!(document.get_str("_id").unwrap(), "load");
        assert_eq!(Note::of(document.clone()), Some(note));
        let mut foreign = document;
        foreign.insert("by", "somebody");
        assert_eq!(Note::of(foreign), None);
    }
}
