//! `partition`: two groups cannot hear each other; everybody else hears both.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::black_hole::{AFTERWARDS, on_lift};
use super::shaping::{acted, passes, prepare, put_in_force, take_back};
use super::whom::Direction;
use super::{DIRECTION, SIDE, whom};
use crate::catalog::{Kind, Need};
use crate::network::{Effect, OnLift, Party, Rule, Selector, Side};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Reach, Site, Takes,
    facts, party,
};

/// How the clients are called among the names of a group.
const CLIENTS: &str = "clients";

/// A split network.
pub const PARTITION: Kind = Kind {
    name: "partition",
    group: "network",
    does: "cuts the connections between two groups of members or clients; by default the primary from all others",
    parameters: &[
        Parameter { name: "from", about: "one side", ..party("primary") },
        Parameter {
            name: "to",
            takes: Takes::Party,
            default: Preset::Absent,
            about: "the other side; left out: all other members, and clients still pass",
        },
        Parameter {
            about: "out: only connections that \"from\" dials are cut; in: only those that \"to\" dials",
            ..DIRECTION
        },
        SIDE,
        AFTERWARDS,
        FOR_30_S,
    ],
    needs: &[Need::Proxies, Need::ReplicaSet],
    build: |parameters| {
        let to = parameters.has("to").then(|| parameters.party("to")).transpose()?;
        let from = parameters.party("from")?;
        if to.as_ref() == Some(&from) {
            return Err("to: is the same side as \"from\"".into());
        }
        Ok(Box::new(Partition {
            from,
            to,
            direction: Direction::read(parameters)?,
            side: whom::side(parameters)?,
            on_lift: on_lift(parameters)?,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct Partition {
    from: NodeTarget,
    to: Option<NodeTarget>,
    direction: Direction,
    side: Side,
    on_lift: OnLift,
    hold: Duration,
}

/// Members and perhaps the clients, on one side.
type Group = BTreeSet<String>;

impl Partition {
    /// Everybody in one target, by name.
    fn group(target: &NodeTarget, site: &Site<'_>) -> Group {
        match target {
            NodeTarget::Clients => Group::from([CLIENTS.to_owned()]),
            NodeTarget::Nodes(names) => names.iter().cloned().collect(),
            target => target.resolve(site.before, site.tie).into_iter().collect(),
        }
    }

    fn groups(&self, site: &Site<'_>) -> (Group, Group) {
        let from = match self.from {
            // Was resolved with the fault.
            NodeTarget::Clients | NodeTarget::Nodes(_) => Self::group(&self.from, site),
            _ => site.nodes.iter().cloned().collect(),
        };
        let others = || site.before.members.iter().map(|member| member.name.clone()).collect();
        let to = self.to.as_ref().map_or_else(others, |to| Self::group(to, site));
        let to = to.difference(&from).cloned().collect();
        (from, to)
    }

    fn rules(&self, from: &Group, to: &Group) -> Vec<Rule> {
        let dialled = |by: &Group, to: &Group| {
            let parties = by.iter().map(|name| match name.as_str() {
                CLIENTS => Party::Client,
                member => Party::Member(member.into()),
            });
            let members = to.iter().filter(|name| *name != CLIENTS).cloned();
            Selector::all().from(parties).to(members)
        };
        let selectors = match self.direction {
            Direction::Out => vec![dialled(from, to)],
            Direction::In => vec![dialled(to, from)],
            Direction::Both => vec![dialled(from, to), dialled(to, from)],
        };
        let does = Effect::Stall { side: self.side, on_lift: self.on_lift };
        selectors.into_iter().map(|on| Rule { on, does: does.clone() }).collect()
    }
}

#[async_trait]
impl Fault for Partition {
    fn target(&self) -> NodeTarget {
        self.from.clone()
    }

    fn reach(&self) -> Reach {
        Reach::Together
    }

    fn harm(&self) -> Harm {
        let only_clients = self.from == NodeTarget::Clients || self.to.as_ref() == Some(&NodeTarget::Clients);
        if only_clients { Harm::Slows } else { Harm::TakesDown }
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let mut memo = prepare(site)?;
        let (from, to) = self.groups(site);
        if from.is_empty() || to.is_empty() {
            return Err(site.nothing_to_do("has nobody on one of the two sides"));
        }
        memo.extend(facts([("from", json!(from)), ("to", json!(to))]));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let rules = self.rules(&names(memo, "from"), &names(memo, "to"));
        let mut done = put_in_force(site, memo, rules).await?;
        done.extend(memo.iter().filter(|(key, _)| *key != "rules_of").map(|(k, v)| (k.clone(), v.clone())));
        Ok(done)
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

fn names(memo: &Memo, key: &str) -> Group {
    let list = memo.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
