//! What the steps of a fault are given: the deployment, the node in hand, and small helpers around both.

use std::time::Duration;

use bson::{Bson, Document, doc};

use crate::{CommandError, Deployment, FaultError, Role, View};

/// A healthy server answers an admin command in milliseconds.
const COMMAND_DEADLINE: Duration = Duration::from_secs(10);
/// A server with more operations at once shows these first.
const MOST_OPERATIONS: i32 = 1_000;
const POLL: Duration = Duration::from_millis(100);

/// Where and when a step of a fault is done.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The deployment.
    pub on: &'a dyn Deployment,
    /// The node in hand; [`crate::TOGETHER`] for a fault that acts on all its nodes together.
    pub node: &'a str,
    /// All nodes that the target became.
    pub nodes: &'a [String],
    /// The members as they were before the injection; empty when an open journal is healed.
    pub before: &'a View,
    /// Id of the fault in its plan: names what the fault makes (files, groups, rules).
    pub fault: &'a str,
    /// Drawn with the plan: the seed of whatever is left to chance.
    pub tie: u64,
}

impl Site<'_> {
    /// The members around the node in hand as they are now: those of its replica set, or of the sets of all nodes
    /// of the fault where it acts on them together.
    pub async fn view(&self) -> View {
        let view = self.on.view().await;
        if self.node == crate::TOGETHER {
            view.around(self.nodes)
        } else {
            view.around(&[self.node.to_owned()])
        }
    }

    /// What the node in hand was before the injection.
    #[must_use]
    pub fn role_before(&self) -> Role {
        self.before.member(self.node).map_or(Role::Other, |m| m.role)
    }

    /// Runs an admin command on the node in hand.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn ask(&self, command: Document) -> Result<Document, CommandError> {
        self.ask_node(self.node, command).await
    }

    /// Runs an admin command on another node.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn ask_node(&self, node: &str, command: Document) -> Result<Document, CommandError> {
        self.on.command(node, "admin", &command, COMMAND_DEADLINE).await
    }

    /// Operations that run on the node in hand now, as its `$currentOp` shows them.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn operations(&self, matching: Document) -> Result<Vec<Document>, CommandError> {
        let pipeline = vec![doc! { "$currentOp": { "allUsers": true } }, doc! { "$match": matching }];
        let answer = self
            .ask(doc! {
                "aggregate": 1,
                "pipeline": pipeline,
                "cursor": { "batchSize": MOST_OPERATIONS },
                // Members that follow are asked as well.
                "$readPreference": { "mode": "primaryPreferred" },
            })
            .await?;
        let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let batch = batch.map_err(|error| CommandError::Protocol(error.to_string()))?;
        Ok(batch.iter().filter_map(Bson::as_document).cloned().collect())
    }

    /// Looks every 100 ms until there is something to see; `what` says what was waited for.
    ///
    /// # Errors
    /// [`FaultError::NoEffect`] at the deadline.
    pub async fn until<T, F: Future<Output = Option<T>>>(
        &self,
        deadline: Duration,
        what: &str,
        look: impl Fn() -> F,
    ) -> Result<T, FaultError> {
        let seen = async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(deadline, seen).await.map_err(|_| self.no_effect(deadline, what))
    }

    /// An error of this node.
    #[must_use]
    pub fn failed(&self, doing: &'static str, why: impl std::fmt::Display) -> FaultError {
        FaultError::Failed { doing, node: self.node.into(), why: why.to_string() }
    }

    /// There is nothing to do on this node.
    #[must_use]
    pub fn nothing_to_do(&self, why: impl Into<String>) -> FaultError {
        FaultError::NothingToDo { node: self.node.into(), why: why.into() }
    }

    /// No effect was seen on this node.
    #[must_use]
    pub fn no_effect(&self, deadline: Duration, what: impl Into<String>) -> FaultError {
        FaultError::NoEffect { node: self.node.into(), seconds: deadline.as_secs_f64(), what: what.into() }
    }

    /// What this node needs for the fault is not here.
    #[must_use]
    pub fn unavailable(&self, why: impl Into<String>) -> FaultError {
        FaultError::Unavailable { node: self.node.into(), why: why.into() }
    }
}
