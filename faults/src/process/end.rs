//! `kill` (SIGKILL) and `stop` (SIGTERM, a clean shutdown), each with a restart.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Deployment, Evidence, Fault, FaultError, NodeTarget, Role, View, undo};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Parameters of `kill` and `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whom to end.
    pub target: NodeTarget,
    /// Time between the end of the process and its restart.
    #[serde(with = "seconds")]
    pub restart_after: Duration,
}

/// Ends a process by a signal: SIGKILL (`kill`: the server recovers from its journal at the restart) or
/// SIGTERM (`stop`: it shuts down cleanly).
#[derive(Clone, Debug)]
pub struct Ending {
    signal: i32,
    parameters: End,
}

impl Ending {
    /// The fault `kill`.
    #[must_use]
    pub const fn kill(parameters: End) -> Self {
        Self { signal: SIGKILL, parameters }
    }

    /// The fault `stop`.
    #[must_use]
    pub const fn stop(parameters: End) -> Self {
        Self { signal: SIGTERM, parameters }
    }
}

#[async_trait]
impl Fault for Ending {
    fn hold(&self) -> Duration {
        self.parameters.restart_after
    }

    fn undo(&self, node: &str) -> undo::Action {
        undo::Action::Start { node: node.into() }
    }

    async fn inject(&self, on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError> {
        end(on, node, self.signal).await
    }

    async fn observe_effect(
        &self,
        on: &dyn Deployment,
        node: &str,
        before: &View,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        ended(on, node, before, deadline).await
    }

    async fn lift(&self, on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError> {
        restart(on, node).await
    }

    async fn observe_lifted(
        &self,
        on: &dyn Deployment,
        node: &str,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        back(on, node, deadline).await
    }
}

async fn end(on: &dyn Deployment, node: &str, signal: i32) -> Result<Evidence, FaultError> {
    let Some(pid) = on.pid(node).await else {
        return Err(FaultError::NothingToDo { node: node.into(), why: "was not running".into() });
    };
    on.signal(node, signal).await?;
    Ok(facts([("pid", json!(pid)), ("signal", json!(signal))]))
}

/// The effect of an end: the process is gone (reaped by its parent, so this is certain).
async fn ended(
    on: &dyn Deployment,
    node: &str,
    before: &View,
    deadline: Duration,
) -> Result<Evidence, FaultError> {
    let exit = on.wait_exit(node, deadline).await?;
    let was = before.member(node).map_or(Role::Other, |m| m.role);
    let mut seen = facts([("role_before", json!(was)), ("pid_gone", json!(true))]);
    if let Some(code) = exit.code {
        seen.insert("exit_code".into(), json!(code));
    }
    if let Some(signal) = exit.signal {
        seen.insert("exit_signal".into(), json!(signal));
    }
    if let Some(term) = before.term() {
        seen.insert("term_before".into(), json!(term));
    }
    Ok(seen)
}

async fn restart(on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError> {
    let pid = on.start(node).await?;
    Ok(facts([("pid_after", json!(pid))]))
}

async fn back(on: &dyn Deployment, node: &str, deadline: Duration) -> Result<Evidence, FaultError> {
    on.wait_ready(node, deadline).await?;
    let view = on.view().await;
    let mut seen = facts([("answers", json!(true))]);
    if let Some(member) = view.member(node) {
        seen.insert("role_after".into(), json!(member.role));
    }
    // A quick restart comes before the election: then the old term says nothing of what came after.
    if let Some(primary) = view.primary() {
        seen.insert("primary_after".into(), json!(primary.name));
        seen.extend(view.term().map(|term| ("term_after".into(), json!(term))));
    }
    Ok(seen)
}

fn facts<const N: usize>(pairs: [(&str, serde_json::Value); N]) -> Evidence {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) mod seconds {
    //! A duration as a number of seconds in JSON.
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}
