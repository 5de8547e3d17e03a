//! What the operations of a workload ask for, whoever sends it.

use bson::{Document, RawDocument, doc};

use crate::dataset::Documents;
use crate::scenario::{Aggregation, Op, Workload};

/// Documents of an aggregation of the user that are read; the rest is left on the server.
const MOST_RESULTS: i64 = 1_000;

/// The parameters of the operations; a workload has each kind once at most.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Whether the server stops a batch at the first document that it refuses.
    pub(super) ordered: bool,
    /// Which field a find compares.
    pub(super) field: String,
    /// Most documents of a find.
    pub(super) limit: u32,
    /// The user's aggregation.
    pub(super) pipeline: Vec<Document>,
    /// Whether it asks for `$$key`. `let` is not known to servers before 5.0.
    pub(super) pipeline_takes_key: bool,
}

impl Asked {
    pub(super) fn of(workload: &Workload) -> Self {
        let mut asked = Self {
            ordered: true,
            field: String::new(),
            limit: 1,
            pipeline: Vec::new(),
            pipeline_takes_key: false,
        };
        for (op, _) in &workload.mix {
            asked.take(op);
        }
        asked
    }

    fn take(&mut self, op: &Op) {
        match op {
            Op::Insert { ordered, .. } => self.ordered = *ordered,
            Op::Find { field, limit } => (self.field, self.limit) = (field.clone(), *limit),
            Op::Aggregate(Aggregation::Pipeline(stages)) => {
                self.pipeline_takes_key = stages.iter().any(|stage| stage.to_string().contains("$$key"));
                self.pipeline = stages.iter().cloned().chain([doc! { "$limit": MOST_RESULTS }]).collect();
            }
            _ => {}
        }
    }
}

/// What the aggregation over a range of keys found; nothing in it: `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) documents: u64,
    pub(super) lowest: i64,
    pub(super) highest: i64,
}

impl Counted {
    /// The aggregation that counts the documents of a range of keys on the server.
    pub(super) fn stages(documents: &Documents, key: u64, length: u32) -> [Document; 2] {
        let id = |key| documents.id(key);
        let range = doc! { "_id": { "$gte": id(key), "$lt": id(key.saturating_add(length.into())) } };
        let numbers = doc! {
            "_id": null,
            "documents": { "$sum": 1 },
            "lowest": { "$min": "$_id" },
            "highest": { "$max": "$_id" },
        };
        [doc! { "$match": range }, doc! { "$group": numbers }]
    }

    /// Reads the document that it gives.
    pub(super) fn read(raw: &RawDocument) -> Result<Self, String> {
        let number = |name| {
            let value = raw.get(name).ok().flatten();
            let value = value.and_then(|value| value.as_i64().or_else(|| value.as_i32().map(i64::from)));
            value.ok_or_else(|| format!("the aggregation gave no number {name:?}"))
        };
        let documents = u64::try_from(number("documents")?).map_err(|error| error.to_string())?;
        Ok(Self { documents, lowest: number("lowest")?, highest: number("highest")? })
    }
}
