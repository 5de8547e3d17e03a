//! `memory_pressure`: no memory beyond a limit for a server and its page cache.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::cgroup::{Controller, Group, Version};
use super::confined::{self, Limit};
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Proof, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// What is left to it when the scenario names no limit.
const DEFAULT_ROOM_BYTES: u64 = 64 << 20;
/// With less room it could not even answer.
const LEAST_ROOM_BYTES: u64 = 16 << 20;

/// A limit of a control group, at which the server waits instead of being killed.
///
/// Kernels of today do not take memory along when a process changes its group: what the server has stays where it
/// is, and what it takes from then on counts. So the group gets what is left up to the limit.
pub const MEMORY_PRESSURE: Kind = Kind {
    name: "memory_pressure",
    group: "resource",
    does: "no memory beyond a limit for a server and its page cache; at the limit it waits, it is not killed",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "limit",
            takes: Takes::Size,
            default: Preset::Absent,
            about: "how much it may have, at least 16MiB more than it has; left out: 64MiB more",
        },
        FOR_30_S,
    ],
    needs: &[Need::Processes, Need::CgroupMemory],
    build: |parameters| {
        let limit_bytes = parameters.has("limit").then(|| parameters.count("limit")).transpose()?;
        Ok(Box::new(MemoryPressure {
            target: parameters.target("target")?,
            limit_bytes,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct MemoryPressure {
    target: NodeTarget,
    limit_bytes: Option<u64>,
    hold: Duration,
}

#[async_trait]
impl Fault for MemoryPressure {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        // It may wait for memory as long as the fault holds.
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// The empty group would stay.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let on = confined::hierarchy(site, Controller::Memory)?;
        let server = Proof::at(site).await?;
        let has = resident_bytes(server.pid).ok_or_else(|| site.nothing_to_do("was not running"))?;
        let limit = self.limit_bytes.unwrap_or(has + DEFAULT_ROOM_BYTES);
        let room = limit.saturating_sub(has);
        if room < LEAST_ROOM_BYTES {
            return Err(site.unavailable(format!(
                "has {} MiB now: a limit of {} MiB would stop it at once; allow at least 16 MiB more",
                has >> 20,
                limit >> 20
            )));
        }
        let limits = match on.version {
            // The kernel must not kill it: it waits until there is memory again.
            Version::One => vec![
                Limit::new("memory.limit_in_bytes", room, -1),
                Limit::new("memory.oom_control", 1, 0),
            ],
            // Above `high` it is slowed down to a crawl, and never killed.
            Version::Two => vec![Limit::new("memory.high", room, "max")],
        };
        let mut memo = confined::memo(site, &on, &server, &limits)?;
        memo.extend(facts([("resident_bytes", json!(has)), ("room_bytes", json!(room))]));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut done = confined::confine(site, &confined::hierarchy(site, Controller::Memory)?, memo)?;
        for name in ["resident_bytes", "room_bytes"] {
            done.insert(name.into(), memo[name].clone());
        }
        Ok(done)
    }

    /// It came to its limit.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let group = confined::is_confined(site, memo)?;
        site.until(deadline, "it did not come to its limit: it took little memory", || async {
            let reached = reached(&group);
            (reached > 0).then(|| facts([("limit_reached", json!(reached)), ("group_bytes", usage(&group))]))
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        tokio::time::sleep(self.hold).await;
        let group = confined::is_confined(site, memo)?;
        Ok(facts([("limit_reached", json!(reached(&group))), ("group_bytes", usage(&group))]))
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        confined::release(site, memo).await
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        confined::is_released(site, Controller::Memory, memo, deadline).await
    }
}

/// How often the group was at its limit.
fn reached(group: &Group) -> u64 {
    let first = || group.read("memory.failcnt").ok()?.parse().ok();
    group.count("memory.events", "high").or_else(first).unwrap_or(0)
}

fn usage(group: &Group) -> serde_json::Value {
    let used = group.read("memory.usage_in_bytes").or_else(|_| group.read("memory.current"));
    json!(used.ok().and_then(|used| used.parse::<u64>().ok()))
}

/// Memory of its own that a process has now.
fn resident_bytes(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
