//! One operation after the other, without regard to time: what is sent, and what the answer means.

use std::sync::Arc;

use bson::RawDocument;
use wire::hot::{Answer, Elements, Message};

use super::super::asked::Counted;
use super::super::judge::Judge;
use super::super::{Outcomes, Request};
use super::link::{Link, Wants};
use super::requests::Requests;
use crate::outcome::{self, Cause, NOT_ATTEMPTED, Outcome};

/// Everything of a session but the time.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) link: Link,
    requests: Requests,
    judge: Judge,
    /// What a document should be; kept for its memory.
    scratch: Vec<u8>,
    /// A part of the operation in flight was sent and answered, and it is a write.
    has_written: bool,
}

impl Hand {
    pub(super) fn new(link: Link, requests: Requests, judge: Judge) -> Self {
        Self { link, requests, judge, scratch: Vec::new(), has_written: false }
    }

    /// Whether an operation that was dropped now may have changed something by an earlier message.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Does it. May be dropped at any time; the link then knows how far it came.
    pub(super) async fn execute(&mut self, request: Request) -> Outcomes {
        self.has_written = false;
        if let Request::Insert { first, count } = request {
            return self.insert(first, count).await;
        }
        Outcomes::One(self.one(request).await.unwrap_or_else(|not_acknowledged| not_acknowledged))
    }

    /// Nearly always one message, but the largest batches do not fit into one.
    async fn insert(&mut self, first: u64, count: u64) -> Outcomes {
        let (sent, outcomes) = self.insert_some(first, count).await;
        if sent == count {
            return outcomes;
        }
        let mut all = each(outcomes, sent);
        let mut at = sent;
        while at < count {
            if self.requests.asked.ordered && all.iter().any(|outcome| *outcome != Outcome::Ok) {
                let cause = Cause::new(NOT_ATTEMPTED, "an earlier part of the batch was not acknowledged");
                all.resize(usize::try_from(count).unwrap_or(usize::MAX), Outcome::Failed(cause));
                break;
            }
            let (sent, outcomes) = self.insert_some(first + at, count - at).await;
            all.extend(each(outcomes, sent));
            at += sent;
        }
        Outcomes::Each(all)
    }

    async fn insert_some(&mut self, first: u64, count: u64) -> (u64, Outcomes) {
        let Self { link, requests, .. } = self;
        let ordered = requests.asked.ordered;
        let (message, count) = requests.insert(first, count);
        let total = usize::try_from(count).unwrap_or(usize::MAX);
        let meaning = |answer: &Answer<'_>| {
            let outcomes = match answer.n.cast_unsigned() {
                _ if !answer.is_plain_success() => Outcomes::Each(outcome::of_writes(answer, total, ordered)),
                inserted if inserted == count => Outcomes::One(Outcome::Ok),
                inserted => Outcomes::One(odd(&format!("{inserted} of {count} documents inserted"))),
            };
            let is_about_the_role = are_about_the_role(&outcomes);
            (outcomes, is_about_the_role)
        };
        let outcomes = write(link, message, meaning).await.unwrap_or_else(Outcomes::One);
        self.has_written = true;
        (count, outcomes)
    }

    /// A request with one outcome.
    async fn one(&mut self, request: Request) -> Result<Outcome, Outcome> {
        let Self { link, requests, judge, .. } = self;
        match request {
            // Has an outcome for each key.
            Request::Insert { .. } => Ok(Outcome::Ok),
            Request::Read { key } => self.read(key).await.map(|(outcome, _)| outcome),
            Request::Find { key } => self.find(key).await,
            Request::Scan { key, length } => {
                let mut check = judge.scan(key, length);
                let addr = select(link, requests).await;
                many(link, requests, &addr, requests.scan(key, length), |raw| check.see(raw)).await?;
                Ok(check.judge())
            }
            Request::Update { key, version } => {
                judge.will_change();
                let matched = change(link, requests.update(key, version)).await?;
                Ok(judge.changed(key, matched))
            }
            Request::Replace { key, version } => {
                judge.will_change();
                let matched = change(link, requests.replace(key, version)).await?;
                Ok(judge.changed(key, matched))
            }
            Request::ReadModifyWrite { key, version } => self.read_modify_write(key, version).await,
            Request::Delete { key } => {
                let deleted = change(link, requests.delete(key)).await?;
                Ok(judge.deleted(key, deleted))
            }
            Request::Count { key, length } => self.count(key, length).await,
            Request::Pipeline { key } => {
                let addr = select(link, requests).await;
                many(link, requests, &addr, requests.pipeline(key), |_| {}).await?;
                Ok(Outcome::Ok)
            }
        }
    }

    /// What is found under a key, judged, and whether there was anything.
    async fn read(&mut self, key: u64) -> Result<(Outcome, bool), Outcome> {
        let Self { link, requests, judge, scratch, .. } = self;
        let addr = select(link, requests).await;
        let reply = link.exchange(&addr, requests.read(key), Wants::Read).await?;
        let judged = match first_document(reply) {
            // Nearly every document is as it was written, and then nothing more needs to be known of it.
            Ok(Some(found)) if is_as_written(judge, key, found, scratch) => Ok((Outcome::Ok, true)),
            Ok(Some(found)) => match RawDocument::from_bytes(found) {
                Ok(found) => Ok((judge.read(key, Some(found)), true)),
                Err(error) => Err(unreadable(&error.to_string())),
            },
            Ok(None) => Ok((judge.read(key, None), false)),
            Err(failed) => Err(failed),
        };
        link.learn(&addr, judged.as_ref().is_err_and(outcome::is_about_the_role));
        judged
    }

    async fn read_modify_write(&mut self, key: u64, version: u32) -> Result<Outcome, Outcome> {
        let (read, is_there) = self.read(key).await?;
        if read != Outcome::Ok || !is_there {
            return Ok(read);
        }
        let Self { link, requests, judge, .. } = self;
        judge.will_change();
        let matched = change(link, requests.update(key, version)).await?;
        Ok(judge.changed(key, matched))
    }

    async fn find(&mut self, key: u64) -> Result<Outcome, Outcome> {
        let Self { link, requests, judge, .. } = self;
        let field = requests.asked.field.clone();
        let mut check = judge.find(key, &field)?;
        let addr = select(link, requests).await;
        let message = requests.find_by(check.wanted());
        many(link, requests, &addr, message, |raw| check.see(raw)).await?;
        let missed = match check.judge(requests.asked.limit) {
            Ok(outcome) => return Ok(outcome),
            Err(missed) => missed,
        };
        // Strange, but right if somebody else changed the document: look at it itself.
        let addr = select(link, requests).await;
        let reply = link.exchange(&addr, requests.read(missed), Wants::Read).await?;
        let found = first_document(reply)?.map(RawDocument::from_bytes).transpose();
        let found = found.map_err(|error| unreadable(&error.to_string()))?;
        Ok(judge.missed_by_index(missed, found))
    }

    async fn count(&mut self, key: u64, length: u32) -> Result<Outcome, Outcome> {
        let Self { link, requests, judge, .. } = self;
        let expected = judge.expected(key, length);
        let addr = select(link, requests).await;
        let mut counted = Ok(None);
        let message = requests.count(key, length);
        many(link, requests, &addr, message, |raw| counted = Counted::read(raw).map(Some)).await?;
        let counted = counted.map_err(|why| unreadable(&why))?;
        Ok(judge.counted(key, length, expected, counted))
    }
}

/// Waits for a server that reads may go to, and lets them say so.
async fn select(link: &mut Link, requests: &mut Requests) -> Arc<str> {
    let addr = link.select(Wants::Read).await;
    requests.set_read_mode(link.read_mode());
    addr
}

/// Sends a write. `meaning` says what its answer means, and whether that is about the role of the server.
async fn write<T>(
    link: &mut Link,
    message: &mut Message,
    meaning: impl FnOnce(&Answer<'_>) -> (T, bool),
) -> Result<T, Outcome> {
    let addr = link.select(Wants::Write).await;
    let reply = link.exchange(&addr, message, Wants::Write).await?;
    let (meaning, is_about_the_role) = match Answer::read(reply) {
        Ok(answer) => meaning(&answer),
        Err(error) => return Err(odd(&error.to_string())),
    };
    link.learn(&addr, is_about_the_role);
    Ok(meaning)
}

/// Changes or deletes one document; how many there were.
async fn change(link: &mut Link, message: &mut Message) -> Result<u64, Outcome> {
    let meaning = |answer: &Answer<'_>| match outcome::of_single_write(answer) {
        Outcome::Ok => (Ok(answer.n.cast_unsigned()), false),
        refused => {
            let is_about_the_role = outcome::is_about_the_role(&refused);
            (Err(refused), is_about_the_role)
        }
    };
    write(link, message, meaning).await?
}

/// Sends a read, also for what its cursor holds back, and shows each document.
async fn many(
    link: &mut Link,
    requests: &Requests,
    addr: &Arc<str>,
    mut message: Message,
    mut see: impl FnMut(&RawDocument),
) -> Result<(), Outcome> {
    loop {
        let reply = link.exchange(addr, &mut message, Wants::Read).await?;
        let shown = show(reply, &mut see);
        link.learn(addr, shown.as_ref().is_err_and(outcome::is_about_the_role));
        match shown? {
            0 => return Ok(()),
            cursor => message = requests.get_more(cursor),
        }
    }
}

/// Shows the documents of one answer; gives the cursor to go on with, or 0.
fn show(reply: &[u8], see: &mut impl FnMut(&RawDocument)) -> Result<i64, Outcome> {
    let answer = read_answer(reply)?;
    let mut batch = answer.documents().map_err(|error| unreadable(&error.to_string()))?;
    while let Some(found) = batch.next_document().map_err(|error| unreadable(&error.to_string()))? {
        see(RawDocument::from_bytes(found).map_err(|error| unreadable(&error.to_string()))?);
    }
    Ok(answer.cursor_id)
}

fn first_document(reply: &[u8]) -> Result<Option<&[u8]>, Outcome> {
    read_answer(reply)?.first().map_err(|error| unreadable(&error.to_string()))
}

fn read_answer(reply: &[u8]) -> Result<Answer<'_>, Outcome> {
    match Answer::read(reply) {
        Ok(answer) if answer.ok => Ok(answer),
        Ok(refused) => Err(outcome::of_refused_read(&refused)),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}

/// Whether a document holds every byte that was written for its key and the version that it names.
fn is_as_written(judge: &Judge, key: u64, found: &[u8], scratch: &mut Vec<u8>) -> bool {
    let version = Elements::of(found).and_then(|mut elements| elements.find(b"v"));
    let version = version.ok().flatten().and_then(|v| <[u8; 4]>::try_from(v.value).ok());
    let Some(version) = version else { return false };
    scratch.clear();
    judge.documents.encode(key, u32::from_le_bytes(version), scratch);
    scratch == found
}

fn are_about_the_role(outcomes: &Outcomes) -> bool {
    match outcomes {
        Outcomes::One(outcome) => outcome::is_about_the_role(outcome),
        Outcomes::Each(all) => all.iter().any(outcome::is_about_the_role),
    }
}

/// One outcome for each of `count` keys.
fn each(outcomes: Outcomes, count: u64) -> Vec<Outcome> {
    match outcomes {
        Outcomes::One(outcome) => vec![outcome; usize::try_from(count).unwrap_or(usize::MAX)],
        Outcomes::Each(all) => all,
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
