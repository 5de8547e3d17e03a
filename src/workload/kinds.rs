//! What became of each kind of operation, in workloads that mix several.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::Lane;
use super::latency::{histogram, merge, record_us};
use super::stats::is_unanswered;
use super::store::Request;
use crate::outcome::Outcome;
use crate::scenario::OpKind;

/// One second of one kind.
#[derive(Debug)]
pub struct KindCell {
    /// Acknowledged.
    pub ok: u64,
    /// Surely not applied.
    pub failed: u64,
    /// May have been applied.
    pub unknown: u64,
    /// From the intended start, in microseconds; operations that ran into the deadline with the time they had
    /// waited.
    pub response: Histogram<u64>,
    /// Largest value of `response`, unclamped, in microseconds.
    pub max_us: u64,
}

/// All kinds of one second.
pub type Kinds = BTreeMap<OpKind, KindCell>;

impl KindCell {
    fn new() -> Self {
        Self { ok: 0, failed: 0, unknown: 0, response: histogram(), max_us: 0 }
    }

    fn answered(&mut self, response_us: u64) {
        record_us(&mut self.response, response_us);
        self.max_us = self.max_us.max(response_us);
    }
}

/// Books an operation that was sent.
pub(super) fn book(kinds: &mut Kinds, kind: OpKind, outcome: &Outcome, response_us: u64) {
    let cell = kinds.entry(kind).or_insert_with(KindCell::new);
    match outcome {
        Outcome::Ok => {
            cell.ok += 1;
            cell.answered(response_us);
        }
        Outcome::Failed(cause) | Outcome::Unknown(cause) => {
            let unknown = matches!(outcome, Outcome::Unknown(_));
            *(if unknown { &mut cell.unknown } else { &mut cell.failed }) += 1;
            if is_unanswered(cause, response_us) {
                cell.answered(response_us);
            }
        }
    }
}

/// Adds what another shard booked for the same second.
pub(super) fn add(sum: &mut Kinds, part: &Kinds) {
    for (kind, more) in part {
        let cell = sum.entry(*kind).or_insert_with(KindCell::new);
        cell.ok += more.ok;
        cell.failed += more.failed;
        cell.unknown += more.unknown;
        merge(&mut cell.response, &more.response);
        cell.max_us = cell.max_us.max(more.max_us);
    }
}

impl Lane {
    /// The kind of a request, where the workload has several; else its own numbers say it all.
    pub(super) fn kind_of(&self, request: Request) -> Option<OpKind> {
        (self.workload.mix.len() > 1).then(|| request.kind())
    }
}

impl Request {
    /// Its kind, as in the scenario.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Insert { .. } => OpKind::Insert,
            Self::Read { .. } => OpKind::Read,
            Self::Find { .. } => OpKind::Find,
            Self::Scan { .. } => OpKind::Scan,
            Self::Update { .. } => OpKind::Update,
            Self::Replace { .. } => OpKind::Replace,
            Self::ReadModifyWrite { .. } => OpKind::ReadModifyWrite,
            Self::Delete { .. } => OpKind::Delete,
            Self::Count { .. } | Self::Pipeline { .. } => OpKind::Aggregate,
        }
    }
}
