//! What the servers are at, for faults that are triggered by it. Looks only while such faults are planned.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bson::{Document, doc};
use faults::{Deployment, NodeTarget, View};
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::event::Live;
use crate::plan::Cue;

/// Between two looks.
const POLL: Duration = Duration::from_millis(100);
/// An answer that is later than this says nothing about now.
const ANSWER: Duration = Duration::from_secs(1);
/// Looks for which an election counts after its term was seen: a second, so that nobody misses a quick one.
const ELECTION_LOOKS: u32 = 10;
/// Seconds that must be even, and how even.
const STEADY_SECONDS: usize = 20;
const STEADY_SHARE: f64 = 0.1;
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

/// Looks until it is dropped.
pub(super) struct Lookout<'a> {
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
        loop {
            let view = self.deployment.view().await;
            let mut on = self.servers(&view).await;
            let everybody = || view.members.iter().map(|m| m.name.clone()).collect::<BTreeSet<_>>();
            if elections.look(&view) {
                on.insert(Cue::Election, everybody());
            }
            let (second, ok) = {
                let live = self.live.borrow();
                (live.second, live.rows.iter().map(|row| row.ok).sum())
            };
            if pace.look(second, ok, busy()) {
                on.insert(Cue::Steady, everybody());
            }
            on.retain(|cue, nodes| self.cues.contains(cue) && !nodes.is_empty());
            signs.send_replace(Signs { view, on });
            tokio::time::sleep(POLL).await;
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

/// What to ask a node, and what its answer means; `None`: no question of one node.
fn question(cue: Cue) -> Option<(Document, fn(&Document) -> bool)> {
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
            Some((doc! { "aggregate": 1, "pipeline": pipeline, "cursor": {} }, any_operation))
        }
        Cue::Election | Cue::Steady => None,
    }
}

fn checkpoint_runs(status: &Document) -> bool {
    let transaction = status.get_document("wiredTiger").and_then(|engine| engine.get_document("transaction"));
    let running = transaction.ok().and_then(|t| t.get("transaction checkpoint currently running"));
    running.and_then(number).is_some_and(|running| running > 0.0)
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
    looks_left: u32,
}

impl Elections {
    fn look(&mut self, view: &View) -> bool {
        let term = view.term().max(self.term);
        self.looks_left = match (self.term, term) {
            (Some(before), Some(now)) if now > before => ELECTION_LOOKS,
            _ => self.looks_left.saturating_sub(1),
        };
        self.term = term;
        view.primary().is_none() || self.looks_left > 0
    }
}

/// Whether throughput has been even.
#[derive(Debug, Default)]
struct Pace {
    second: Option<u64>,
    last: VecDeque<u64>,
}

impl Pace {
    fn look(&mut self, second: Option<u64>, ok: u64, busy: bool) -> bool {
        if busy {
            self.last.clear();
        } else if second > self.second {
            self.last.push_back(ok);
            if self.last.len() > STEADY_SECONDS {
                self.last.pop_front();
            }
        }
        self.second = second;
        self.last.len() == STEADY_SECONDS && is_even(self.last.make_contiguous())
    }
}

/// Every second lies within the share of their mean, and something was done.
#[expect(clippy::cast_precision_loss, reason = "operations of seconds")]
fn is_even(seconds: &[u64]) -> bool {
    let mean = seconds.iter().sum::<u64>() as f64 / seconds.len().max(1) as f64;
    mean > 0.0 && seconds.iter().all(|ok| (*ok as f64 - mean).abs() <= STEADY_SHARE * mean)
}

#[cfg(test)]
mod tests;
