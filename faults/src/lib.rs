//! Everything that can be done to a deployment, and its undoing.
//!
//! # The contract of a fault
//!
//! 1. It names what it needs and its parameters in the [`catalog`]; a bad combination is refused
//!    before anything is touched.
//! 2. Who is hit is a word ([`NodeTarget`]) until the moment of injection; then it is a node, and
//!    the node is recorded.
//! 3. What lifting must do is written to the [`undo`] journal, and synced, **before** the fault is
//!    injected.
//! 4. `inject` acts; `observe_effect` proves from outside that it took effect. A fault that nobody
//!    saw is *not effective*, and says why.
//! 5. `lift` puts things back and may be called any number of times; `observe_lifted` proves it.
//! 6. Every wait has a deadline and can be cancelled. Every step returns evidence: facts with their
//!    source, nothing assumed.
//!
//! This crate knows nothing of scenarios, plans or reports.

pub mod catalog;
mod deployment;
pub mod network;
pub mod process;
mod target;
pub mod undo;

pub use deployment::{Deployment, Exit, Member, Role, View};
pub use target::NodeTarget;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Facts that prove something, by name: numbers, texts, lists. Kept in order of names.
pub type Evidence = serde_json::Map<String, serde_json::Value>;

/// What is done, with its parameters. One variant a kind; the text form is that of the scenario file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// SIGKILL, then a restart.
    Kill(process::End),
    /// SIGTERM (a clean shutdown), then a restart.
    Stop(process::End),
}

impl Spec {
    /// Name in the catalogue.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Kill(_) => "kill",
            Self::Stop(_) => "stop",
        }
    }

    /// Whom it hits.
    #[must_use]
    pub const fn target(&self) -> &NodeTarget {
        match self {
            Self::Kill(end) | Self::Stop(end) => &end.target,
        }
    }

    /// The fault that does it.
    #[must_use]
    pub fn build(&self) -> Box<dyn Fault> {
        match self {
            Self::Kill(end) => Box::new(process::Ending::kill(end.clone())),
            Self::Stop(end) => Box::new(process::Ending::stop(end.clone())),
        }
    }
}

/// One fault, against one node at a time. See the contract at the head of this crate.
#[async_trait]
pub trait Fault: Send + Sync {
    /// How long it stays after it took effect, before it is lifted.
    fn hold(&self) -> Duration;

    /// What lifting will have to do on this node, for the undo journal.
    fn undo(&self, node: &str) -> undo::Action;

    /// Acts. Returns what was done.
    async fn inject(&self, on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError>;

    /// Waits until the effect is seen, at most `deadline`.
    async fn observe_effect(
        &self,
        on: &dyn Deployment,
        node: &str,
        before: &View,
        deadline: Duration,
    ) -> Result<Evidence, FaultError>;

    /// Puts things back. Idempotent.
    async fn lift(&self, on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError>;

    /// Waits until nothing of the fault is left, at most `deadline`.
    async fn observe_lifted(
        &self,
        on: &dyn Deployment,
        node: &str,
        deadline: Duration,
    ) -> Result<Evidence, FaultError>;
}

/// Why a fault did not come about.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// No node answers to the target right now.
    #[error("no node is {0} right now")]
    NoTarget(NodeTarget),
    /// The target was already in the state that the fault would bring about.
    #[error("{node} {why}")]
    NothingToDo {
        /// The node.
        node: String,
        /// Why there was nothing to do.
        why: String,
    },
    /// It was injected, but nobody saw an effect in time.
    #[error("no effect seen on {node} within {seconds:.1} s: {what}")]
    NoEffect {
        /// The node.
        node: String,
        /// The deadline.
        seconds: f64,
        /// What was waited for.
        what: String,
    },
    /// The deployment could not do it.
    #[error("{doing} {node}: {why}")]
    Failed {
        /// A verb phrase: "signal", "start".
        doing: &'static str,
        /// The node.
        node: String,
        /// What the system said.
        why: String,
    },
}
