//! `kill` (SIGKILL) and `stop` (SIGTERM, a clean shutdown), each with a restart.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Deployment, Evidence, Exit, Fault, FaultError, NodeTarget, Role, View, undo};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const POLL: Duration = Duration::from_millis(20);
/// A primary waits up to 15 s for its successor, and then for its checkpoint.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// Parameters of `kill` and `stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whom to end.
    pub target: NodeTarget,
    /// Time between the effect and the restart; a process that is still shutting down then ends first.
    #[serde(with = "seconds")]
    pub restart_after: Duration,
}

/// Ends a process by a signal: SIGKILL (`kill`: the server recovers from its journal at the restart) or
/// SIGTERM (`stop`: it shuts down cleanly).
#[derive(Debug)]
pub struct Ending {
    signal: i32,
    parameters: End,
    /// Processes that were signalled, by node: lifting waits for the end of these, and of no other.
    signalled: Mutex<BTreeMap<String, i32>>,
}

impl Ending {
    /// The fault `kill`.
    #[must_use]
    pub const fn kill(parameters: End) -> Self {
        Self { signal: SIGKILL, parameters, signalled: Mutex::new(BTreeMap::new()) }
    }

    /// The fault `stop`.
    #[must_use]
    pub const fn stop(parameters: End) -> Self {
        Self { signal: SIGTERM, parameters, signalled: Mutex::new(BTreeMap::new()) }
    }
}

impl Ending {
    fn signalled(&self) -> MutexGuard<'_, BTreeMap<String, i32>> {
        self.signalled.lock().unwrap_or_else(PoisonError::into_inner)
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
        let Some(pid) = on.pid(node).await else {
            return Err(FaultError::NothingToDo { node: node.into(), why: "was not running".into() });
        };
        self.signalled().insert(node.into(), pid);
        on.signal(node, self.signal).await?;
        Ok(facts([("pid", json!(pid)), ("signal", json!(self.signal))]))
    }

    async fn observe_effect(
        &self,
        on: &dyn Deployment,
        node: &str,
        before: &View,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        if self.signal == SIGTERM {
            leaving(on, node, before, deadline).await
        } else {
            ended(on, node, before, deadline).await
        }
    }

    async fn lift(&self, on: &dyn Deployment, node: &str) -> Result<Evidence, FaultError> {
        let mut done = Evidence::new();
        let signalled = self.signalled().get(node).copied();
        if signalled.is_some() && on.pid(node).await == signalled {
            // It is still shutting down: its end is evidence, too.
            done.extend(exit_facts(on.wait_exit(node, SHUTDOWN_DEADLINE).await?));
        }
        done.insert("pid_after".into(), json!(on.start(node).await?));
        Ok(done)
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

/// The effect of a kill: the process is gone (reaped by its parent, so this is certain).
async fn ended(
    on: &dyn Deployment,
    node: &str,
    before: &View,
    deadline: Duration,
) -> Result<Evidence, FaultError> {
    let exit = on.wait_exit(node, deadline).await?;
    Ok(left(before.member(node).map_or(Role::Other, |m| m.role), before, exit))
}

fn left(was: Role, before: &View, exit: Exit) -> Evidence {
    let mut seen = facts([("role_before", json!(was)), ("pid_gone", json!(true))]);
    seen.extend(exit_facts(exit));
    seen.extend(before.term().map(|term| ("term_before".into(), json!(term))));
    seen
}

fn exit_facts(exit: Exit) -> Evidence {
    let code = exit.code.map(|code| ("exit_code".to_owned(), json!(code)));
    let signal = exit.signal.map(|signal| ("exit_signal".to_owned(), json!(signal)));
    code.into_iter().chain(signal).collect()
}

/// A clean shutdown works long before the process ends (a primary waits up to 15 s for its successor): its
/// effect is that the node is not what it was any more.
async fn leaving(
    on: &dyn Deployment,
    node: &str,
    before: &View,
    deadline: Duration,
) -> Result<Evidence, FaultError> {
    let was = before.member(node).map_or(Role::Other, |m| m.role);
    let changed = async {
        loop {
            let now = on.view().await.member(node).map_or(Role::Down, |m| m.role);
            if now != was {
                return now;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::select! {
        biased;
        exit = on.wait_exit(node, deadline) => exit.map(|exit| left(was, before, exit)),
        now = changed => Ok(facts([("role_before", json!(was)), ("role_now", json!(now))])),
    }
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
