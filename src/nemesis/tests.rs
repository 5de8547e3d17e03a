//! Whole plans against servers that are scripted: what waits, what strikes, and what is said of the rest.

use std::collections::BTreeMap;
use std::sync::Mutex as Lock;

use bson::{Document, doc};
use faults::{CommandError, Exit, Member};
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::clock::Clock;
use crate::event::Stamped;
use crate::plan::{Cue, Majority};
use crate::scenario::FaultSpec;

/// A deadlock would hang the tests; a loaded machine takes a few seconds.
const LONG: Duration = Duration::from_secs(60);

/// Three members whose processes end and start as they are told.
struct Scripted {
    running: Lock<BTreeMap<String, i32>>,
    leads: Lock<(&'static str, i64)>,
}

impl Scripted {
    fn new() -> Arc<Self> {
        let running = (1..=3).map(|n| (format!("node{n}"), n)).collect();
        Arc::new(Self { running: Lock::new(running), leads: Lock::new(("node1", 1)) })
    }

    /// Another leader in a new term.
    fn elect(&self, node: &'static str) {
        let mut leads = self.leads.lock().unwrap();
        *leads = (node, leads.1 + 1);
    }
}

#[async_trait]
impl Deployment for Scripted {
    async fn view(&self) -> View {
        let (running, (leader, term)) = (self.running.lock().unwrap(), *self.leads.lock().unwrap());
        let member = |n: u8| {
            let name = format!("node{n}");
            let role = match running.contains_key(&name) {
                false => Role::Down,
                true if name == leader => Role::Primary,
                true => Role::Secondary,
            };
            Member { term: (role != Role::Down).then_some(term), name, role, set: None }
        };
        View { members: (1..=3).map(member).collect() }
    }

    async fn command(
        &self,
        _node: &str,
        _database: &str,
        _body: &Document,
        _deadline: Duration,
    ) -> Result<Document, CommandError> {
        Ok(doc! { "ok": 1 })
    }

    async fn pid(&self, node: &str) -> Option<i32> {
        self.running.lock().unwrap().get(node).copied()
    }

    async fn signal(&self, node: &str, _signal: i32) -> Result<(), FaultError> {
        self.running.lock().unwrap().remove(node);
        Ok(())
    }

    async fn wait_exit(&self, _node: &str, _deadline: Duration) -> Result<Exit, FaultError> {
        Ok(Exit { code: None, signal: Some(9) })
    }

    async fn start(&self, node: &str) -> Result<i32, FaultError> {
        Ok(*self.running.lock().unwrap().entry(node.into()).or_insert(99))
    }

    async fn wait_ready(&self, _node: &str, _deadline: Duration) -> Result<(), FaultError> {
        Ok(())
    }

    fn ends_with_tester(&self) -> bool {
        true
    }

    fn address(&self, node: &str) -> Option<String> {
        Some(node.into())
    }
}

/// A run of some faults, as its events tell it.
struct Run {
    set: Arc<Scripted>,
    queue: mpsc::Receiver<Stamped>,
    told: Vec<Event>,
    ends: Ends,
    _dir: tempfile::TempDir,
    tasks: JoinSet<()>,
}

impl Run {
    fn of(faults: Vec<PlannedFault>) -> Self {
        let (set, dir, ends) = (Scripted::new(), tempfile::tempdir().unwrap(), Ends::default());
        let clock = Clock::start();
        let (events, queue) = Events::channel(clock);
        let deployment: Arc<dyn Deployment> = Arc::<Scripted>::clone(&set);
        let nemesis = Nemesis::new(deployment, events, dir.path(), clock.now(), ends.clone()).unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(nemesis.run(faults, watch::channel(Live::default()).1));
        Self { set, queue, told: Vec::new(), ends, _dir: dir, tasks }
    }

    /// Takes events up to and with the first one that fits.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> &Event {
        let next = async {
            while let Some(stamped) = self.queue.recv().await {
                let found = fits(&stamped.event);
                self.told.push(stamped.event);
                if found {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(LONG, next).await;
        assert_eq!(found, Ok(true), "{:#?}", self.told);
        self.told.last().unwrap()
    }

    /// Waits for the end of a fault.
    async fn end_of(&mut self, id: &str) -> (FaultOutcome, String) {
        match self.until(|event| matches!(event, Event::FaultEnded { fault, .. } if fault == id)).await {
            Event::FaultEnded { outcome, reason, .. } => (*outcome, reason.clone().unwrap_or_default()),
            _ => unreachable!("it was asked for an end"),
        }
    }

    /// Waits for the end of all, and returns everything that was told.
    async fn end(mut self) -> Vec<Event> {
        let all = async {
            while let Some(stamped) = self.queue.recv().await {
                self.told.push(stamped.event);
            }
        };
        tokio::time::timeout(LONG, all).await.expect("it hangs");
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.told
    }
}

/// A kill of one node, back after this many milliseconds, waiting this many seconds.
fn kill(id: &str, at_ms: u32, node: &str, back_ms: u32, wait_s: f64) -> PlannedFault {
    let parameters = json!({ "target": node, "restart_after": f64::from(back_ms) / 1e3 });
    PlannedFault {
        id: id.into(),
        rule: 0,
        at_s: Some(f64::from(at_ms) / 1e3),
        when: None,
        r#do: FaultSpec::new("kill", &parameters).unwrap(),
        tie: 0,
        wait_s,
        majority: Majority::Kept,
    }
}

/// The same, triggered by an election.
fn at_election(id: &str, node: &str) -> PlannedFault {
    let when = Some(Trigger { cue: Cue::Election, after_s: 0.0, every_s: 0.0 });
    PlannedFault { at_s: None, when, ..kill(id, 0, node, 1, 0.0) }
}

fn place(told: &[Event], fits: impl Fn(&Event) -> bool) -> usize {
    told.iter().position(fits).unwrap_or_else(|| panic!("{told:#?}"))
}

fn injected<'a>(id: &'a str) -> impl Fn(&Event) -> bool + 'a {
    move |event| matches!(event, Event::FaultInjected { fault, .. } if fault == id)
}

fn lifted<'a>(id: &'a str) -> impl Fn(&Event) -> bool + 'a {
    move |event| matches!(event, Event::FaultLifted { fault } if fault == id)
}

fn effective(told: &[Event]) -> usize {
    let fits = |e: &&Event| matches!(e, Event::FaultEnded { outcome: FaultOutcome::Effective, .. });
    told.iter().filter(fits).count()
}

fn waits(told: &[Event]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for event in told {
        if let Event::FaultWaits { fault, reason } = event {
            found.push((fault.as_str(), reason.as_str()));
        }
    }
    found
}

#[tokio::test]
async fn a_node_is_hit_by_one_fault_after_the_other() {
    let told =
        Run::of(vec![kill("f1", 10, "node2", 400, 60.0), kill("f2", 50, "node2", 1, 60.0)]).end().await;
    assert_eq!(effective(&told), 2, "{told:#?}");
    assert_eq!(waits(&told), [("f2", "node2 is still held by f1 (kill)")]);
    assert!(place(&told, lifted("f1")) < place(&told, injected("f2")), "{told:#?}");
    let Event::FaultInjected { nodes, roles, .. } = &told[place(&told, injected("f1"))] else { panic!() };
    assert_eq!((nodes.as_slice(), roles.as_slice()), (&["node2".to_owned()][..], &[Role::Secondary][..]));
}

#[tokio::test]
async fn a_majority_is_left_unless_it_may_be_lost() {
    let plan = || vec![kill("f1", 10, "node2", 400, 60.0), kill("f2", 50, "node1", 1, 60.0)];
    let told = Run::of(plan()).end().await;
    assert_eq!(effective(&told), 2, "{told:#?}");
    let why = "no majority would be left without node1: node2 is still held by f1 (kill)";
    assert_eq!(waits(&told), [("f2", why)]);
    assert!(place(&told, lifted("f1")) < place(&told, injected("f2")), "{told:#?}");
    let mut both = plan();
    both[1].majority = Majority::MayBeLost;
    let told = Run::of(both).end().await;
    assert_eq!((effective(&told), waits(&told).len()), (2, 0), "{told:#?}");
}

#[tokio::test]
async fn who_does_not_want_to_wait_is_skipped_with_what_was_in_the_way() {
    let hour_ms = 3_600_000;
    let mut run = Run::of(vec![
        kill("f1", 10, "node2", hour_ms, 0.0),
        kill("f2", 50, "node2", 1, 0.0),
        kill("f3", 60, "node1", 1, 0.2),
        kill("f4", 70, "node3", 1, 3_600.0),
        kill("f5", hour_ms, "node3", 1, 0.0),
    ]);
    assert_eq!(run.end_of("f2").await, (FaultOutcome::Skipped, "node2 is still held by f1 (kill)".into()));
    let (outcome, why) = run.end_of("f3").await;
    assert_eq!(outcome, FaultOutcome::Skipped);
    assert!(why.ends_with("node2 is still held by f1 (kill) (after waiting 0.2 s)"), "{why}");
    if waits(&run.told).iter().all(|(fault, _)| *fault != "f4") {
        run.until(|event| matches!(event, Event::FaultWaits { fault, .. } if fault == "f4")).await;
    }
    run.ends.measured.cancel();
    let told = run.end().await;
    let ended = |id: &str| {
        let at = place(&told, |event| matches!(event, Event::FaultEnded { fault, .. } if fault == id));
        let Event::FaultEnded { outcome, reason, .. } = &told[at] else { panic!() };
        (*outcome, reason.clone().unwrap_or_default())
    };
    assert_eq!(ended("f1"), (FaultOutcome::Effective, String::new()));
    let (outcome, why) = ended("f4");
    assert_eq!(outcome, FaultOutcome::Skipped);
    assert!(why.starts_with("the run ended first, while it waited: no majority would be left"), "{why}");
    assert_eq!(ended("f5"), (FaultOutcome::Skipped, "the run ended first".into()));
}

#[tokio::test]
async fn a_target_that_nobody_fits_is_waited_for() {
    let fault = |wait_s| PlannedFault {
        r#do: FaultSpec::new("kill", &json!({ "restart_after": 0.001 })).unwrap(),
        ..kill("f1", 50, "node1", 1, wait_s)
    };
    let mut run = Run::of(vec![fault(60.0)]);
    run.set.elect("nobody");
    let waits = |event: &Event| matches!(event, Event::FaultWaits { reason, .. } if reason.contains("no node is primary"));
    run.until(waits).await;
    run.set.elect("node3");
    let told = run.end().await;
    assert_eq!(effective(&told), 1, "{told:#?}");
    let mut run = Run::of(vec![fault(0.0)]);
    run.set.elect("nobody");
    assert_eq!(run.end_of("f1").await, (FaultOutcome::NotEffective, "no node is primary right now".into()));
}

#[tokio::test]
async fn an_election_triggers_one_fault_of_a_rule() {
    let mut run = Run::of(vec![at_election("f1", "node3"), at_election("f2", "node3")]);
    run.set.elect("nobody");
    assert_eq!(run.end_of("f1").await.0, FaultOutcome::Effective);
    // The election goes on for many a look: the second fault of the rule waits for the next one.
    let second = tokio::time::timeout(Duration::from_millis(500), run.until(injected("f2"))).await;
    assert!(second.is_err(), "{second:?}");
    let clock = Clock::start();
    loop {
        run.set.elect("node1");
        // A new term counts as an election for a second.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        run.set.elect("nobody");
        if tokio::time::timeout(Duration::from_secs(1), run.until(injected("f2"))).await.is_ok() {
            break;
        }
        assert!(clock.now() < LONG, "{:#?}", run.told);
    }
    assert_eq!(effective(&run.end().await), 2);
}

#[tokio::test]
async fn a_moment_that_never_comes_is_said() {
    let mut run = Run::of(vec![at_election("f1", "node3"), at_election("f2", "node3")]);
    run.ends.measured.cancel();
    let why = "the run ended first: no election came in time";
    for id in ["f1", "f2"] {
        assert_eq!(run.end_of(id).await, (FaultOutcome::Skipped, why.into()));
    }
    run.end().await;
}
