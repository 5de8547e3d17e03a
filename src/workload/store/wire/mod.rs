//! Sends by our own wire protocol client: `engine = "wire"`.
//!
//! One [`Session`] per worker, with connections of its own. Nothing is tried a second time, and of an
//! operation that got no answer it is known whether its request had left: what never left as a whole has
//! failed, the rest is unknown. At its deadline the connection of an operation is closed.

mod link;
mod requests;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocument;
use wire::hot::{Answer, Message};

use super::judge::Judge;
use super::{Outcomes, Request};
use crate::clock::{Clock, Deadline, Moment};
use crate::dataset::Documents;
use crate::outcome::{self, Cause, Outcome};
use crate::scenario::{Dataset, Workload};
use link::{GivenUp, Link, Wants};
use requests::{Requests, is_as_written};

pub use link::Traffic;
pub use topology::Monitor;

/// What the workers of one workload share.
#[derive(Debug)]
pub struct Wire {
    dataset: Dataset,
    workload: Workload,
    documents: Documents,
    judge: Judge,
    topology: tokio::sync::watch::Receiver<Arc<topology::Topology>>,
    traffic: Arc<Traffic>,
}

impl Wire {
    pub(super) fn new(monitor: &Monitor, dataset: &Dataset, workload: &Workload, judge: &Judge) -> Self {
        Self {
            dataset: dataset.clone(),
            workload: workload.clone(),
            documents: judge.documents().clone(),
            judge: judge.clone(),
            topology: monitor.topology(),
            traffic: Arc::default(),
        }
    }

    /// The connections so far.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The way to the database of the worker of this number.
    #[must_use]
    pub fn session(&self, index: usize, clock: Clock) -> Session {
        let Self { dataset, workload, documents, .. } = self;
        let link =
            Link::new(self.topology.clone(), workload.read_preference, index, Arc::clone(&self.traffic));
        let read_mode = link.read_mode();
        let requests = Requests::new(dataset, workload, documents.clone(), read_mode);
        let hand = Hand { link, requests, read_mode, judge: self.judge.clone(), scratch: Vec::new() };
        Session { hand, deadline: workload.deadline, timer: Deadline::new(clock) }
    }
}

/// The way to the database of one worker.
#[derive(Debug)]
pub struct Session {
    hand: Hand,
    deadline: Duration,
    timer: Deadline,
}

/// Everything but the time.
#[derive(Debug)]
struct Hand {
    link: Link,
    requests: Requests,
    /// The one that is in the requests.
    read_mode: Option<&'static str>,
    judge: Judge,
    /// What a document should be; kept for its memory.
    scratch: Vec<u8>,
}

impl Session {
    /// Does it, or gives up when the workload's deadline has passed since `sent`. The books stay as they
    /// are.
    pub async fn execute(&mut self, request: Request, sent: Moment) -> Outcomes {
        let done = self.timer.bound(sent + self.deadline, self.hand.execute(request)).await;
        done.unwrap_or_else(|| match self.hand.link.give_up(self.deadline) {
            GivenUp::Sent => request.given_up(self.deadline),
            GivenUp::NotSent(outcome) => Outcomes::One(outcome),
        })
    }
}

impl Hand {
    async fn execute(&mut self, request: Request) -> Outcomes {
        match request {
            Request::Insert { first, count } => self.insert(first, count).await,
            Request::Read { key } => Outcomes::One(self.read(key).await),
            Request::Update { key, version } => self.update(key, version).await,
        }
    }

    async fn insert(&mut self, first: u64, count: u64) -> Outcomes {
        let Self { link, requests, .. } = self;
        let total = usize::try_from(count).unwrap_or(usize::MAX);
        let meaning = |answer: &Answer<'_>| match answer.n.cast_unsigned() {
            _ if !answer.is_plain_success() => Outcomes::Each(outcome::of_writes(answer, total, true)),
            inserted if inserted == count => Outcomes::One(Outcome::Ok),
            inserted => Outcomes::One(odd(&format!("{inserted} of {count} documents inserted"))),
        };
        write(link, requests.insert(first, count), meaning).await
    }

    async fn update(&mut self, key: u64, version: u32) -> Outcomes {
        let Self { link, requests, judge, .. } = self;
        let meaning = |answer: &Answer<'_>| match outcome::of_single_write(answer) {
            Outcome::Ok => Outcomes::One(judge.changed(key, answer.n.cast_unsigned())),
            refused => Outcomes::One(refused),
        };
        write(link, requests.update(key, version), meaning).await
    }

    async fn read(&mut self, key: u64) -> Outcome {
        let addr = self.link.select(Wants::Read).await;
        if self.link.read_mode() != self.read_mode {
            self.read_mode = self.link.read_mode();
            self.requests.set_read_mode(self.read_mode);
        }
        let Self { link, requests, judge, scratch, .. } = self;
        let outcome = match link.exchange(&addr, requests.read(key), Wants::Read).await {
            Ok(reply) => judge_read(judge, key, reply, scratch),
            Err(failed) => return failed,
        };
        link.learn(&addr, outcome::is_about_the_role(&outcome));
        outcome
    }
}

/// Sends a write and says what its answer means.
async fn write(
    link: &mut Link,
    message: &mut Message,
    meaning: impl FnOnce(&Answer<'_>) -> Outcomes,
) -> Outcomes {
    let addr = link.select(Wants::Write).await;
    let outcomes = match link.exchange(&addr, message, Wants::Write).await {
        Ok(reply) => match Answer::read(reply) {
            Ok(answer) => meaning(&answer),
            Err(error) => Outcomes::One(odd(&error.to_string())),
        },
        Err(failed) => return Outcomes::One(failed),
    };
    let is_about_the_role = match &outcomes {
        Outcomes::One(outcome) => outcome::is_about_the_role(outcome),
        Outcomes::Each(all) => all.iter().any(outcome::is_about_the_role),
    };
    link.learn(&addr, is_about_the_role);
    outcomes
}

/// Nearly every document is as it was written, and then nothing more needs to be known of it.
fn judge_read(judge: &Judge, key: u64, reply: &[u8], scratch: &mut Vec<u8>) -> Outcome {
    let found = match Answer::read(reply) {
        Ok(answer) if !answer.ok => return outcome::of_refused_read(&answer),
        Ok(answer) => answer.first(),
        Err(error) => Err(error),
    };
    match found {
        Ok(Some(found)) if is_as_written(judge.documents(), key, found, scratch) => Outcome::Ok,
        Ok(Some(found)) => match RawDocument::from_bytes(found) {
            Ok(found) => judge.read(key, Some(found)),
            Err(error) => unreadable(&error.to_string()),
        },
        Ok(None) => judge.read(key, None),
        Err(error) => unreadable(&error.to_string()),
    }
}

/// A read whose answer says nothing.
fn unreadable(text: &str) -> Outcome {
    Outcome::Failed(Cause::new("invalid_response", text))
}

/// A write whose answer says nothing that one could rely on.
fn odd(text: &str) -> Outcome {
    Outcome::Unknown(Cause::new("invalid_response", text))
}
