//! A fault that is nothing but rules in the proxies: put in force, counted, taken back.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use wire::Connection;

use super::Whom;
use crate::network::{Effect, Network, Rule, RuleCount};
use crate::process::back;
use crate::{Evidence, Fault, FaultError, Harm, Memo, NodeTarget, Reach, Site, facts};

/// Every connection acts by changed rules within milliseconds; a loaded machine takes its time.
const OBEYED_WITHIN: Duration = Duration::from_secs(5);
/// One answer through a proxy.
const ANSWER: Duration = Duration::from_secs(1);

/// Rules for the connections of nodes or clients.
#[derive(Debug)]
pub(super) struct Shaping {
    pub whom: Whom,
    pub effects: Vec<Effect>,
    pub hold: Duration,
    /// What it does to a node that it hits.
    pub harm: Harm,
}

impl Shaping {
    fn rules(&self, site: &Site<'_>) -> Vec<Rule> {
        let selectors = self.whom.selectors(site);
        let rules = |on: crate::network::Selector| {
            self.effects.iter().map(move |does| Rule { on: on.clone(), does: does.clone() })
        };
        selectors.into_iter().flat_map(rules).collect()
    }
}

#[async_trait]
impl Fault for Shaping {
    fn target(&self) -> NodeTarget {
        self.whom.target.clone()
    }

    fn reach(&self) -> Reach {
        self.whom.reach()
    }

    fn harm(&self) -> Harm {
        if self.whom.is_clients() { Harm::Slows } else { self.harm }
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
        put_in_force(site, memo, self.rules(site)).await
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        acted(site, memo, deadline).await
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

/// The proxies, and under which name its rules are in force.
pub(super) fn prepare(site: &Site<'_>) -> Result<Memo, FaultError> {
    network(site)?;
    Ok(facts([("rules_of", json!(format!("{}/{}", site.fault, site.node)))]))
}

/// The proxies.
pub(super) fn network<'a>(site: &Site<'a>) -> Result<&'a Network, FaultError> {
    site.on.network().ok_or_else(|| site.unavailable("no proxies of ours are in front of the servers"))
}

fn owner(memo: &Memo) -> &str {
    memo.get("rules_of").and_then(Value::as_str).unwrap_or_default()
}

/// Puts rules in force, in place of all that the fault had.
pub(super) async fn put_in_force(
    site: &Site<'_>,
    memo: &Memo,
    rules: Vec<Rule>,
) -> Result<Evidence, FaultError> {
    let network = network(site)?;
    let count = rules.len();
    network.set(owner(memo), rules);
    network.obeyed(OBEYED_WITHIN).await.map_err(|error| site.failed("set rules for", error))?;
    let hit: u64 = network.counts(owner(memo)).iter().map(|rule| rule.connections).sum();
    Ok(facts([("rules", json!(count)), ("connections_open", json!(hit))]))
}

/// Waits until a rule did something to somebody.
pub(super) async fn acted(site: &Site<'_>, memo: &Memo, deadline: Duration) -> Result<Evidence, FaultError> {
    let network = network(site)?;
    let look = || async {
        let counts = network.counts(owner(memo));
        counts.iter().any(|rule| rule.acted > 0).then_some(counts)
    };
    Ok(counted(&site.until(deadline, "no connection to be hit by it", look).await?))
}

/// Takes the rules back, and says what they did. With the process that had the proxies, the rules are gone.
pub(super) async fn take_back(site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
    let Some(network) = site.on.network() else {
        return Ok(facts([("gone_with_the_tester", json!(true))]));
    };
    let counts = network.clear(owner(memo));
    network.obeyed(OBEYED_WITHIN).await.map_err(|error| site.failed("take back rules of", error))?;
    Ok(counted(&counts))
}

fn counted(counts: &[RuleCount]) -> Evidence {
    let sum = |of: fn(&RuleCount) -> u64| json!(counts.iter().map(of).sum::<u64>());
    facts([
        ("connections", sum(|rule| rule.connections)),
        ("bytes_passed", sum(|rule| rule.bytes)),
        ("acted", sum(|rule| rule.acted)),
    ])
}

/// Every node that was hit answers through its proxy again, and is a member in its place.
pub(super) async fn passes(site: &Site<'_>, deadline: Duration) -> Result<Evidence, FaultError> {
    let mut seen = Evidence::new();
    let each = [site.node.to_owned()];
    let nodes = if site.node == crate::TOGETHER { site.nodes } else { &each };
    for node in nodes {
        let site = Site { node, ..*site };
        site.until(deadline, "an answer through its proxy", || answers(&site)).await?;
        let settled = async || {
            let view = site.view().await;
            view.member(site.node).is_some_and(crate::Member::is_well).then_some(())
        };
        site.until(deadline, "its return into the set", settled).await?;
        seen = back(&site, deadline).await?;
    }
    Ok(seen)
}

/// A node that does not run is not what this waits for: others brought it down.
async fn answers(site: &Site<'_>) -> Option<()> {
    let address = site.on.address(site.node)?;
    let mut connection = Connection::connect(&address, ANSWER).await.ok()?;
    connection.command("admin", &bson::doc! { "hello": 1 }, ANSWER).await.ok().map(drop)
}
