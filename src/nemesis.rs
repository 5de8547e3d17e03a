//! Walks the plan: when the time or the moment of a fault has come, it resolves the target, takes the nodes as
//! soon as nothing is in the way, notes the undo, injects, observes, holds, lifts, observes again. It decides
//! nothing about times or kinds.

mod claims;
mod cues;
mod guard;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use faults::life::Ends;
use faults::life::{self, Failure, Healed, Left, Life, Undo, Watch};
use faults::{Deployment, Evidence, FaultError, Role, View};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::clock::Moment;
use crate::event::{Event, Events, Live};
use crate::plan::{PlannedFault, Trigger};
use crate::recording::FaultOutcome;
use claims::{Attempt, Claims, Held};
use cues::{Lookout, Signs};
use guard::Grip;

/// At the end of a run a node may have minutes of load to replay.
const SWEEP_DEADLINE: Duration = Duration::from_secs(30 * 60);
/// Between two looks of a fault that waits. What was seen within it counts for all that wait: together they ask
/// the servers no more often than one.
const POLL: Duration = Duration::from_millis(150);
const TOO_LATE: &str = "the run ended first";

/// Injects the planned faults into one deployment.
pub struct Nemesis {
    deployment: Arc<dyn Deployment>,
    events: Events,
    undo: Undo,
    claims: Claims,
    last_look: Mutex<Option<Look>>,
    start: Moment,
    ends: Ends,
}

/// The members as they were seen.
#[derive(Clone)]
struct Look {
    at: Moment,
    /// Faults that had ended when it began.
    ended: u64,
    view: View,
}

/// Why a fault was never injected.
type NotNow = (FaultOutcome, String);

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
        let (claims, last_look) = (Claims::default(), Mutex::default());
        Ok(Self { deployment, events, undo, claims, last_look, start, ends })
    }

    /// Runs all faults to their ends. Each has a task of its own, so one that holds for long does not
    /// delay the next; only the triggered faults of one rule follow each other. `live` is the load, second by
    /// second.
    pub async fn run(self, faults: Vec<PlannedFault>, live: watch::Receiver<Live>) {
        let nemesis = Arc::new(self);
        let mut tasks = JoinSet::new();
        let (sender, signs) = watch::channel(Signs::default());
        let mut cues = BTreeSet::new();
        let mut triggered = BTreeMap::<usize, Vec<(usize, Trigger, PlannedFault)>>::new();
        for (place, fault) in faults.into_iter().enumerate() {
            if let Some(trigger) = fault.when {
                cues.insert(trigger.cue);
                triggered.entry(fault.rule).or_default().push((place, trigger, fault));
                continue;
            }
            let nemesis = Arc::clone(&nemesis);
            tasks.spawn(async move { nemesis.timed(place, &fault).await });
        }
        for faults in triggered.into_values() {
            let (nemesis, signs) = (Arc::clone(&nemesis), signs.clone());
            tasks.spawn(async move { nemesis.triggered(&faults, signs).await });
        }
        drop(signs);
        let lookout = async {
            if !cues.is_empty() {
                let clock = nemesis.events.clock();
                let lookout = Lookout { clock, deployment: &*nemesis.deployment, cues, live };
                lookout.run(|| nemesis.claims.any(), sender).await;
            }
        };
        let all = async {
            while let Some(ended) = tasks.join_next().await {
                if let Err(panic) = ended {
                    let what = format!("a fault's task panicked: {panic}");
                    nemesis.events.send(Event::Failure { what }).await;
                }
            }
        };
        tokio::join!(lookout, all);
        nemesis.sweep().await;
    }

    /// A fault with a time.
    async fn timed(&self, place: usize, planned: &PlannedFault) {
        if !self.reached(self.start + planned.earliest()).await {
            return self.ended(planned, FaultOutcome::Skipped, Some(TOO_LATE.into())).await;
        }
        self.one(place, planned).await;
    }

    /// The faults of one rule that wait for their moment, one after the other. A moment that lasts triggers one of
    /// them only: before the next, it must be over and come again.
    async fn triggered(&self, faults: &[(usize, Trigger, PlannedFault)], mut signs: watch::Receiver<Signs>) {
        let mut not_before = self.start;
        for (number, (place, trigger, planned)) in faults.iter().enumerate() {
            let every = Duration::from_secs_f64(trigger.every_s);
            let fits = |signs: &Signs| signs.fit(trigger.cue, &planned.r#do.target(), planned.tie);
            let moment = async {
                if !self.reached(not_before.max(self.start + planned.earliest())).await {
                    return false;
                }
                // What was seen before is not the present.
                signs.mark_unchanged();
                let over = number == 0 || seen(&mut signs, |signs| !fits(signs)).await;
                over && seen(&mut signs, fits).await
            };
            let came = tokio::select! {
                biased;
                () = self.ends.measured.cancelled() => false,
                came = moment => came,
            };
            if !came {
                let why = format!("{TOO_LATE}: no {} came in time", trigger.cue);
                self.ended(planned, FaultOutcome::Skipped, Some(why)).await;
                continue;
            }
            not_before = self.events.clock().now() + every;
            self.one(*place, planned).await;
        }
    }

    /// Waits for a time; `false`: the measured phase ended before.
    async fn reached(&self, at: Moment) -> bool {
        let clock = self.events.clock();
        tokio::select! {
            biased;
            () = self.ends.measured.cancelled() => false,
            () = clock.sleep_until(at) => true,
        }
    }

    /// A fault whose time has come.
    async fn one(&self, place: usize, planned: &PlannedFault) {
        let (nodes, before, held) = match self.claim(place, planned).await {
            Ok(claimed) => claimed,
            Err((outcome, why)) => return self.ended(planned, outcome, Some(why)).await,
        };
        let life = Life {
            on: &*self.deployment,
            undo: &self.undo,
            watch: &Reporter { nemesis: self, fault: &planned.id, before: &before },
            ends: &self.ends,
            id: &planned.id,
            spec: &planned.r#do,
            tie: planned.tie,
            nodes: &nodes,
            before: &before,
        };
        let result = life.run().await;
        drop(held);
        let (outcome, reason) = match result {
            Ok(()) => (FaultOutcome::Effective, None),
            Err(Failure::NotEffective(why)) => (FaultOutcome::NotEffective, Some(why)),
            Err(Failure::Skipped(why)) => (FaultOutcome::Skipped, Some(why)),
            Err(Failure::Failed(why)) => (FaultOutcome::Failed, Some(why)),
        };
        self.ended(planned, outcome, reason).await;
    }

    /// Takes the nodes that the target means, as soon as nothing is in the way.
    async fn claim(
        &self,
        place: usize,
        planned: &PlannedFault,
    ) -> Result<(Vec<String>, View, Held<'_>), NotNow> {
        let (clock, mut waits) = (self.events.clock(), false);
        let until = clock.now() + planned.wait();
        let taken = loop {
            let Some(look) = self.look().await else {
                break Err((FaultOutcome::Skipped, TOO_LATE.into()));
            };
            let (outcome, why) = match self.attempt(place, planned, look) {
                Ok(Some(taken)) => break Ok(taken),
                Ok(None) => continue,
                Err(not_now) => not_now,
            };
            if clock.now() >= until {
                let waited = planned.wait_s;
                let why = if waits { format!("{why} (after waiting {waited} s)") } else { why };
                break Err((outcome, why));
            }
            if !waits {
                let (fault, reason) = (planned.id.clone(), why.clone());
                self.events.send(Event::FaultWaits { fault, reason }).await;
                waits = true;
            }
            if !self.reached((clock.now() + POLL).min(until)).await {
                break Err((FaultOutcome::Skipped, format!("{TOO_LATE}, while it waited: {why}")));
            }
        };
        if taken.is_err() {
            self.claims.leave(place);
        }
        taken
    }

    /// Tries to take the nodes now; `None`: it must look again first.
    fn attempt(
        &self,
        place: usize,
        planned: &PlannedFault,
        look: Look,
    ) -> Result<Option<(Vec<String>, View, Held<'_>)>, NotNow> {
        let fault = planned.r#do.build();
        let nodes = fault.target().resolve(&look.view, planned.tie);
        if nodes.is_empty() {
            // It keeps its place only while it wants certain nodes.
            self.claims.leave(place);
            return Err((FaultOutcome::NotEffective, FaultError::NoTarget(fault.target()).to_string()));
        }
        let grip = Grip::new(&planned.id, planned.r#do.kind(), &*fault, nodes.clone());
        match self.claims.take(place, grip.allowed(planned.majority), &look.view, look.ended) {
            Attempt::Taken(held) => {
                let around = look.view.around(&nodes);
                Ok(Some((nodes, around, held)))
            }
            Attempt::Stale => Ok(None),
            Attempt::Refused(why) => Err((FaultOutcome::Skipped, why)),
        }
    }

    /// The members as they are; `None`: the measured phase is over.
    async fn look(&self) -> Option<Look> {
        let clock = self.events.clock();
        let look = async {
            let mut last = self.last_look.lock().await;
            let fresh = |look: &Look| look.ended == self.claims.ended() && clock.now() < look.at + POLL;
            if let Some(look) = last.as_ref().filter(|look| fresh(look)) {
                return look.clone();
            }
            let ended = self.claims.ended();
            let view = self.deployment.view().await;
            last.insert(Look { at: clock.now(), ended, view }).clone()
        };
        tokio::select! {
            biased;
            () = self.ends.measured.cancelled() => None,
            look = look => Some(look),
        }
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

/// Waits until such signs are seen; `false`: nobody looks any more.
async fn seen(signs: &mut watch::Receiver<Signs>, fits: impl Fn(&Signs) -> bool) -> bool {
    loop {
        if signs.changed().await.is_err() {
            return false;
        }
        if fits(&signs.borrow_and_update()) {
            return true;
        }
    }
}

/// Turns the steps of one fault into events.
struct Reporter<'a> {
    nemesis: &'a Nemesis,
    fault: &'a str,
    before: &'a View,
}

#[async_trait]
impl Watch for Reporter<'_> {
    async fn injected(&self, nodes: &[String]) {
        let role = |node: &String| self.before.member(node).map_or(Role::Down, |member| member.role);
        let (fault, roles) = (self.fault.into(), nodes.iter().map(role).collect());
        self.nemesis.events.send(Event::FaultInjected { fault, nodes: nodes.to_vec(), roles }).await;
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
