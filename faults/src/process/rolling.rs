//! `rolling_restart`: one member after the other, as in maintenance. The next one is touched only when the one
//! before is really back: it follows, and it has caught up.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::{Value, json};

use crate::catalog::{Kind, Need};
use crate::{
    Evidence, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Reach, Role, Site, facts, held_for,
    replication,
};

const SIGTERM: i32 = 15;
/// A primary waits for its successor, and then for its checkpoint.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10 * 60);
const CAUGHT_UP_S: f64 = 2.0;
const STEP_DOWN_S: i32 = 60;

/// Clean restarts, secondaries first.
pub const ROLLING_RESTART: Kind = Kind {
    name: "rolling_restart",
    group: "process",
    does: "restarts every member cleanly, secondaries first, each only when the one before has caught up",
    parameters: &[Parameter {
        name: "wait",
        about: "longest time for one member to be back",
        ..held_for(600.0)
    }],
    needs: &[Need::Processes, Need::ThreeMembers],
    build: |parameters| Ok(Box::new(RollingRestart { wait: parameters.duration("wait")? })),
};

#[derive(Debug)]
struct RollingRestart {
    wait: Duration,
}

#[async_trait]
impl Fault for RollingRestart {
    fn target(&self) -> NodeTarget {
        NodeTarget::All
    }

    fn reach(&self) -> Reach {
        Reach::Together
    }

    fn harm(&self) -> Harm {
        Harm::TakesDownInTurn
    }

    /// As long as it takes: see `held`.
    fn hold(&self) -> Duration {
        self.wait
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// The order, and the processes as they are. Every member must be well before the first is touched.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let of =
            |role: Role| site.before.members.iter().filter(move |m| m.role == role).map(|m| m.name.clone());
        let order: Vec<String> = of(Role::Secondary).chain(of(Role::Primary)).collect();
        if order.len() < site.before.members.len() || of(Role::Primary).next().is_none() {
            return Err(site.nothing_to_do("is not well: a roll begins when every member follows or leads"));
        }
        if order.len() < 3 {
            return Err(site.nothing_to_do("has fewer than three members: a restart takes the majority away"));
        }
        let mut pids = serde_json::Map::new();
        for node in &order {
            let pid = site.on.pid(node).await;
            let pid =
                pid.ok_or_else(|| site.unavailable(format!("the process of {node} is out of reach")))?;
            pids.insert(node.clone(), json!(pid));
        }
        Ok(facts([("order", json!(order)), ("pids", Value::Object(pids))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let order = order(memo);
        let first = order.first().ok_or_else(|| site.nothing_to_do("has no members"))?;
        site.on.signal(first, SIGTERM).await?;
        Ok(facts([("order", json!(order)), ("first", json!(first))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let order = order(memo);
        let first = order.first().ok_or_else(|| site.nothing_to_do("has no members"))?;
        site.until(deadline, "the first member is what it was", || async {
            let role = site.view().await.member(first).map_or(Role::Down, |m| m.role);
            (role != Role::Secondary).then(|| facts([("first", json!(first)), ("role_now", json!(role))]))
        })
        .await
    }

    /// The roll itself. It stops at the first member that does not come back.
    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut back = Evidence::new();
        for (number, node) in order(memo).iter().enumerate() {
            if number > 0 {
                step_down_if_it_leads(site, node).await?;
                site.on.signal(node, SIGTERM).await?;
            }
            site.on.wait_exit(node, SHUTDOWN_DEADLINE).await?;
            let pid = site.on.start(node).await?;
            let returned = self.wait_until_back(site, node).await;
            returned.map_err(|error| {
                let why = format!("incomplete, the others were left alone: {error}");
                FaultError::Failed { doing: "roll on after", node: node.clone(), why }
            })?;
            back.insert(format!("pid_after_{node}"), json!(pid));
        }
        Ok(back)
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut started = Vec::new();
        for node in order(memo) {
            if site.on.pid(&node).await.is_none() {
                site.on.start(&node).await?;
                started.push(node);
            }
        }
        Ok(facts([("started", json!(started))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        for node in order(memo) {
            site.on.wait_ready(&node, deadline).await?;
        }
        let view = site.view().await;
        Ok(facts([
            ("primary_after", json!(view.primary().map(|p| p.name.clone()))),
            ("term_after", json!(view.term())),
        ]))
    }
}

impl RollingRestart {
    async fn wait_until_back(&self, site: &Site<'_>, node: &str) -> Result<(), FaultError> {
        site.on.wait_ready(node, self.wait).await?;
        site.until(self.wait, "it does not follow the others within 2 s", || async {
            let view = site.view().await;
            let role = view.member(node)?.role;
            view.primary()?;
            let well = role == Role::Primary
                || (role == Role::Secondary && replication::lag_s(site, node).await? <= CAUGHT_UP_S);
            well.then_some(())
        })
        .await
    }
}

/// So that its clients lose it in an orderly way. A refusal changes nothing: SIGTERM hands over as well.
async fn step_down_if_it_leads(site: &Site<'_>, node: &str) -> Result<(), FaultError> {
    if site.view().await.primary().is_none_or(|primary| primary.name != node) {
        return Ok(());
    }
    let _refused_or_cut = site.ask_node(node, doc! { "replSetStepDown": STEP_DOWN_S }).await;
    let another = || async { (site.view().await.primary()?.name != node).then_some(()) };
    site.until(SHUTDOWN_DEADLINE, "nobody took over", another).await
}

fn order(memo: &Memo) -> Vec<String> {
    let listed = memo.get("order").and_then(Value::as_array);
    listed.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
