//! `crash_loop`: killed again and again, also in the middle of its recovery.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::end::{back, exit_facts};
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Role, Site, TARGET_SECONDARY,
    Takes, facts,
};

const SIGKILL: i32 = 9;
const EXIT_DEADLINE: Duration = Duration::from_secs(30);

/// SIGKILL, start, SIGKILL, start ...
pub const CRASH_LOOP: Kind = Kind {
    name: "crash_loop",
    group: "process",
    does: "SIGKILL a mongod, start it, kill it again during its recovery, and so on; in the end it stays up",
    parameters: &[
        TARGET_SECONDARY,
        Parameter {
            name: "times",
            takes: Takes::Count,
            default: Preset::Count(3),
            about: "how often it is killed",
        },
        Parameter {
            name: "every",
            takes: Takes::Duration,
            default: Preset::Seconds(2.0),
            about: "time from each start to the next kill",
        },
    ],
    needs: &[Need::Processes],
    build: |parameters| {
        let times = u32::try_from(parameters.count("times")?).map_err(|e| format!("times: {e}"))?;
        if times == 0 {
            return Err("times: at least once".into());
        }
        Ok(Box::new(CrashLoop {
            target: parameters.target("target")?,
            times,
            every: parameters.duration("every")?,
        }))
    },
};

#[derive(Debug)]
struct CrashLoop {
    target: NodeTarget,
    times: u32,
    every: Duration,
}

#[async_trait]
impl Fault for CrashLoop {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.every.saturating_mul(self.times)
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        Ok(facts([("pid", json!(pid))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.signal(site.node, SIGKILL).await?;
        Ok(facts([("pid", memo["pid"].clone()), ("signal", json!(SIGKILL))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let mut seen = facts([("role_before", json!(site.role_before())), ("pid_gone", json!(true))]);
        seen.extend(exit_facts(site.on.wait_exit(site.node, deadline).await?));
        Ok(seen)
    }

    /// The other kills: each a while after a start, whatever the server is at then.
    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let (mut killed, mut before_it_answered) = (1, 0);
        for _ in 1..self.times {
            site.on.start(site.node).await?;
            tokio::time::sleep(self.every).await;
            let role = site.view().await.member(site.node).map_or(Role::Down, |m| m.role);
            if site.on.pid(site.node).await.is_some() {
                site.on.signal(site.node, SIGKILL).await?;
                site.on.wait_exit(site.node, EXIT_DEADLINE).await?;
                killed += 1;
                before_it_answered += u32::from(role == Role::Down);
            }
        }
        Ok(facts([("kills", json!(killed)), ("kills_before_it_answered", json!(before_it_answered))]))
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(facts([("pid_after", json!(site.on.start(site.node).await?))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        back(site, deadline).await
    }
}
