//! Faults of processes against a deployment that is only a table.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bson::Document;
use serde_json::json;

use crate::{
    CommandError, Deployment, Exit, Fault, FaultError, Member, Memo, NodeTarget, Role, Site, Spec, View,
    catalog,
};

/// Two nodes; `stubborn`: signals change nothing.
struct Table {
    /// Process ids; `None`: does not run.
    running: Mutex<[Option<i32>; 2]>,
    stubborn: bool,
}

impl Table {
    fn new() -> Self {
        Self { running: Mutex::new([Some(100), Some(200)]), stubborn: false }
    }

    fn index(node: &str) -> usize {
        usize::from(node == "node2")
    }
}

#[async_trait]
impl Deployment for Table {
    async fn view(&self) -> View {
        let member = |name: &str, role| Member { name: name.into(), role, term: Some(3), set: None };
        View { members: vec![member("node1", Role::Primary), member("node2", Role::Secondary)] }
    }

    async fn command(
        &self,
        _node: &str,
        _database: &str,
        _body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        Err(CommandError::Timeout(deadline))
    }

    async fn pid(&self, node: &str) -> Option<i32> {
        self.running.lock().unwrap()[Self::index(node)]
    }

    async fn signal(&self, node: &str, _signal: i32) -> Result<(), FaultError> {
        if !self.stubborn {
            self.running.lock().unwrap()[Self::index(node)] = None;
        }
        Ok(())
    }

    async fn wait_exit(&self, node: &str, deadline: Duration) -> Result<Exit, FaultError> {
        let running = self.running.lock().unwrap()[Self::index(node)];
        if running.is_some() {
            tokio::time::sleep(deadline.min(Duration::from_millis(200))).await;
            let (seconds, what) = (deadline.as_secs_f64(), "the end of its process".into());
            return Err(FaultError::NoEffect { node: node.into(), seconds, what });
        }
        Ok(Exit { code: None, signal: Some(9) })
    }

    async fn start(&self, node: &str) -> Result<i32, FaultError> {
        // Does nothing when it runs.
        Ok(*self.running.lock().unwrap()[Self::index(node)].get_or_insert(101))
    }

    async fn wait_ready(&self, _node: &str, _deadline: Duration) -> Result<(), FaultError> {
        Ok(())
    }

    fn ends_with_tester(&self) -> bool {
        true
    }

    fn address(&self, _node: &str) -> Option<String> {
        None
    }
}

fn spec(kind: &str) -> Spec {
    Spec::new(kind, &json!({ "target": "primary", "restart_after": 1.0 })).unwrap()
}

fn site<'a>(on: &'a Table, node: &'a str, before: &'a View) -> Site<'a> {
    Site { on, node, nodes: &[], before, fault: "f1", tie: 0 }
}

async fn inject(fault: &dyn Fault, site: &Site<'_>) -> Result<Memo, FaultError> {
    let memo = fault.prepare(site).await?;
    fault.inject(site, &memo).await?;
    Ok(memo)
}

#[tokio::test]
async fn a_kill_is_proven_by_the_end_of_the_process_and_undone_by_a_restart() {
    let (table, fault) = (Table::new(), spec("kill").build());
    let before = table.view().await;
    let site = site(&table, "node1", &before);
    let memo = inject(&*fault, &site).await.unwrap();
    assert_eq!(memo["pid"], 100);
    let seen = fault.observe_effect(&site, &memo, Duration::ZERO).await.unwrap();
    assert_eq!((&seen["exit_signal"], &seen["role_before"]), (&json!(9), &json!("primary")));
    fault.lift(&site, &memo).await.unwrap();
    fault.lift(&site, &memo).await.unwrap();
    let back = fault.observe_lifted(&site, &memo, Duration::ZERO).await.unwrap();
    assert_eq!(back["answers"], json!(true));
    assert_eq!(table.pid("node1").await, Some(101));
}

#[tokio::test]
async fn a_dead_target_and_a_signal_without_effect_are_not_effective() {
    let (table, fault) = (Table::new(), spec("kill").build());
    let before = table.view().await;
    table.signal("node1", 9).await.unwrap();
    let error = fault.prepare(&site(&table, "node1", &before)).await.unwrap_err();
    assert!(matches!(error, FaultError::NothingToDo { .. }), "{error}");
    let stubborn = Table { stubborn: true, ..Table::new() };
    let site = site(&stubborn, "node2", &before);
    let memo = inject(&*fault, &site).await.unwrap();
    let error = fault.observe_effect(&site, &memo, Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("no effect seen on node2"), "{error}");
}

#[tokio::test]
async fn a_stop_has_taken_effect_when_the_node_is_not_what_it_was() {
    // Still running, as a primary that waits for its successor is; but no primary any more.
    let slow = Table { stubborn: true, ..Table::new() };
    let fault = spec("stop").build();
    let mut before = slow.view().await;
    before.members[1].role = Role::Primary;
    let site = site(&slow, "node2", &before);
    let memo = inject(&*fault, &site).await.unwrap();
    let seen = fault.observe_effect(&site, &memo, Duration::from_secs(5)).await.unwrap();
    assert_eq!((&seen["role_before"], &seen["role_now"]), (&json!("primary"), &json!("secondary")));
    let error = fault.lift(&site, &memo).await.unwrap_err();
    assert!(matches!(error, FaultError::NoEffect { .. }), "lifting waits for its end: {error}");
}

#[tokio::test]
async fn a_process_that_died_in_its_pause_is_gone_and_its_successor_is_left_alone() {
    let (table, fault) = (Table::new(), Spec::new("pause", &json!({})).unwrap().build());
    let before = table.view().await;
    let site = site(&table, "node1", &before);
    let memo = fault.prepare(&site).await.unwrap();
    *table.running.lock().unwrap() = [Some(555), None];
    let lifted = fault.lift(&site, &memo).await.unwrap();
    assert_eq!(lifted["target_gone"], true);
    assert_eq!(table.pid("node1").await, Some(555), "another process got the signal");
}

#[tokio::test]
async fn another_process_with_the_same_number_is_left_alone_after_a_pause() {
    let own = i32::try_from(std::process::id()).unwrap();
    let (table, fault) = (Table::new(), Spec::new("pause", &json!({})).unwrap().build());
    *table.running.lock().unwrap() = [Some(own), None];
    let before = table.view().await;
    let site = site(&table, "node1", &before);
    let mut memo = fault.prepare(&site).await.unwrap();
    let begun = memo["start_ticks"].as_u64().unwrap();
    memo.insert("start_ticks".into(), json!(begun - 1));
    let lifted = fault.lift(&site, &memo).await.unwrap();
    assert_eq!(lifted["target_gone"], true);
    assert_eq!(table.pid("node1").await, Some(own), "it got the signal");
    memo.insert("start_ticks".into(), json!(begun));
    assert_eq!(fault.lift(&site, &memo).await.unwrap()["signal"], 18);
}

#[tokio::test]
async fn targets_are_words_until_they_meet_a_view() {
    let mut view = Table::new().view().await;
    let nodes = |view: &View, target: &str, tie| target.parse::<NodeTarget>().unwrap().resolve(view, tie);
    assert_eq!(nodes(&view, "primary", 7), ["node1"]);
    assert_eq!(nodes(&view, "secondary", 7), ["node2"]);
    assert_eq!(nodes(&view, "any", 0), ["node1"]);
    assert_eq!(nodes(&view, "any", 1), ["node2"]);
    assert_eq!(nodes(&view, "all", 0), ["node1", "node2"]);
    assert_eq!(nodes(&view, "node2", 0), ["node2"]);
    assert_eq!(nodes(&view, "node2, node1", 0), ["node1", "node2"]);
    assert!(nodes(&view, "node9", 0).is_empty());
    assert!("node1,,node2".parse::<NodeTarget>().is_err());
    view.members.push(Member { name: "node3".into(), role: Role::Secondary, term: Some(3), set: None });
    assert_eq!(nodes(&view, "majority", 2), ["node1", "node3"]);
    assert_eq!(nodes(&view, "minority", 2), ["node3"]);
    assert!(nodes(&View::default(), "majority", 2).is_empty());
}

#[test]
fn every_kind_can_be_built_from_its_text_form() {
    let end = Spec::new("stop", &json!({ "target": "all", "restart_after": 1.5 })).unwrap();
    let text = serde_json::to_value(&end).unwrap();
    assert_eq!(text, json!({ "stop": { "target": "all", "restart_after": 1.5, "cold": false } }));
    assert_eq!(serde_json::from_value::<Spec>(text).unwrap(), end);
    assert!(Spec::new("stop", &json!({ "restart_after": -1.0 })).is_err());
    assert!(Spec::new("stop", &json!({ "restart": 1.0 })).is_err());
    let mut names: Vec<_> = catalog::KINDS.iter().map(|kind| kind.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), catalog::KINDS.len(), "a name stands twice in the catalogue");
}
