//! `wipe`: a member loses its data and copies all of it from the others.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::end::{back, exit_facts};
use crate::catalog::{Kind, Need};
use crate::target::majority_of;
use crate::{
    Evidence, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Role, Site, TARGET_SECONDARY,
    Takes, facts,
};

const SIGKILL: i32 = 9;
const EXIT_DEADLINE: Duration = Duration::from_secs(60);

/// SIGKILL, an empty folder, a start: initial sync.
pub const WIPE: Kind = Kind {
    name: "wipe",
    group: "process",
    does: "SIGKILL a mongod and remove its data; it starts empty and copies all from the others (initial sync)",
    parameters: &[
        TARGET_SECONDARY,
        Parameter {
            name: "restart_after",
            takes: Takes::Duration,
            default: Preset::Seconds(1.0),
            about: "time between the seen effect and the start",
        },
    ],
    needs: &[Need::Managed, Need::ThreeMembers],
    build: |parameters| {
        Ok(Box::new(Wipe {
            target: parameters.target("target")?,
            restart_after: parameters.duration("restart_after")?,
        }))
    },
};

#[derive(Debug)]
struct Wipe {
    target: NodeTarget,
    restart_after: Duration,
}

#[async_trait]
impl Fault for Wipe {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.restart_after
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// Never the only copy: a majority of the others must have the data.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let members = &site.before.members;
        let hit = |name: &String| site.nodes.contains(name);
        let well = |role: Role| matches!(role, Role::Primary | Role::Secondary);
        let others = members.iter().filter(|m| !hit(&m.name) && well(m.role)).count();
        if members.len() < 3 || others < majority_of(members.len()) {
            let why = format!("was left alone: only {others} others of {} have the data now", members.len());
            return Err(site.nothing_to_do(why));
        }
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        Ok(facts([("pid", json!(pid))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.signal(site.node, SIGKILL).await?;
        let exit = site.on.wait_exit(site.node, EXIT_DEADLINE).await?;
        site.on.wipe(site.node).await?;
        let mut done = facts([("pid", memo["pid"].clone())]);
        done.extend(exit_facts(exit));
        Ok(done)
    }

    /// Nothing of its data is left.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let place =
            site.on.place(site.node).ok_or_else(|| site.unavailable("its data is not on this machine"))?;
        let left = std::fs::read_dir(&place.data).map_err(|e| site.failed("look at the data of", e))?.count();
        if left > 0 || site.on.pid(site.node).await.is_some() {
            return Err(site.no_effect(deadline, format!("{left} files are left")));
        }
        Ok(facts([("role_before", json!(site.role_before())), ("files_left", json!(left))]))
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(facts([("pid_after", json!(site.on.start(site.node).await?))]))
    }

    /// It has copied everything: it follows (or leads) again.
    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        back(site, deadline).await?;
        site.until(deadline, "the initial sync did not end", || async {
            let role = site.view().await.member(site.node)?.role;
            matches!(role, Role::Primary | Role::Secondary).then(|| facts([("role_after", json!(role))]))
        })
        .await
    }
}
