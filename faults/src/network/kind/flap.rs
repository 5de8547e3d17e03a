//! `flap`: the line goes down and comes back, again and again.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::black_hole::{AFTERWARDS, on_lift};
use super::shaping::{acted, passes, prepare, put_in_force, take_back};
use super::{DIRECTION, Whom};
use crate::catalog::{Kind, Need};
use crate::network::{Effect, OnLift, Rule, Side};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Reach, Site, facts, held_for,
    party,
};

/// Down, up, down, up.
pub const FLAP: Kind = Kind {
    name: "flap",
    group: "network",
    does: "a black hole that comes and goes",
    parameters: &[
        party("primary"),
        Parameter { name: "every", about: "how long it is down, and then up", ..held_for(2.0) },
        DIRECTION,
        AFTERWARDS,
        FOR_30_S,
    ],
    needs: &[Need::Proxies],
    build: |parameters| {
        let (every, hold) = (parameters.duration("every")?, parameters.duration("for")?);
        if every.is_zero() {
            return Err("every: must be above 0".into());
        }
        if hold < every * 3 {
            return Err("for: must be three times \"every\" or more, so that it goes down twice".into());
        }
        Ok(Box::new(Flap { whom: Whom::read(parameters)?, every, on_lift: on_lift(parameters)?, hold }))
    },
};

#[derive(Debug)]
struct Flap {
    whom: Whom,
    every: Duration,
    on_lift: OnLift,
    hold: Duration,
}

impl Flap {
    async fn down(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let does = Effect::Stall { side: Side::Both, on_lift: self.on_lift };
        let rules = self.whom.selectors(site).into_iter().map(|on| Rule { on, does: does.clone() });
        put_in_force(site, memo, rules.collect()).await
    }

    async fn toggle(&self, site: &Site<'_>, memo: &Memo, downs: &mut u32) -> Result<(), FaultError> {
        loop {
            tokio::time::sleep(self.every).await;
            take_back(site, memo).await?;
            tokio::time::sleep(self.every).await;
            self.down(site, memo).await?;
            *downs += 1;
        }
    }
}

#[async_trait]
impl Fault for Flap {
    fn target(&self) -> NodeTarget {
        self.whom.target.clone()
    }

    fn reach(&self) -> Reach {
        self.whom.reach()
    }

    fn harm(&self) -> Harm {
        if self.whom.is_clients() { Harm::Slows } else { Harm::TakesDown }
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        prepare(site)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        self.down(site, memo).await
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        acted(site, memo, deadline).await
    }

    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut downs = 1;
        if let Ok(failed) = tokio::time::timeout(self.hold, self.toggle(site, memo, &mut downs)).await {
            failed?;
        }
        Ok(facts([("times_down", json!(downs))]))
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        take_back(site, memo).await
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        passes(site, deadline).await
    }
}
