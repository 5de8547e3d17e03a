//! `freeze`: a secondary may not stand for election.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Role, Site, TARGET_SECONDARY,
    facts,
};

/// The server thaws by itself a while after we should have done so.
const SLACK_S: i64 = 600;
/// `CommandFailed`: how a server refuses to stand.
const REFUSED: i32 = 125;
/// `NotSecondary`: a primary cannot be frozen.
const NOT_SECONDARY: i32 = 95;

/// `replSetFreeze`.
pub const FREEZE: Kind = Kind {
    name: "freeze",
    group: "replication",
    does: "a secondary may not stand for election (replSetFreeze)",
    parameters: &[TARGET_SECONDARY, FOR_30_S],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        Ok(Box::new(Freeze { target: parameters.target("target")?, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct Freeze {
    target: NodeTarget,
    hold: Duration,
}

#[async_trait]
impl Fault for Freeze {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        match site.role_before() {
            Role::Secondary => Ok(Memo::new()),
            Role::Primary => Err(site.nothing_to_do("is the primary: only a secondary can be frozen")),
            _ => Err(site.nothing_to_do("is no secondary")),
        }
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let seconds = i64::try_from(self.hold.as_secs()).unwrap_or(i64::MAX / 2) + SLACK_S;
        match site.ask(doc! { "replSetFreeze": seconds }).await {
            Ok(_) => Ok(facts([("frozen_for_s", json!(seconds))])),
            Err(CommandError::Server { code: NOT_SECONDARY, message, .. }) => {
                Err(site.nothing_to_do(message))
            }
            Err(error) => Err(site.failed("freeze", error)),
        }
    }

    /// It is asked to stand, and refuses.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        match site.ask(doc! { "replSetStepUp": 1 }).await {
            Err(CommandError::Server { code: REFUSED, message, .. }) => {
                Ok(facts([("stands", json!(false)), ("refusal", json!(message))]))
            }
            Err(error) => Err(site.failed("ask whether it would stand", error)),
            Ok(_) => Err(site.no_effect(deadline, "it stood for election when it was asked to")),
        }
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        thaw(site).await
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        _deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let view = site.view().await;
        Ok(facts([("role_after", json!(view.member(site.node).map_or(Role::Down, |m| m.role)))]))
    }
}

/// Lets a node stand again. A node that does not run is not frozen; a primary neither.
pub(super) async fn thaw(site: &Site<'_>) -> Result<Evidence, FaultError> {
    match site.ask(doc! { "replSetFreeze": 0 }).await {
        Ok(answer) => {
            let info = answer.get_str("info").unwrap_or("thawed").to_owned();
            Ok(facts([("thawed", json!(true)), ("answer", json!(info))]))
        }
        Err(CommandError::Server { code: NOT_SECONDARY, .. }) => Ok(facts([("is_primary", json!(true))])),
        Err(error) => match site.view().await.member(site.node).map(|m| m.role) {
            None | Some(Role::Down) if site.on.ends_with_tester() => Ok(facts([("down", json!(true))])),
            _ => Err(site.failed("thaw", error)),
        },
    }
}
