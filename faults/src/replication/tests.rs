//! `stepdown` against a set whose answers are scripted.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, doc};
use serde_json::json;

use crate::{CommandError, Deployment, Exit, Fault, FaultError, Member, Role, Site, Spec, View};

/// Answers to `replSetStepDown` in order; the last one stays. The role moves with `Move`.
struct Scripted {
    answers: Mutex<VecDeque<Answer>>,
    leads: Mutex<(&'static str, i64)>,
}

#[derive(Clone, Copy)]
enum Answer {
    /// Refused with this code, and nobody moves.
    Refused(i32),
    /// Refused with this code, but the role moved.
    Moved(i32),
    /// The connection was cut, and the role moved.
    Cut,
    /// Done.
    Done,
    /// Answered well, but nobody moves.
    Nothing,
}

impl Scripted {
    fn new(answers: &[Answer]) -> Self {
        Self { answers: Mutex::new(answers.iter().copied().collect()), leads: Mutex::new(("node1", 3)) }
    }

    fn step_down(&self) -> Result<Document, CommandError> {
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0] };
        let refused = |code| {
            Err(CommandError::Server {
                code,
                code_name: "Scripted".into(),
                message: "No electable secondaries".into(),
            })
        };
        let moved = || *self.leads.lock().unwrap() = ("node2", 4);
        match answer {
            Answer::Refused(code) => refused(code),
            Answer::Moved(code) => {
                moved();
                refused(code)
            }
            Answer::Cut => {
                moved();
                Err(CommandError::Io(std::io::ErrorKind::ConnectionReset.into()))
            }
            Answer::Done => {
                moved();
                Ok(doc! { "ok": 1 })
            }
            Answer::Nothing => Ok(doc! { "ok": 1 }),
        }
    }
}

#[async_trait]
impl Deployment for Scripted {
    async fn view(&self) -> View {
        let (leader, term) = *self.leads.lock().unwrap();
        let member = |name: &str| {
            let role = if name == leader { Role::Primary } else { Role::Secondary };
            Member { name: name.into(), role, term: Some(term), set: None }
        };
        View { members: vec![member("node1"), member("node2")] }
    }

    async fn command(
        &self,
        _node: &str,
        _database: &str,
        body: &Document,
        _deadline: Duration,
    ) -> Result<Document, CommandError> {
        if body.contains_key("replSetStepDown") { self.step_down() } else { Ok(doc! { "ok": 1 }) }
    }

    async fn pid(&self, _node: &str) -> Option<i32> {
        None
    }

    async fn signal(&self, _node: &str, _signal: i32) -> Result<(), FaultError> {
        Ok(())
    }

    async fn wait_exit(&self, _node: &str, _deadline: Duration) -> Result<Exit, FaultError> {
        Ok(Exit { code: None, signal: None })
    }

    async fn start(&self, _node: &str) -> Result<i32, FaultError> {
        Ok(0)
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

/// Steps node1 down; the evidence of injection and effect together.
async fn step_down(set: &Scripted) -> Result<serde_json::Value, FaultError> {
    let fault: Box<dyn Fault> = Spec::new("stepdown", &json!({})).unwrap().build();
    let before = set.view().await;
    let nodes = ["node1".to_owned()];
    let site = Site { on: set, node: "node1", nodes: &nodes, before: &before, fault: "f1", tie: 0 };
    let memo = fault.prepare(&site).await?;
    let mut seen = fault.inject(&site, &memo).await?;
    seen.extend(fault.observe_effect(&site, &memo, Duration::from_secs(2)).await?);
    Ok(seen.into())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_is_asked_for_again() {
    let set = Scripted::new(&[Answer::Refused(24), Answer::Refused(24), Answer::Done]);
    let seen = step_down(&set).await.unwrap();
    assert_eq!(seen["attempts"], 3);
    assert_eq!((&seen["primary_before"], &seen["primary_after"]), (&json!("node1"), &json!("node2")));
    assert_eq!((&seen["term_before"], &seen["term_after"]), (&json!(3), &json!(4)));
}

#[tokio::test(start_paused = true)]
async fn who_leads_decides_and_not_the_answer() {
    for answer in [Answer::Cut, Answer::Moved(189), Answer::Moved(10_107)] {
        let seen = step_down(&Scripted::new(&[answer])).await.unwrap();
        assert_eq!(seen["primary_after"], "node2");
        assert_eq!(seen["attempts"], 1);
    }
    let error = step_down(&Scripted::new(&[Answer::Nothing])).await.unwrap_err();
    assert!(error.to_string().contains("another primary in a newer term"), "{error}");
    let error = step_down(&Scripted::new(&[Answer::Refused(189)])).await.unwrap_err();
    assert!(matches!(error, FaultError::NoEffect { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nobody_who_could_take_over_is_no_effect_and_an_unknown_refusal_a_failure() {
    let error = step_down(&Scripted::new(&[Answer::Refused(262)])).await.unwrap_err();
    assert!(matches!(error, FaultError::NoEffect { .. }), "{error}");
    assert!(error.to_string().contains("No electable secondaries"), "{error}");
    let error = step_down(&Scripted::new(&[Answer::Refused(13)])).await.unwrap_err();
    assert!(matches!(error, FaultError::Failed { .. }), "{error}");
}
