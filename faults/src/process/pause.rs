//! `pause`: SIGSTOP, and SIGCONT after a time. To everybody else the server is there and silent.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Proof, Role, Site, TARGET_PRIMARY, facts,
};

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;
const POLL: Duration = Duration::from_millis(50);

/// SIGSTOP, then SIGCONT.
pub const PAUSE: Kind = Kind {
    name: "pause",
    group: "process",
    does: "SIGSTOP a mongod (it is there, but silent), SIGCONT after a time",
    parameters: &[TARGET_PRIMARY, FOR_30_S],
    needs: &[Need::Processes],
    build: |parameters| {
        Ok(Box::new(Pause { target: parameters.target("target")?, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct Pause {
    target: NodeTarget,
    hold: Duration,
}

#[async_trait]
impl Fault for Pause {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        let data = site.on.place(site.node).map(|place| place.data);
        // A process that is not on this machine has only its number.
        let proof = Proof::of(pid, data.as_deref()).filter(Proof::holds);
        Ok(proof.map_or_else(|| facts([("pid", json!(pid))]), |proof| proof.memo()))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.signal(site.node, SIGSTOP).await?;
        Ok(facts([("pid", memo["pid"].clone()), ("signal", json!(SIGSTOP))]))
    }

    /// It does not answer any more, although its process is there.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let silent = async {
            while role_now(site).await != Role::Down {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(deadline, silent)
            .await
            .map_err(|_| site.no_effect(deadline, "it still answers"))?;
        if site.on.pid(site.node).await.map(i64::from) != memo["pid"].as_i64() {
            return Err(site.no_effect(deadline, "its process ended instead"));
        }
        Ok(facts([("role_before", json!(site.role_before())), ("answers", json!(false))]))
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let pid = site.on.pid(site.node).await;
        let another = Proof::noted(memo).is_some_and(|proof| !proof.holds());
        if another || pid.is_none() || pid.map(i64::from) != memo["pid"].as_i64() {
            // It died in its pause, or is another process by now: that one was never stopped.
            return Ok(facts([("target_gone", json!(true)), ("pid_after", json!(pid))]));
        }
        site.on.signal(site.node, SIGCONT).await?;
        Ok(facts([("signal", json!(SIGCONT))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        if site.on.pid(site.node).await.is_none() {
            return Ok(facts([("target_gone", json!(true))]));
        }
        super::end::back(site, deadline).await
    }
}

async fn role_now(site: &Site<'_>) -> Role {
    site.view().await.member(site.node).map_or(Role::Down, |m| m.role)
}
