//! `reconfig`: other priorities, votes or visibility for a time; then the former ones again.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document};
use serde_json::{Map, Value, json};

use super::config;
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Reach, Site,
    TARGET_SECONDARY, Takes, facts,
};

/// `replSetReconfig` of one field or more of some members.
pub const RECONFIG: Kind = Kind {
    name: "reconfig",
    group: "replication",
    does: "changes fields of members in the configuration of the set (priority, votes, hidden, tags ...)",
    parameters: &[
        TARGET_SECONDARY,
        Parameter {
            name: "fields",
            takes: Takes::Table,
            default: Preset::Required,
            about: "their new values, { priority = 5 }",
        },
        FOR_30_S,
    ],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        let fields = parameters.any("fields").and_then(Value::as_object).cloned().unwrap_or_default();
        if fields.is_empty() {
            return Err("fields: name at least one, for example { priority = 5 }".into());
        }
        if let Some(fixed) = ["_id", "host"].iter().find(|fixed| fields.contains_key(**fixed)) {
            return Err(format!("fields: {fixed} of a member cannot be changed"));
        }
        Ok(Box::new(Reconfig {
            target: parameters.target("target")?,
            fields,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
pub(super) struct Reconfig {
    pub(super) target: NodeTarget,
    pub(super) fields: Map<String, Value>,
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for Reconfig {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    /// One change of the configuration for all of them.
    fn reach(&self) -> Reach {
        Reach::Together
    }

    /// A member without a vote is missing in every majority.
    fn harm(&self) -> Harm {
        if self.fields.get("votes").is_some_and(|votes| alike(votes, &json!(0))) {
            Harm::TakesDown
        } else {
            Harm::Slows
        }
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        // The configuration is data.
        false
    }

    /// The former values of these fields, by node.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let mut config = config::current(site).await?;
        let mut memo = Memo::new();
        for node in site.nodes {
            let member = config::member(site, &mut config, node);
            let member = member.ok_or_else(|| site.failed("find in the configuration", node))?;
            memo.insert(node.clone(), fields_of(member, self.fields.keys()).into());
        }
        if memo.values().all(|former| former.as_object() == Some(&self.fields)) {
            return Err(site.nothing_to_do("has these values already"));
        }
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let version = config::change(site, |config| {
            let mut found = false;
            for node in site.nodes {
                if let Some(member) = config::member(site, config, node) {
                    set(member, &self.fields);
                    found = true;
                }
            }
            found
        })
        .await?;
        Ok(facts([("version", json!(version)), ("fields", json!(self.fields))]))
    }

    /// Every member that answers has the new configuration, not only the one that took it.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        self.seen_by_all(site, deadline, |_| &self.fields).await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let version = config::change(site, |config| {
            let mut changed = false;
            for (node, former) in memo {
                let (Some(former), Some(member)) = (former.as_object(), config::member(site, config, node))
                else {
                    continue;
                };
                if fields_of(member, self.fields.keys()) != *former {
                    self.fields.keys().for_each(|field| drop(member.remove(field)));
                    set(member, former);
                    changed = true;
                }
            }
            changed
        })
        .await?;
        Ok(facts([("version", json!(version))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let empty = Map::new();
        self.seen_by_all(site, deadline, |node| memo.get(node).and_then(Value::as_object).unwrap_or(&empty))
            .await
    }
}

impl Reconfig {
    async fn seen_by_all<'f>(
        &'f self,
        site: &Site<'_>,
        deadline: Duration,
        wanted: impl Fn(&str) -> &'f Map<String, Value>,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "the new configuration on every member", || async {
            let mut members = 0;
            for member in site.view().await.members {
                let asked = site.ask_node(&member.name, bson::doc! { "replSetGetConfig": 1 }).await.ok()?;
                let mut config = asked.get_document("config").ok()?.clone();
                for node in site.nodes {
                    let entry = config::member(site, &mut config, node)?;
                    let now = fields_of(entry, self.fields.keys());
                    let same = wanted(node)
                        .iter()
                        .all(|(name, value)| now.get(name).is_some_and(|n| alike(n, value)));
                    if !same {
                        return None;
                    }
                }
                members += 1;
            }
            Some(facts([("seen_by_members", json!(members))]))
        })
        .await
    }
}

/// The server may answer 5.0 where 5 was written.
fn alike(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if (a - b).abs() < f64::EPSILON)
}

fn set(member: &mut Document, fields: &Map<String, Value>) {
    for (name, value) in fields {
        if let Ok(value) = Bson::try_from(value.clone()) {
            member.insert(name, value);
        }
    }
}

fn fields_of<'f>(member: &Document, names: impl Iterator<Item = &'f String>) -> Map<String, Value> {
    let field = |name: &String| Some((name.clone(), member.get(name)?.clone().into_relaxed_extjson()));
    names.filter_map(field).collect()
}
