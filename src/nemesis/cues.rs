//! What the servers are at, for faults that are triggered by it. Looks only while such faults are planned.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bson::{Document, doc};
use faults::{Deployment, NodeTarget, View};
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::clock::{Clock, Moment};
use crate::event::{Live, LiveRow};
use crate::plan::Cue;

/// Between two looks.
const POLL: Duration = Duration::from_millis(100);
/// The same for a checkpoint, which of little data is soon over.
const QUICK_POLL: Duration = Duration::from_millis(30);
/// An answer that is later than this says nothing about now.
const ANSWER: Duration = Duration::from_secs(1);
/// So long an election counts after its term was seen first: nobody is to miss a quick one.
const ELECTION: Duration = Duration::from_secs(1);
/// Steady: of so many seconds without an error, the later half differs from the earlier one by no more than this
/// share. Single seconds may swing: a flush to disk slows one.
const STEADY_SECONDS: usize = 20;
const STEADY_SHARE: f64 = 0.05;
/// `myState` of a member that is being filled.
const STARTUP2: i32 = 5;

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(super) struct Signs {
    /// The members.
    pub(super) view: View,
    /// What is going on, and on which nodes.
    pub(super) on: BTreeMap<Cue, BTreeSet<String>>,
}

impl Signs {
    /// Whether it is the moment for a fault with this target.
    pub(super) fn fit(&self, cue: Cue, target: &NodeTarget, tie: u64) -> bool {
        let Some(nodes) = self.on.get(&cue) else { return false };
        // A checkpoint is a matter of the node that is hit; the rest concerns all.
        cue != Cue::Checkpoint || target.resolve(&self.view, tie).iter().any(|node| nodes.contains(node))
    }
}

/// Looks until nobody wants to know any more.
pub(super) struct Lookout<'a> {
    /// For whether a change of term is new.
    pub(super) clock: Clock,
    /// At whom.
    pub(super) deployment: &'a dyn Deployment,
    /// For what.
    pub(super) cues: BTreeSet<Cue>,
    /// The load, second by second.
    pub(super) live: watch::Receiver<Live>,
}

impl Lookout<'_> {
    /// Looks again and again; `busy` says whether a fault is active.
    pub(super) async fn run(self, busy: impl Fn() -> bool, signs: watch::Sender<Signs>) {
        let (mut elections, mut pace) = (Elections::default(), Pace::default());
        let poll = if self.cues.contains(&Cue::Checkpoint) { QUICK_POLL } else { POLL };
        while !signs.is_closed() {
            let view = self.deployment.view().await;
            let mut on = self.servers(&view).await;
            let everybody = || view.members.iter().map(|m| m.name.clone()).collect::<BTreeSet<_>>();
            if elections.look(&view, self.clock.now()) {
                on.insert(Cue::Election, everybody());
            }
            if pace.look(&self.live.borrow(), busy()) {
                on.insert(Cue::Steady, everybody());
            }
            on.retain(|cue, nodes| self.cues.contains(cue) && !nodes.is_empty());
            signs.send_replace(Signs { view, on });
            tokio::time::sleep(poll).await;
        }
    }

    /// What only the servers themselves can tell.
    async fn servers(&self, view: &View) -> BTreeMap<Cue, BTreeSet<String>> {
        let asked = self.cues.iter().filter_map(|cue| Some((*cue, question(*cue)?)));
        let all = asked.flat_map(|(cue, (command, yes))| {
            let nodes = view.members.iter().filter(|m| m.role != faults::Role::Down);
            nodes.map(move |member| (cue, &member.name, command.clone(), yes))
        });
        let answers = join_all(all.map(|(cue, node, command, yes)| async move {
            let answer = self.deployment.command(node, "admin", &command, ANSWER).await;
            answer.is_ok_and(|answer| yes(&answer)).then(|| (cue, node.clone()))
        }));
        let mut on = BTreeMap::<Cue, BTreeSet<String>>::new();
        for (cue, node) in answers.await.into_iter().flatten() {
            on.entry(cue).or_default().insert(node);
        }
        on
    }
}

/// Whether an answer says that it goes on.
type Yes = fn(&Document) -> bool;

/// What to ask a node, and what its answer means; `None`: no question of one node.
fn question(cue: Cue) -> Option<(Document, Yes)> {
    match cue {
        Cue::Checkpoint => {
            let command = doc! { "serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "tcmalloc": 0 };
            Some((command, checkpoint_runs))
        }
        Cue::InitialSync => Some((doc! { "replSetGetStatus": 1, "initialSync": 1 }, is_being_filled)),
        Cue::IndexBuild => {
            let build = doc! { "$or": [
                { "command.createIndexes": { "$exists": true } },
                { "msg": { "$regex": "^Index Build" } },
            ] };
            let pipeline = vec![doc! { "$currentOp": { "allUsers": true } }, doc! { "$match": build }];
            let anywhere = doc! { "mode": "nearest" };
            let command = doc! {
                "aggregate": 1, "pipeline": pipeline, "cursor": {}, "$readPreference": anywhere,
            };
            Some((command, any_operation))
        }
        Cue::Election | Cue::Steady => None,
    }
}

/// Older servers name it differently from newer ones (8.0).
fn checkpoint_runs(status: &Document) -> bool {
    let names =
        [("transaction", "transaction checkpoint currently running"), ("checkpoint", "progress state")];
    let value = |(section, name)| {
        let section = status.get_document("wiredTiger").ok()?.get_document(section).ok()?;
        section.get(name).and_then(number)
    };
    names.into_iter().filter_map(value).any(|running| running > 0.0)
}

/// A restarted member passes through the same state, but copies nothing.
fn is_being_filled(status: &Document) -> bool {
    status.get("myState").and_then(number) == Some(f64::from(STARTUP2))
        && status.contains_key("initialSyncStatus")
}

fn any_operation(found: &Document) -> bool {
    let batch = found.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    batch.is_ok_and(|batch| !batch.is_empty())
}

fn number(value: &bson::Bson) -> Option<f64> {
    value.as_f64().or(value.as_i32().map(f64::from)).or_else(|| {
        #[expect(clippy::cast_precision_loss, reason = "compared with small numbers")]
        value.as_i64().map(|number| number as f64)
    })
}

/// Whether a primary is being elected.
#[derive(Debug, Default)]
struct Elections {
    term: Option<i64>,
    new_until: Moment,
}

impl Elections {
    fn look(&mut self, view: &View, now: Moment) -> bool {
        let term = view.term().max(self.term);
        // The first term that is seen is not new.
        if self.term.is_some() && term > self.term {
            self.new_until = now + ELECTION;
        }
        self.term = term;
        view.primary().is_none() || now < self.new_until
    }
}

/// Whether throughput has been even.
#[derive(Debug, Default)]
struct Pace {
    second: Option<u64>,
    /// Acknowledged operations.
    last: VecDeque<u64>,
}

impl Pace {
    fn look(&mut self, live: &Live, busy: bool) -> bool {
        let sum = |of: fn(&LiveRow) -> u64| live.rows.iter().map(of).sum::<u64>();
        let new = live.second > self.second;
        self.second = live.second;
        if busy || (new && sum(|row| row.not_ok) > 0) {
            self.last.clear();
        } else if new {
            self.last.push_back(sum(|row| row.ok));
            if self.last.len() > STEADY_SECONDS {
                self.last.pop_front();
            }
        }
        self.last.len() == STEADY_SECONDS && is_even(self.last.make_contiguous())
    }
}

#[expect(clippy::cast_precision_loss, reason = "operations of seconds")]
fn is_even(seconds: &[u64]) -> bool {
    let (before, after) = seconds.split_at(seconds.len() / 2);
    let [before, after] = [before, after].map(|half| half.iter().sum::<u64>() as f64);
    after > 0.0 && (after - before).abs() <= STEADY_SHARE * after
}

#[cfg(test)]
mod tests;
