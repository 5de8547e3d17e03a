//! Walks the plan: resolves each target when its time has come, notes the undo, injects, observes, holds,
//! lifts, observes again. It decides nothing about times or kinds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use faults::undo::Journal;
use faults::{Deployment, Evidence, Fault, FaultError, View};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::event::{Event, Events};
use crate::plan::PlannedFault;
use crate::recording::FaultOutcome;

/// A clean shutdown of a primary waits for its successor; a kill is seen at once.
const EFFECT_DEADLINE: Duration = Duration::from_secs(60);
/// A restart replays the journal and the oplog: minutes after minutes of load.
const LIFT_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// When the nemesis has to stop.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The measured phase is over: inject nothing more, lift what holds.
    pub measured: CancellationToken,
    /// The run is being broken off: lift nothing, the processes are stopped anyway.
    pub run: CancellationToken,
}

/// Injects the planned faults into one deployment.
pub struct Nemesis {
    deployment: Arc<dyn Deployment>,
    events: Events,
    journal: Mutex<Journal>,
    /// Nodes that a fault holds right now, with its id.
    held: Mutex<BTreeSet<String>>,
    start: Moment,
    ends: Ends,
}

/// How a fault went, short of lifting it.
enum Failure {
    NotEffective(String),
    Failed(String),
}

impl From<FaultError> for Failure {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Failed { .. } => Self::Failed(error.to_string()),
            _ => Self::NotEffective(error.to_string()),
        }
    }
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
        let journal = Mutex::new(Journal::open(&dir.join("undo.jsonl"))?);
        Ok(Self { deployment, events, journal, held: Mutex::default(), start, ends })
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
        let fault = planned.r#do.build();
        let before = self.deployment.view().await;
        let nodes = match self.claim(planned, &before) {
            Ok(nodes) => nodes,
            Err(why) => return self.ended(planned, FaultOutcome::NotEffective, Some(why)).await,
        };
        let result = self.on_nodes(planned, &*fault, &nodes, &before).await;
        self.release(&nodes);
        match result {
            Ok(()) => self.ended(planned, FaultOutcome::Effective, None).await,
            Err(Failure::NotEffective(why)) => {
                self.ended(planned, FaultOutcome::NotEffective, Some(why)).await;
            }
            Err(Failure::Failed(why)) => self.ended(planned, FaultOutcome::Failed, Some(why)).await,
        }
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

    async fn on_nodes(
        &self,
        planned: &PlannedFault,
        fault: &dyn Fault,
        nodes: &[String],
        before: &View,
    ) -> Result<(), Failure> {
        let mut noted = Vec::new();
        let effect = tokio::select! {
            biased;
            () = self.ends.run.cancelled() => Err(Failure::NotEffective("the run was broken off".into())),
            effect = self.bring_about(planned, fault, nodes, before, &mut noted) => effect,
        };
        if effect.is_ok() {
            self.events.send(Event::FaultEffective { fault: planned.id.clone() }).await;
            tokio::select! {
                () = tokio::time::sleep(fault.hold()) => {}
                () = self.ends.measured.cancelled() => {}
            }
        }
        // Also after a failure: what was noted may have happened.
        let lifted = tokio::select! {
            biased;
            () = self.ends.run.cancelled() => return effect,
            lifted = self.put_back(planned, fault, nodes, &noted) => lifted,
        };
        if effect.is_ok() && lifted.is_ok() {
            self.events.send(Event::FaultLifted { fault: planned.id.clone() }).await;
        }
        effect.and(lifted)
    }

    /// Notes, injects and observes on every node; what was noted so far is in `noted` also on failure.
    async fn bring_about(
        &self,
        planned: &PlannedFault,
        fault: &dyn Fault,
        nodes: &[String],
        before: &View,
        noted: &mut Vec<u64>,
    ) -> Result<(), Failure> {
        for node in nodes {
            noted.push(self.note(&planned.id, fault, node)?);
        }
        let id = planned.id.clone();
        self.events.send(Event::FaultInjected { fault: id, nodes: nodes.to_vec() }).await;
        for node in nodes {
            let done = fault.inject(&*self.deployment, node).await?;
            self.step(planned, node, "inject", done).await;
        }
        for node in nodes {
            let seen = fault.observe_effect(&*self.deployment, node, before, EFFECT_DEADLINE).await?;
            self.step(planned, node, "effect", seen).await;
        }
        Ok(())
    }

    async fn put_back(
        &self,
        planned: &PlannedFault,
        fault: &dyn Fault,
        nodes: &[String],
        noted: &[u64],
    ) -> Result<(), Failure> {
        for node in nodes.iter().take(noted.len()).rev() {
            let done = fault.lift(&*self.deployment, node).await?;
            self.step(planned, node, "lift", done).await;
        }
        for (node, id) in nodes.iter().zip(noted) {
            let seen = fault.observe_lifted(&*self.deployment, node, LIFT_DEADLINE).await?;
            self.step(planned, node, "lifted", seen).await;
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal.close(*id).map_err(|e| Failure::Failed(format!("write the undo journal: {e}")))?;
        }
        Ok(())
    }

    fn note(&self, id: &str, fault: &dyn Fault, node: &str) -> Result<u64, Failure> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = journal.note(id, &fault.undo(node));
        noted.map_err(|e| Failure::Failed(format!("write the undo journal, so nothing was injected: {e}")))
    }

    async fn step(&self, planned: &PlannedFault, node: &str, step: &str, evidence: Evidence) {
        let (fault, node, step) = (planned.id.clone(), node.into(), step.into());
        self.events.send(Event::FaultStep { fault, node, step, evidence }).await;
    }

    async fn ended(&self, planned: &PlannedFault, outcome: FaultOutcome, reason: Option<String>) {
        self.events.send(Event::FaultEnded { fault: planned.id.clone(), outcome, reason }).await;
    }
}
