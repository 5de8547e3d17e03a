//! `balancer`: switched on or off for a time, and put back.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::{Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, Takes, facts};

/// Stopping waits for the round that is under way.
const SWITCH_DEADLINE: Duration = Duration::from_secs(120);

/// `balancerStart` and `balancerStop`.
pub const BALANCER: Kind = Kind {
    name: "balancer",
    group: "sharding",
    does: "switches the balancer on (chunks move when it finds them unevenly spread) or off, for a time",
    parameters: &[
        Parameter {
            name: "state",
            takes: Takes::Choice(&["on", "off"]),
            default: Preset::Text("on"),
            about: "what it is to be",
        },
        FOR_30_S,
    ],
    needs: &[Need::Sharded],
    build: |parameters| {
        Ok(Box::new(Balancer { on: parameters.text("state")? == "on", hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct Balancer {
    on: bool,
    hold: Duration,
}

#[async_trait]
impl Fault for Balancer {
    fn target(&self) -> NodeTarget {
        NodeTarget::Mongos
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// The switch is a setting of the cluster.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let was =
            is_on(site).await.ok_or_else(|| site.unavailable("does not say whether the balancer is on"))?;
        if was == self.on {
            return Err(site.nothing_to_do(format!("says that the balancer is {} already", word(was))));
        }
        Ok(facts([("was_on", json!(was))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        switch(site, self.on).await
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        seen(site, self.on, deadline).await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        switch(site, memo["was_on"].as_bool().unwrap_or(true)).await
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        seen(site, memo["was_on"].as_bool().unwrap_or(true), deadline).await
    }
}

const fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Whether it is on now; `None`: the router does not say.
pub(super) async fn is_on(site: &Site<'_>) -> Option<bool> {
    let status = site.ask(doc! { "balancerStatus": 1 }).await.ok()?;
    Some(status.get_str("mode").ok()? != "off")
}

/// Switches it.
pub(super) async fn switch(site: &Site<'_>, on: bool) -> Result<Evidence, FaultError> {
    let command = if on {
        doc! { "balancerStart": 1 }
    } else {
        doc! { "balancerStop": 1 }
    };
    let switched = site.on.command(site.node, "admin", &command, SWITCH_DEADLINE).await;
    switched.map_err(|error| site.failed("switch the balancer through", error))?;
    Ok(facts([("balancer", json!(word(on)))]))
}

async fn seen(site: &Site<'_>, on: bool, deadline: Duration) -> Result<Evidence, FaultError> {
    let what = format!("the balancer is not {}", word(on));
    site.until(deadline, &what, || async { (is_on(site).await? == on).then_some(()) }).await?;
    Ok(facts([("balancer", json!(word(on)))]))
}
