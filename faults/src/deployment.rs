//! What a fault may ask for. The test seam: a real cluster implements it, and so do test doubles.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::FaultError;

/// The members as they are right now, each asked directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// All members, in the order of their names.
    pub members: Vec<Member>,
}

impl View {
    /// The member of that name.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|m| m.name == name)
    }

    /// The primary (or the one standalone node).
    #[must_use]
    pub fn primary(&self) -> Option<&Member> {
        self.members.iter().find(|m| matches!(m.role, Role::Primary | Role::Standalone))
    }

    /// The newest election term that any member knows.
    #[must_use]
    pub fn term(&self) -> Option<i64> {
        self.members.iter().filter_map(|m| m.term).max()
    }
}

/// One member of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name in this deployment: `node1`, `node2` ...
    pub name: String,
    /// What it says of itself; `Down` when it does not answer.
    pub role: Role,
    /// Election term as this member knows it; `None` when it does not answer or has none.
    pub term: Option<i64>,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Follows.
    Secondary,
    /// A mongod without replication.
    Standalone,
    /// Answers, but is neither (starting, recovering, rolling back).
    Other,
    /// Does not answer.
    Down,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("it was not running"),
        }
    }
}

/// A deployment as a fault sees it.
#[async_trait]
pub trait Deployment: Send + Sync {
    /// Asks every member directly what it is now. Members that do not answer soon are `Down`.
    async fn view(&self) -> View;

    /// Process id of a node; `None` while it does not run.
    async fn pid(&self, node: &str) -> Option<i32>;

    /// Sends a signal to a node's process, and notes that its end is expected.
    async fn signal(&self, node: &str, signal: i32) -> Result<(), FaultError>;

    /// Waits until a node's process has ended and was reaped, at most `deadline`.
    async fn wait_exit(&self, node: &str, deadline: Duration) -> Result<Exit, FaultError>;

    /// Starts a node again on its old port and data. Does nothing when it runs.
    async fn start(&self, node: &str) -> Result<i32, FaultError>;

    /// Waits until a node answers and is our process, at most `deadline`.
    async fn wait_ready(&self, node: &str, deadline: Duration) -> Result<(), FaultError>;
}
