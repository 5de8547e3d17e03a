//! `kill` and `stop` against a deployment that is only a table.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::process::End;
use crate::{Deployment, Exit, FaultError, Member, NodeTarget, Role, Spec, View, catalog};

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
        let member = |name: &str, role| Member { name: name.into(), role, term: Some(3) };
        View { members: vec![member("node1", Role::Primary), member("node2", Role::Secondary)] }
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
}

fn kill() -> Spec {
    Spec::Kill(End { target: NodeTarget::Primary, restart_after: Duration::from_secs(1) })
}

#[tokio::test]
async fn a_kill_is_proven_by_the_end_of_the_process_and_undone_by_a_restart() {
    let (table, fault) = (Table::new(), kill().build());
    let before = table.view().await;
    let done = fault.inject(&table, "node1").await.unwrap();
    assert_eq!(done["signal"], json!(9));
    let seen = fault.observe_effect(&table, "node1", &before, Duration::ZERO).await.unwrap();
    assert_eq!((&seen["exit_signal"], &seen["role_before"]), (&json!(9), &json!("primary")));
    fault.lift(&table, "node1").await.unwrap();
    fault.lift(&table, "node1").await.unwrap();
    let back = fault.observe_lifted(&table, "node1", Duration::ZERO).await.unwrap();
    assert_eq!(back["answers"], json!(true));
    assert_eq!(table.pid("node1").await, Some(101));
}

#[tokio::test]
async fn a_dead_target_and_a_signal_without_effect_are_not_effective() {
    let (table, fault) = (Table::new(), kill().build());
    table.signal("node1", 9).await.unwrap();
    let error = fault.inject(&table, "node1").await.unwrap_err();
    assert!(matches!(error, FaultError::NothingToDo { .. }), "{error}");
    let stubborn = Table { stubborn: true, ..Table::new() };
    let before = stubborn.view().await;
    fault.inject(&stubborn, "node2").await.unwrap();
    let error = fault.observe_effect(&stubborn, "node2", &before, Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("no effect seen on node2"), "{error}");
}

#[tokio::test]
async fn a_stop_has_taken_effect_when_the_node_is_not_what_it_was() {
    // Still running, as a primary that waits for its successor is; but no primary any more.
    let slow = Table { stubborn: true, ..Table::new() };
    let fault = Spec::Stop(End { target: NodeTarget::Primary, restart_after: Duration::ZERO }).build();
    let mut before = slow.view().await;
    before.members[1].role = Role::Primary;
    fault.inject(&slow, "node2").await.unwrap();
    let seen = fault.observe_effect(&slow, "node2", &before, Duration::from_secs(5)).await.unwrap();
    assert_eq!((&seen["role_before"], &seen["role_now"]), (&json!("primary"), &json!("secondary")));
    let error = fault.lift(&slow, "node2").await.unwrap_err();
    assert!(matches!(error, FaultError::NoEffect { .. }), "lifting waits for its end: {error}");
}

#[tokio::test]
async fn targets_are_words_until_they_meet_a_view() {
    let view = Table::new().view().await;
    let nodes = |target: &str, tie| target.parse::<NodeTarget>().unwrap().resolve(&view, tie);
    assert_eq!(nodes("primary", 7), ["node1"]);
    assert_eq!(nodes("secondary", 7), ["node2"]);
    assert_eq!(nodes("any", 0), ["node1"]);
    assert_eq!(nodes("any", 1), ["node2"]);
    assert_eq!(nodes("all", 0), ["node1", "node2"]);
    assert_eq!(nodes("node2", 0), ["node2"]);
    assert!(nodes("node9", 0).is_empty());
}

#[test]
fn every_fault_is_in_the_catalogue_and_keeps_its_text_form() {
    let end = End { target: NodeTarget::All, restart_after: Duration::from_millis(1_500) };
    for spec in [Spec::Kill(end.clone()), Spec::Stop(end)] {
        let kind = catalog::kind(spec.kind()).unwrap();
        let text = serde_json::to_value(&spec).unwrap();
        let parameters = text[kind.name].as_object().unwrap();
        assert!(kind.parameters.iter().all(|p| parameters.contains_key(p.name)));
        assert_eq!(parameters["restart_after"], json!(1.5));
        assert_eq!(serde_json::from_value::<Spec>(text).unwrap(), spec);
    }
}
