//! `remove_member`: taken out of the configuration of the set, and added again.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::config;
use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Role, Site,
    TARGET_SECONDARY, facts,
};

/// `InvalidReplicaSetConfig`: what a member says that was removed.
const REMOVED: i32 = 93;

/// `replSetReconfig` without a member.
pub const REMOVE_MEMBER: Kind = Kind {
    name: "remove_member",
    group: "replication",
    does: "takes a secondary out of the set, adds it again after a time",
    parameters: &[TARGET_SECONDARY, FOR_30_S],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        Ok(Box::new(Remove { target: parameters.target("target")?, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct Remove {
    target: NodeTarget,
    hold: Duration,
}

#[async_trait]
impl Fault for Remove {
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
        // The configuration is data.
        false
    }

    /// Its entry in the configuration.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if site.role_before() == Role::Primary {
            return Err(site.nothing_to_do("is the primary, which cannot be removed: step it down first"));
        }
        let mut config = config::current(site).await?;
        let member = config::member(site, &mut config, site.node);
        let member = member.ok_or_else(|| site.nothing_to_do("is no member of the set"))?.clone();
        Ok(facts([("member", Bson::Document(member).into_canonical_extjson())]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let host = host(memo);
        let version = config::change(site, |config| {
            let Ok(members) = config.get_array_mut("members") else {
                return false;
            };
            let before = members.len();
            members.retain(|member| !is(member, &host));
            members.len() < before
        })
        .await?;
        Ok(facts([("version", json!(version)), ("host", json!(host))]))
    }

    /// It says itself that it belongs to no set.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "it still is a member", || async {
            match site.ask(doc! { "replSetGetStatus": 1 }).await {
                Err(CommandError::Server { code: REMOVED, message, .. }) => {
                    Some(facts([("state", json!("REMOVED")), ("answer", json!(message))]))
                }
                _ => None,
            }
        })
        .await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let (host, entry) = (host(memo), entry(memo));
        let version = config::change(site, |config| {
            let Ok(members) = config.get_array_mut("members") else {
                return false;
            };
            if members.iter().any(|member| is(member, &host)) {
                return false;
            }
            members.push(Bson::Document(entry.clone()));
            true
        })
        .await?;
        Ok(facts([("version", json!(version))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "it is no secondary again", || async {
            let role = site.view().await.member(site.node)?.role;
            matches!(role, Role::Secondary | Role::Primary).then(|| facts([("role_after", json!(role))]))
        })
        .await
    }
}

fn entry(memo: &Memo) -> Document {
    let member = memo.get("member").cloned().unwrap_or(Value::Null);
    Bson::try_from(member).ok().and_then(|member| member.as_document().cloned()).unwrap_or_default()
}

fn host(memo: &Memo) -> String {
    entry(memo).get_str("host").unwrap_or_default().to_owned()
}

fn is(member: &Bson, host: &str) -> bool {
    member.as_document().is_some_and(|member| member.get_str("host").is_ok_and(|h| h == host))
}
