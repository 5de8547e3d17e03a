//! A cluster on which a test injects one fault after the other, as a run would, and looks for itself meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bson::Document;
use faults::life::{Ends, Failure, Life, Undo, Watch};
use faults::{Deployment, Evidence, Spec, View};
use mongosoak::clock::Clock;
use mongosoak::cluster::{Lifetime, ManagedCluster, Routing, Start, binary};
use mongosoak::event::{Event, Events};
use mongosoak::scenario::Managed;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::place::Place;

/// Servers on a loaded machine take their time.
pub const LONG: Duration = Duration::from_secs(120);

pub struct Set {
    pub cluster: Arc<ManagedCluster>,
    pub place: Place,
    pub undo: Arc<Undo>,
    seen: Arc<Mutex<Vec<Event>>>,
    _drain: JoinSet<()>,
}

impl Set {
    /// A replica set of three with an election timeout of 5 s, changed by `change`.
    pub async fn start(change: impl FnOnce(&mut Managed)) -> Self {
        Self::begin(change, false).await
    }

    /// A sharded cluster, with the router that a run would take.
    pub async fn start_routed(change: impl FnOnce(&mut Managed)) -> Self {
        Self::begin(change, true).await
    }

    async fn begin(change: impl FnOnce(&mut Managed), routed: bool) -> Self {
        let mut settings = Managed { election_timeout: Duration::from_secs(5), ..Managed::default() };
        change(&mut settings);
        let place = Place::new();
        let found = binary::find(settings.mongod.as_deref()).await.unwrap();
        let routing = if routed {
            let program = env!("CARGO_BIN_EXE_mongosoak").into();
            Some(Routing::find(None, &found, program).await.unwrap())
        } else {
            None
        };
        let (events, mut queue) = Events::channel(Clock::start());
        let seen = Arc::<Mutex<Vec<Event>>>::default();
        let mut drain = JoinSet::new();
        let book = Arc::clone(&seen);
        drain.spawn(async move {
            while let Some(stamped) = queue.recv().await {
                book.lock().unwrap().push(stamped.event);
            }
        });
        let dir = place.path().join("nodes");
        let start = Start {
            settings: &settings,
            binary: &found,
            routing: routing.as_ref(),
            dir,
            lifetime: Lifetime::WithTester,
        };
        let cluster = ManagedCluster::start(&start, &events, &CancellationToken::new()).await.unwrap();
        let undo = Arc::new(Undo::open(&place.path().join("undo.jsonl")).unwrap());
        Self { cluster: Arc::new(cluster), place, undo, seen, _drain: drain }
    }

    /// Injects a fault and waits until its effect was seen; it then holds until [`Held::lift`].
    pub async fn inject(&self, kind: &str, parameters: Value) -> Result<Held, Failure> {
        let spec = Spec::new(kind, &parameters).unwrap();
        let before = self.healthy().await;
        let nodes = spec.target().resolve(&before, 0);
        assert!(!nodes.is_empty(), "nobody is {}: {before:?}", spec.target());
        let before = before.around(&nodes);
        let book = Arc::<Book>::default();
        let ends = Ends::default();
        let mut task = JoinSet::new();
        let (on, undo) = (Arc::clone(&self.cluster), Arc::clone(&self.undo));
        let (watch, until, hit, view) = (Arc::clone(&book), ends.clone(), nodes.clone(), before.clone());
        task.spawn(async move {
            let life = Life {
                on: &*on,
                undo: &undo,
                watch: &*watch,
                ends: &until,
                id: "f1",
                spec: &spec,
                tie: 0,
                nodes: &hit,
                before: &view,
            };
            life.run().await
        });
        tokio::select! {
            () = book.effective.notified() => Ok(Held { nodes, before, book, ends, task }),
            Some(ended) = task.join_next() => match ended.unwrap() {
                Ok(()) => Ok(Held { nodes, before, book, ends, task }),
                Err(failure) => Err(failure),
            },
        }
    }

    /// Injects, waits for its own end, and returns what was seen.
    pub async fn whole(&self, kind: &str, parameters: Value) -> Result<Arc<Book>, Failure> {
        let held = self.inject(kind, parameters).await?;
        held.end().await
    }

    /// Waits until all members are well, every set has a primary, and the router answers; returns that.
    pub async fn healthy(&self) -> View {
        let clock = Clock::start();
        loop {
            let view = self.cluster.view().await;
            if view.members.iter().all(faults::Member::is_well) && view.takes_writes() {
                return view;
            }
            assert!(clock.now() < LONG, "not healthy: {view:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks a node directly.
    pub async fn ask(&self, node: &str, command: Document) -> Document {
        self.cluster.command(node, "admin", &command, Duration::from_secs(10)).await.unwrap()
    }

    /// Ends of processes that nobody planned.
    pub fn unexpected_ends(&self) -> Vec<Event> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|e| matches!(e, Event::NodeExited { expected: false, .. })).cloned().collect()
    }

    /// A test caused an end itself.
    pub fn forget_ends(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// Nothing is left: the journal has no open entry, and no process ended that should not have.
    pub async fn assert_clean(&self) {
        self.healthy().await;
        assert!(self.undo.open_entries().unwrap().is_empty(), "{:?}", self.undo.open_entries());
        assert!(self.unexpected_ends().is_empty(), "{:?}", self.unexpected_ends());
    }

    /// Stops the servers.
    pub async fn stop(self) {
        self.cluster.stop_all(Duration::ZERO).await;
    }
}

/// A fault that holds.
pub struct Held {
    pub nodes: Vec<String>,
    pub before: View,
    pub book: Arc<Book>,
    ends: Ends,
    task: JoinSet<Result<(), Failure>>,
}

impl Held {
    /// Lifts it, and returns what was seen.
    pub async fn lift(self) -> Result<Arc<Book>, Failure> {
        self.ends.measured.cancel();
        self.end().await
    }

    /// Waits for its own end.
    pub async fn end(mut self) -> Result<Arc<Book>, Failure> {
        if let Some(ended) = self.task.join_next().await {
            ended.unwrap()?;
        }
        Ok(self.book)
    }
}

/// What was seen of a fault.
#[derive(Default)]
pub struct Book {
    steps: Mutex<Vec<(String, &'static str, Evidence)>>,
    effective: Notify,
}

impl Book {
    /// Evidence of one step on one node.
    pub fn evidence(&self, node: &str, step: &str) -> Evidence {
        let steps = self.steps.lock().unwrap();
        let found = steps.iter().find(|(n, s, _)| n == node && *s == step);
        found.unwrap_or_else(|| panic!("no {step} of {node} in {steps:?}")).2.clone()
    }
}

#[async_trait]
impl Watch for Book {
    async fn injected(&self, _nodes: &[String]) {}

    async fn effective(&self) {
        self.effective.notify_one();
    }

    async fn lifted(&self) {}

    async fn step(&self, node: &str, step: &'static str, evidence: Evidence) {
        self.steps.lock().unwrap().push((node.into(), step, evidence));
    }
}
