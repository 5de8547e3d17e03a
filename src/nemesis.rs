//! Walks the plan: resolves each target when its time has come, notes the undo, injects, observes, holds,
//! lifts, observes again. It decides nothing about times or kinds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
pub use faults::life::Ends;
use faults::life::{self, Failure, Healed, Left, Life, Undo, Watch};
use faults::{Deployment, Evidence, FaultError, View};
use tokio::task::JoinSet;

use crate::clock::Moment;
use crate::event::{Event, Events};
use crate::plan::PlannedFault;
use crate::recording::FaultOutcome;

/// At the end of a run a node may have minutes of load to replay.
const SWEEP_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Injects the planned faults into one deployment.
pub struct Nemesis {
    deployment: Arc<dyn Deployment>,
    events: Events,
    undo: Undo,
    /// Nodes that a fault holds right now, with its id.
    held: Mutex<BTreeSet<String>>,
    start: Moment,
    ends: Ends,
}

impl Nemesis {
    /// A nemesis whose undo journal is `undo.jsonl` in the run directory; `start` is the start of the
    /// measured phase.
    ///
    /// # Errors
    /// When the journal cannot be made.
    pub fn new(
        deployment: Arc<dyn Deployment>,
        events: Events,
        dir: &Path,
        start: Moment,
        ends: Ends,
    ) -> std::io::Result<Self> {
        let undo = Undo::open(&dir.join("undo.jsonl"))?;
        Ok(Self { deployment, events, undo, held: Mutex::default(), start, ends })
    }

    /// Runs all faults to their ends. Each has a task of its own, so one that holds for long does not
    /// delay the next.
    pub async fn run(self, faults: Vec<PlannedFault>) {
        let nemesis = Arc::new(self);
        let mut tasks = JoinSet::new();
        for fault in faults {
            let nemesis = Arc::clone(&nemesis);
            tasks.spawn(async move { nemesis.one(&fault).await });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(panic) = ended {
                let what = format!("a fault's task panicked: {panic}");
                nemesis.events.send(Event::Failure { what }).await;
            }
        }
        nemesis.sweep().await;
    }

    async fn one(&self, planned: &PlannedFault) {
        let (clock, due) = (self.events.clock(), self.start + planned.at());
        tokio::select! {
            biased;
            () = self.ends.measured.cancelled() => {
                return self.ended(planned, FaultOutcome::Skipped, Some("the run ended first".into())).await;
            }
            () = clock.sleep_until(due) => {}
        }
        let before = self.deployment.view().await;
        let nodes = match self.claim(planned, &before) {
            Ok(nodes) => nodes,
            Err(why) => return self.ended(planned, FaultOutcome::NotEffective, Some(why)).await,
        };
        let life = Life {
            on: &*self.deployment,
            undo: &self.undo,
            watch: &Reporter { nemesis: self, fault: &planned.id },
            ends: &self.ends,
            id: &planned.id,
            spec: &planned.r#do,
            tie: planned.tie,
            nodes: &nodes,
            before: &before,
        };
        let result = life.run().await;
        self.release(&nodes);
        let (outcome, reason) = match result {
            Ok(()) => (FaultOutcome::Effective, None),
            Err(Failure::NotEffective(why)) => (FaultOutcome::NotEffective, Some(why)),
            Err(Failure::Skipped(why)) => (FaultOutcome::Skipped, Some(why)),
            Err(Failure::Failed(why)) => (FaultOutcome::Failed, Some(why)),
        };
        self.ended(planned, outcome, reason).await;
    }

    /// The nodes that the target means now; none of them may be held by another fault.
    fn claim(&self, planned: &PlannedFault, view: &View) -> Result<Vec<String>, String> {
        let target = planned.r#do.target();
        let nodes = target.resolve(view, planned.tie);
        if nodes.is_empty() {
            return Err(FaultError::NoTarget(target.clone()).to_string());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(busy) = nodes.iter().find(|n| held.contains(*n)) {
            return Err(format!("{busy} is still held by an earlier fault"));
        }
        held.extend(nodes.iter().cloned());
        Ok(nodes)
    }

    fn release(&self, nodes: &[String]) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|node| !nodes.contains(node));
    }

    /// What a lift that failed has left, once more, at the end.
    async fn sweep(&self) {
        if self.ends.run.is_cancelled() {
            return;
        }
        let healed = match life::heal(&*self.deployment, &self.undo, Left::ByUs, SWEEP_DEADLINE).await {
            Ok(healed) => healed,
            Err(error) => {
                let what = format!("read the undo journal to heal what is left: {error}");
                self.events.send(Event::Failure { what }).await;
                return;
            }
        };
        for Healed { entry, result } in healed {
            let (id, kind, node) = (entry.fault, entry.r#do.kind(), entry.node);
            let text = match result {
                Ok(_) => format!("{id}: {kind} of {node} was lifted at the end of the run only"),
                Err(error) => format!("{id}: {kind} of {node} could not be lifted, see `heal`: {error}"),
            };
            self.events.send(Event::Note { text }).await;
        }
    }

    async fn ended(&self, planned: &PlannedFault, outcome: FaultOutcome, reason: Option<String>) {
        self.events.send(Event::FaultEnded { fault: planned.id.clone(), outcome, reason }).await;
    }
}

/// Turns the steps of one fault into events.
struct Reporter<'a> {
    nemesis: &'a Nemesis,
    fault: &'a str,
}

#[async_trait]
impl Watch for Reporter<'_> {
    async fn injected(&self, nodes: &[String]) {
        let fault = self.fault.into();
        self.nemesis.events.send(Event::FaultInjected { fault, nodes: nodes.to_vec() }).await;
    }

    async fn effective(&self) {
        self.nemesis.events.send(Event::FaultEffective { fault: self.fault.into() }).await;
    }

    async fn lifted(&self) {
        self.nemesis.events.send(Event::FaultLifted { fault: self.fault.into() }).await;
    }

    async fn step(&self, node: &str, step: &'static str, evidence: Evidence) {
        let (fault, node, step) = (self.fault.into(), node.into(), step.into());
        self.nemesis.events.send(Event::FaultStep { fault, node, step, evidence }).await;
    }
}
