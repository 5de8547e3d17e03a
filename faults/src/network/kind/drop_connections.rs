//! `drop_connections`: everything that is connected is reset, once.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::shaping::{network, passes};
use super::{DIRECTION, Whom};
use crate::catalog::{Kind, Need};
use crate::{Evidence, Fault, FaultError, Memo, NodeTarget, Reach, Site, facts, party};

/// Every connection breaks once.
pub const DROP_CONNECTIONS: Kind = Kind {
    name: "drop_connections",
    group: "network",
    does: "resets all open connections of a node or of the clients, once",
    parameters: &[party("primary"), DIRECTION],
    needs: &[Need::Proxies],
    build: |parameters| Ok(Box::new(DropConnections { whom: Whom::read(parameters)? })),
};

#[derive(Debug)]
struct DropConnections {
    whom: Whom,
}

#[async_trait]
impl Fault for DropConnections {
    fn target(&self) -> NodeTarget {
        self.whom.target.clone()
    }

    fn reach(&self) -> Reach {
        self.whom.reach()
    }

    fn hold(&self) -> Duration {
        Duration::ZERO
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// The connections that are open now; those that come later are left alone.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        network(site)?;
        Ok(Memo::new())
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let network = network(site)?;
        let reset: usize = self.whom.selectors(site).iter().map(|on| network.reset(on)).sum();
        if reset == 0 {
            return Err(site.nothing_to_do("had no connection that could be reset"));
        }
        Ok(facts([("connections_reset", json!(reset))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        network(site)?.obeyed(deadline).await.map_err(|error| site.no_effect(deadline, error.to_string()))?;
        Ok(facts([("all_are_gone", json!(true))]))
    }

    /// Nothing stays: who was hit connects again.
    async fn lift(&self, _site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(Evidence::new())
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
