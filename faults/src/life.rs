//! One fault from its preparation to its end, and the healing of what a dead tester left.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::undo::{Entry, Journal};
use crate::{Deployment, Evidence, Fault, FaultError, Memo, Reach, Site, Spec, TOGETHER, View};

/// A clean shutdown of a primary waits for its successor; most effects are seen at once.
const EFFECT_DEADLINE: Duration = Duration::from_secs(60);
/// A restart replays the journal and the oplog: minutes after minutes of load.
const LIFT_DEADLINE: Duration = Duration::from_secs(30 * 60);
/// Lifting is tried so often before it counts as failed, with a pause between.
const LIFT_TRIES: u32 = 3;
const LIFT_PAUSE: Duration = Duration::from_secs(1);
/// Lifting in a run that is broken off: everything must be gone 15 s after the signal.
const HURRIED_LIFT: Duration = Duration::from_secs(4);

/// When a fault has to stop.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// The measured phase is over: inject nothing more, lift what holds.
    pub measured: CancellationToken,
    /// The run is being broken off: lift only what outlives the servers' processes.
    pub run: CancellationToken,
}

/// Who wants to know how it goes.
#[async_trait]
pub trait Watch: Send + Sync {
    /// The first command is about to be issued, to these nodes.
    async fn injected(&self, nodes: &[String]);
    /// The effect was seen everywhere.
    async fn effective(&self);
    /// Nothing is left of it anywhere.
    async fn lifted(&self);
    /// A step (`inject`, `effect`, `held`, `lift`, `lifted`) was done on a node.
    async fn step(&self, node: &str, step: &'static str, evidence: Evidence);
}

/// How a fault failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody saw an effect; why.
    NotEffective(String),
    /// What it needs is not here; why.
    Skipped(String),
    /// It could not be done or undone; why.
    Failed(String),
}

impl From<FaultError> for Failure {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Failed { .. } => Self::Failed(error.to_string()),
            FaultError::Unavailable { .. } => Self::Skipped(error.to_string()),
            _ => Self::NotEffective(error.to_string()),
        }
    }
}

/// The undo journal, shared by the faults of one run.
#[derive(Debug)]
pub struct Undo(Mutex<Journal>);

impl Undo {
    /// Opens or makes the journal.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self(Mutex::new(Journal::open(path)?)))
    }

    /// What is not undone, newest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open_entries(&self) -> std::io::Result<Vec<Entry>> {
        self.journal().open_entries()
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, id: u64) -> Result<(), Failure> {
        self.journal().close(id).map_err(|e| Failure::Failed(format!("write the undo journal: {e}")))
    }
}

/// One fault with its nodes, ready to be injected.
pub struct Life<'a> {
    /// To whom.
    pub on: &'a dyn Deployment,
    /// Where its undoing is noted.
    pub undo: &'a Undo,
    /// Who wants to know.
    pub watch: &'a dyn Watch,
    /// When to stop.
    pub ends: &'a Ends,
    /// Its id in the plan.
    pub id: &'a str,
    /// What is done.
    pub spec: &'a Spec,
    /// Chance, drawn with the plan.
    pub tie: u64,
    /// The nodes that its target became.
    pub nodes: &'a [String],
    /// The members before.
    pub before: &'a View,
}

/// A node with what was noted for it.
struct Noted {
    node: String,
    memo: Memo,
    id: u64,
}

impl Life<'_> {
    /// Prepares, notes, injects, observes, holds, lifts, observes.
    ///
    /// # Errors
    /// How it failed; what could be lifted was lifted.
    pub async fn run(&self) -> Result<(), Failure> {
        let fault = self.spec.build();
        let mut noted = Vec::new();
        let effect = tokio::select! {
            biased;
            () = self.ends.run.cancelled() => Err(Failure::NotEffective("the run was broken off".into())),
            effect = self.bring_about(&*fault, &mut noted) => effect,
        };
        let mut held = Ok(());
        if effect.is_ok() {
            self.watch.effective().await;
            tokio::select! {
                biased;
                () = self.ends.run.cancelled() => {}
                () = self.ends.measured.cancelled() => {}
                ended = self.hold(&*fault, &noted) => held = ended,
            }
        }
        // Also after a failure: what was noted may have happened.
        let lifted = tokio::select! {
            biased;
            () = self.ends.run.cancelled() => {
                self.hurry(&*fault, &noted).await;
                return effect;
            }
            lifted = self.put_back(&*fault, &noted) => lifted,
        };
        if effect.is_ok() && lifted.is_ok() {
            self.watch.lifted().await;
        }
        effect.and(held).and(lifted)
    }

    fn site<'s>(&'s self, node: &'s str) -> Site<'s> {
        Site { on: self.on, node, nodes: self.nodes, before: self.before, fault: self.id, tie: self.tie }
    }

    /// Prepares, notes, injects and observes everywhere; what was noted so far is in `noted` also on failure.
    async fn bring_about(&self, fault: &dyn Fault, noted: &mut Vec<Noted>) -> Result<(), Failure> {
        let nodes = match fault.reach() {
            Reach::EachNode => self.nodes.to_vec(),
            Reach::Together => vec![TOGETHER.to_owned()],
        };
        self.have_what_it_needs().await?;
        let mut prepared = Vec::new();
        for node in nodes {
            let memo = fault.prepare(&self.site(&node)).await?;
            prepared.push((node, memo));
        }
        for (node, memo) in prepared {
            let id = self.note(&node, &memo)?;
            noted.push(Noted { node, memo, id });
        }
        self.watch.injected(self.nodes).await;
        for Noted { node, memo, .. } in &*noted {
            let done = fault.inject(&self.site(node), memo).await?;
            self.watch.step(node, "inject", done).await;
        }
        for Noted { node, memo, .. } in &*noted {
            let seen = fault.observe_effect(&self.site(node), memo, EFFECT_DEADLINE).await?;
            self.watch.step(node, "effect", seen).await;
        }
        Ok(())
    }

    /// Every node has what the kind needs.
    async fn have_what_it_needs(&self) -> Result<(), FaultError> {
        for node in self.nodes {
            for need in self.spec.entry().needs {
                if let Some(why) = self.on.lacks(node, *need).await {
                    return Err(FaultError::Unavailable { node: node.clone(), why });
                }
            }
        }
        Ok(())
    }

    fn note(&self, node: &str, memo: &Memo) -> Result<u64, Failure> {
        let noted = self.undo.journal().note(Entry {
            id: 0,
            fault: self.id.into(),
            r#do: self.spec.clone(),
            node: node.into(),
            nodes: self.nodes.to_vec(),
            memo: memo.clone(),
            tie: self.tie,
        });
        noted.map_err(|e| Failure::Failed(format!("write the undo journal, so nothing was injected: {e}")))
    }

    async fn hold(&self, fault: &dyn Fault, noted: &[Noted]) -> Result<(), Failure> {
        let one = async |noted: &Noted| {
            let seen = fault.held(&self.site(&noted.node), &noted.memo).await?;
            if !seen.is_empty() {
                self.watch.step(&noted.node, "held", seen).await;
            }
            Ok::<_, FaultError>(())
        };
        let all = join_all(noted.iter().map(one)).await;
        Ok(all.into_iter().collect::<Result<(), _>>()?)
    }

    /// Newest first; all of them, whatever becomes of one.
    async fn put_back(&self, fault: &dyn Fault, noted: &[Noted]) -> Result<(), Failure> {
        let mut result = Ok(());
        for Noted { node, memo, .. } in noted.iter().rev() {
            match lift(fault, &self.site(node), memo).await {
                Ok(done) => self.watch.step(node, "lift", done).await,
                Err(error) => result = Err(Failure::Failed(format!("lift: {error}"))),
            }
        }
        result?;
        for Noted { node, memo, id } in noted {
            let seen = fault.observe_lifted(&self.site(node), memo, LIFT_DEADLINE).await;
            let seen = seen.map_err(|error| Failure::Failed(format!("lift: {error}")))?;
            self.watch.step(node, "lifted", seen).await;
            self.undo.close(*id)?;
        }
        Ok(())
    }

    /// The run is broken off: only what outlives the processes must be lifted, and soon.
    async fn hurry(&self, fault: &dyn Fault, noted: &[Noted]) {
        if fault.ends_with_processes() && self.on.ends_with_tester() {
            return;
        }
        for Noted { node, memo, id } in noted.iter().rev() {
            let site = self.site(node);
            let lifted = tokio::time::timeout(HURRIED_LIFT, fault.lift(&site, memo)).await;
            if let Ok(Ok(done)) = lifted {
                self.watch.step(node, "lift", done).await;
                // An entry that stays open is found by `heal`, which lifts again: no harm.
                let _stays_open = self.undo.close(*id);
            }
        }
    }
}

async fn lift(fault: &dyn Fault, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
    let mut tries_left = LIFT_TRIES;
    loop {
        tries_left -= 1;
        match fault.lift(site, memo).await {
            Err(_) if tries_left > 0 => tokio::time::sleep(LIFT_PAUSE).await,
            result => return result,
        }
    }
}

/// What became of one open entry of a journal.
#[derive(Debug)]
pub struct Healed {
    /// The entry.
    pub entry: Entry,
    /// What lifting did and what was seen afterwards, or why it did not work.
    pub result: Result<Evidence, FaultError>,
}

const GONE_WITH_THE_TESTER: &str = "gone_with_the_tester";

impl Healed {
    /// Nothing had to be done: it ended with the servers of its tester.
    #[must_use]
    pub fn is_gone_with_the_tester(&self) -> bool {
        self.result.as_ref().is_ok_and(|seen| seen.contains_key(GONE_WITH_THE_TESTER))
    }
}

/// Whose entries are healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// This process injected them; the servers are as it left them.
    ByUs,
    /// A tester that is dead: what ends with its servers ended with it, if these did.
    ByTheDead,
}

/// Undoes what a journal has open, newest first, and closes what was undone. Every entry is tried.
///
/// # Errors
/// When the journal cannot be read or written.
pub async fn heal(
    on: &dyn Deployment,
    undo: &Undo,
    left: Left,
    deadline: Duration,
) -> std::io::Result<Vec<Healed>> {
    let mut all = Vec::new();
    for entry in undo.open_entries()? {
        let gone = left == Left::ByTheDead && on.ends_with_tester();
        let nothing_left = || Ok(crate::facts([(GONE_WITH_THE_TESTER, true.into())]));
        let result = if gone && entry.r#do.build().ends_with_processes() {
            nothing_left()
        } else {
            match heal_one(on, &entry, deadline).await {
                // Its files are gone, and there is no server to be started again.
                Err(FaultError::NothingToDo { .. }) if gone => nothing_left(),
                result => result,
            }
        };
        if result.is_ok() {
            undo.journal().close(entry.id)?;
        }
        all.push(Healed { entry, result });
    }
    Ok(all)
}

async fn heal_one(on: &dyn Deployment, entry: &Entry, deadline: Duration) -> Result<Evidence, FaultError> {
    let (fault, before) = (entry.r#do.build(), View::default());
    let site = Site {
        on,
        node: &entry.node,
        nodes: &entry.nodes,
        before: &before,
        fault: &entry.fault,
        tie: entry.tie,
    };
    let mut seen = lift(&*fault, &site, &entry.memo).await?;
    seen.extend(fault.observe_lifted(&site, &entry.memo, deadline).await?);
    Ok(seen)
}
