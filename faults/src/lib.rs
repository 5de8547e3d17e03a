//! Everything that can be done to a deployment, and its undoing.
//!
//! # The contract of a fault
//!
//! 1. It describes itself in its own file: a [`catalog::Kind`] with name, parameters, defaults and needs. A bad
//!    combination of parameters is refused when it is built, before anything is touched.
//! 2. Who is hit is a word ([`NodeTarget`]) until the moment of injection; then it is a node, and the node is
//!    recorded.
//! 3. [`Fault::prepare`] looks, and changes nothing. What it returns, the [`Memo`], holds all that lifting needs:
//!    a former value, a process, the name of a file. The memo is written to the [`undo`] journal, and synced,
//!    **before** the fault is injected; another process can lift with nothing but the journal.
//! 4. [`Fault::inject`] acts; [`Fault::observe_effect`] proves from outside that it took effect. A fault that
//!    nobody saw is *not effective*, and says why. What needs something that is not here is *skipped*.
//! 5. [`Fault::lift`] puts things back. It may be called any number of times, also when `inject` did nothing or
//!    half of it; it touches only what is provably the fault's own. [`Fault::observe_lifted`] proves it.
//! 6. Every wait has a deadline and can be cancelled: any future may be dropped at any await, except that `lift`
//!    is then called again. Every step returns evidence: facts with their source, nothing assumed.
//!
//! [`life`] walks a fault through these steps. This crate knows nothing of scenarios, plans or reports.

pub mod catalog;
mod deployment;
mod hook;
pub mod life;
pub mod network;
mod parameter;
pub mod process;
mod proof;
pub mod replication;
pub mod resource;
pub mod server;
pub mod sharding;
mod site;
mod spec;
mod target;
pub mod undo;

pub use deployment::{Deployment, Exit, LaunchOptions, Member, Place, Role, View};
pub use parameter::{
    FOR_30_S, Parameter, Preset, TARGET_PRIMARY, TARGET_SECONDARY, Takes, held_for, party, target,
};
pub use proof::Proof;
pub use site::Site;
pub use spec::{Parameters, Spec};
pub use target::{CONFIG_SET, NodeTarget, ROUTER_SET, majority_of};
pub use wire::CommandError;

use std::time::Duration;

use async_trait::async_trait;

/// Facts that prove something, by name: numbers, texts, lists. Kept in order of names.
pub type Evidence = serde_json::Map<String, serde_json::Value>;

/// What lifting needs to know, by name. Survives the process in the undo journal.
pub type Memo = serde_json::Map<String, serde_json::Value>;

/// Evidence or a memo from pairs.
#[must_use]
pub fn facts<const N: usize>(pairs: [(&str, serde_json::Value); N]) -> Evidence {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Name under which a fault that acts on all its nodes together leaves its evidence.
pub const TOGETHER: &str = "cluster";

/// How a fault meets several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every step is done on each node.
    EachNode,
    /// Every step is done once, for all of them ([`Site::nodes`]).
    Together,
}

/// What a node that is hit cannot do meanwhile; the guard of the majority counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It serves as before, perhaps more slowly.
    Slows,
    /// It may be gone for the others, or its acknowledgement comes too late for a majority.
    TakesDown,
    /// Its nodes are gone one after the other, never two at a time.
    TakesDownInTurn,
    /// It takes the majority away, and is meant to.
    LosesMajority,
}

/// One fault. See the contract at the head of this crate.
#[async_trait]
pub trait Fault: Send + Sync {
    /// Whom it hits.
    fn target(&self) -> NodeTarget;

    /// How it meets several nodes.
    fn reach(&self) -> Reach {
        Reach::EachNode
    }

    /// What it does to the nodes that it hits.
    fn harm(&self) -> Harm {
        Harm::Slows
    }

    /// How long it stays after it took effect, before it is lifted.
    fn hold(&self) -> Duration;

    /// Whether its traces end with the servers' processes: then nothing need be lifted where these are ended.
    fn ends_with_processes(&self) -> bool;

    /// Looks what lifting will need. Changes nothing.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let _nothing_to_remember = site;
        Ok(Memo::new())
    }

    /// Acts. Returns what was done.
    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError>;

    /// Waits until the effect is seen, at most `deadline`.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError>;

    /// What happens while it holds. Ends after [`Fault::hold`], or is dropped before.
    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let _nothing_happens = (site, memo);
        tokio::time::sleep(self.hold()).await;
        Ok(Evidence::new())
    }

    /// Puts things back. Idempotent.
    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError>;

    /// Waits until nothing of the fault is left, at most `deadline`.
    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
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
    /// What it needs is not here; nothing was touched.
    #[error("{node}: {why}")]
    Unavailable {
        /// The node.
        node: String,
        /// What is missing, and what to try.
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
