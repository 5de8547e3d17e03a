//! `stepdown`: the primary hands over. It counts only when another node leads in a newer term.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Role, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// A secondary that catches up, or a lock that is taken, may need some tries.
const INJECT_DEADLINE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(500);
/// The server waits so long for a secondary to catch up; below the freeze, as it demands.
const CATCH_UP_S: u64 = 10;
/// `LockTimeout`, `ExceededTimeLimit` (nobody had caught up), `MaxTimeMSExpired`, `Interrupted...`, and another
/// change of roles in progress: passing, ask again.
const PASSING: [i32; 6] = [24, 262, 50, 11_601, 11_602, 117];
/// `PrimarySteppedDown` and `NotWritablePrimary`: somebody was quicker, look who leads.
const DONE_ALREADY: [i32; 2] = [189, 10_107];

/// `replSetStepDown`.
pub const STEPDOWN: Kind = Kind {
    name: "stepdown",
    group: "replication",
    does: "the primary steps down, and may not stand again for a time",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "freeze",
            takes: Takes::Duration,
            default: Preset::Seconds(60.0),
            about: "how long it may not stand again",
        },
        Parameter {
            name: "force",
            takes: Takes::Flag,
            default: Preset::Flag(false),
            about: "also when no secondary has caught up",
        },
    ],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        let freeze = parameters.duration("freeze")?;
        if freeze < Duration::from_secs(2) {
            return Err("freeze: at least 2 s, or the same node wins again at once".into());
        }
        let (target, force) = (parameters.target("target")?, parameters.flag("force")?);
        Ok(Box::new(Stepdown { target, freeze, force }))
    },
};

#[derive(Debug)]
struct Stepdown {
    target: NodeTarget,
    freeze: Duration,
    force: bool,
}

#[async_trait]
impl Fault for Stepdown {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.freeze
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if site.role_before() != Role::Primary {
            return Err(site.nothing_to_do("is no primary of a replica set"));
        }
        if site.before.members.len() < 2 {
            return Err(site.nothing_to_do("has nobody to hand over to: the set has one member"));
        }
        Ok(facts([("term_before", json!(site.before.term()))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let freeze_s = self.freeze.as_secs();
        let command = doc! {
            "replSetStepDown": i64::try_from(freeze_s).unwrap_or(i64::MAX),
            "secondaryCatchUpPeriodSecs": i64::try_from(CATCH_UP_S.min(freeze_s - 1)).unwrap_or_default(),
            "force": self.force,
        };
        let (mut attempts, mut last) = (0, String::new());
        let asking = async {
            loop {
                attempts += 1;
                match site.ask(command.clone()).await {
                    Ok(_) => return Ok(None),
                    Err(CommandError::Server { code, .. }) if DONE_ALREADY.contains(&code) => {
                        return Ok(Some("it had stepped down already".to_owned()));
                    }
                    // It closes connections when it steps down: who leads now decides.
                    Err(error @ CommandError::Io(_)) => return Ok(Some(error.to_string())),
                    Err(error) if is_passing(&error) => last = error.to_string(),
                    Err(error) => return Err(site.failed("step down", error)),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let answer = tokio::time::timeout(INJECT_DEADLINE, asking).await;
        let Ok(answer) = answer else {
            return Err(site.no_effect(INJECT_DEADLINE, format!("{attempts} attempts; the last one: {last}")));
        };
        let mut done = facts([("attempts", json!(attempts)), ("freeze_s", json!(freeze_s))]);
        done.extend(answer?.map(|answer| ("answer".into(), json!(answer))));
        Ok(done)
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let term_before = memo["term_before"].as_i64();
        let what = "another primary in a newer term";
        let (primary, term) = site
            .until(deadline, what, || async {
                let view = site.view().await;
                let primary = view.primary().filter(|p| p.name != site.node)?.name.clone();
                let term = view.term();
                (term > term_before).then_some((primary, term))
            })
            .await?;
        Ok(facts([
            ("primary_before", json!(site.node)),
            ("primary_after", json!(primary)),
            ("term_before", json!(term_before)),
            ("term_after", json!(term)),
        ]))
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        super::freeze::thaw(site).await
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

fn is_passing(error: &CommandError) -> bool {
    match error {
        CommandError::Server { code, .. } => PASSING.contains(code),
        CommandError::Timeout(_) => true,
        _ => false,
    }
}
