//! `lag`: a secondary stays behind by a fixed time. It answers, with old data.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Map, Value, json};

use super::config;
use super::reconfig::Reconfig;
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Role, Site,
    TARGET_SECONDARY, Takes, facts,
};

/// Behind by less than this it counts as caught up; an idle set writes a no-op every ten seconds.
const CAUGHT_UP_S: f64 = 2.0;
/// Name of the field since 5.0, and before.
const DELAY: &str = "secondaryDelaySecs";
const OLD_DELAY: &str = "slaveDelay";

/// A delayed member.
pub const LAG: Kind = Kind {
    name: "lag",
    group: "replication",
    does: "a secondary applies everything late (a delayed member) and may not lead meanwhile",
    parameters: &[
        Parameter { about: "whom to delay: secondaries", ..TARGET_SECONDARY },
        Parameter {
            name: "delay",
            takes: Takes::Duration,
            default: Preset::Seconds(20.0),
            about: "how far behind, in whole seconds",
        },
        Parameter { about: "how long it stays so, once its lag was seen", ..FOR_30_S },
    ],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        let delay = parameters.duration("delay")?;
        if delay < Duration::from_secs(5) || delay.subsec_nanos() > 0 {
            return Err("delay: write whole seconds, at least 5s".into());
        }
        Ok(Box::new(Lag { target: parameters.target("target")?, delay, hold: parameters.duration("for")? }))
    },
};

#[derive(Debug)]
struct Lag {
    target: NodeTarget,
    delay: Duration,
    hold: Duration,
}

impl Lag {
    /// The change of the configuration; the name of the field is that of the server.
    fn change(&self, delay_field: &str) -> Reconfig {
        let fields = [("priority", json!(0)), (delay_field, json!(self.delay.as_secs()))];
        let fields = fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        Reconfig { target: self.target.clone(), fields, hold: self.hold }
    }

    fn change_of(&self, memo: &Memo) -> Reconfig {
        let old = |former: &Value| former.as_object().is_some_and(|f: &Map<_, _>| f.contains_key(OLD_DELAY));
        self.change(if memo.values().any(old) { OLD_DELAY } else { DELAY })
    }
}

#[async_trait]
impl Fault for Lag {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn reach(&self) -> crate::Reach {
        crate::Reach::Together
    }

    /// What it acknowledges comes late: for writes with majority it is as good as gone.
    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let follows = |node: &&String| site.before.member(node).is_some_and(|m| m.role == Role::Secondary);
        if let Some(other) = site.nodes.iter().find(|node| !follows(node)) {
            return Err(site.nothing_to_do(format!("cannot delay {other}: it is no secondary")));
        }
        let mut now = config::current(site).await?;
        let old = site.nodes.iter().any(|node| {
            config::member(site, &mut now, node).is_some_and(|member| member.contains_key(OLD_DELAY))
        });
        self.change(if old { OLD_DELAY } else { DELAY }).prepare(site).await
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        self.change_of(memo).inject(site, memo).await
    }

    /// The primary sees them behind.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        // An idle set shows a lag only with its next no-op, and only up to that.
        let behind_s = (self.delay.as_secs_f64() / 2.0).min(10.0);
        let what = format!("a lag of {behind_s} s was not seen (is anything written at all?)");
        site.until(deadline + self.delay, &what, || async {
            let mut seen = Evidence::new();
            for node in site.nodes {
                let lag_s = lag_s(site, node).await.filter(|lag_s| *lag_s >= behind_s)?;
                seen.insert(format!("lag_s_{node}"), json!(lag_s));
            }
            Some(seen)
        })
        .await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        self.change_of(memo).lift(site, memo).await
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let mut seen = self.change_of(memo).observe_lifted(site, memo, deadline).await?;
        let caught_up = site.until(deadline, "it did not catch up", || async {
            for node in site.nodes {
                lag_s(site, node).await.filter(|lag_s| *lag_s <= CAUGHT_UP_S)?;
            }
            Some(facts([("caught_up", json!(true))]))
        });
        seen.extend(caught_up.await?);
        Ok(seen)
    }
}

/// How far a node is behind the primary, as the primary sees it, in seconds. `None`: not to be seen now.
pub(crate) async fn lag_s(site: &Site<'_>, node: &str) -> Option<f64> {
    let primary = site.view().await.primary()?.name.clone();
    let (ahead, behind) = (site.on.address(&primary)?, site.on.address(node)?);
    let status = site.ask_node(&primary, doc! { "replSetGetStatus": 1 }).await.ok()?;
    let members: Vec<&Document> =
        status.get_array("members").ok()?.iter().filter_map(Bson::as_document).collect();
    let applied_ms = |name: &str| {
        let member = members.iter().find(|member| member.get_str("name").is_ok_and(|n| n == name))?;
        Some(member.get_datetime("optimeDate").ok()?.timestamp_millis())
    };
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a lag are few")]
    let lag_ms = (applied_ms(&ahead)? - applied_ms(&behind)?) as f64;
    Some((lag_ms / 1e3).max(0.0))
}
