//! `cpu_pressure`: a part of one processor for a server, as under the quota of a container or beside noisy
//! neighbours.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::cgroup::{Controller, Version};
use super::confined::{self, Limit};
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Proof, Site, TARGET_PRIMARY,
    Takes, facts,
};

/// The kernel's own default.
const PERIOD_US: u32 = 100_000;
/// The smallest quota that the kernel takes.
const LEAST_QUOTA_US: f64 = 1_000.0;

/// A quota.
pub const CPU_PRESSURE: Kind = Kind {
    name: "cpu_pressure",
    group: "resource",
    does: "leaves a server a part of one processor (a quota of a control group)",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "share",
            takes: Takes::Share,
            default: Preset::Share(0.25),
            about: "what is left to it, as a part of one processor",
        },
        FOR_30_S,
    ],
    needs: &[Need::Processes, Need::CgroupCpu],
    build: |parameters| {
        let share = parameters.number("share")?;
        if !(share > 0.0 && share <= 1.0) {
            return Err("share: must be above 0 and at most 1".into());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1,000 to 100,000")]
        let quota_us = (share * f64::from(PERIOD_US)).max(LEAST_QUOTA_US) as u32;
        Ok(Box::new(CpuPressure {
            target: parameters.target("target")?,
            quota_us,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct CpuPressure {
    target: NodeTarget,
    quota_us: u32,
    hold: Duration,
}

#[async_trait]
impl Fault for CpuPressure {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    /// The empty group would stay.
    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let on = confined::hierarchy(site, Controller::Cpu)?;
        let limits = match on.version {
            Version::One => vec![
                Limit::new("cpu.cfs_period_us", PERIOD_US, PERIOD_US),
                Limit::new("cpu.cfs_quota_us", self.quota_us, -1),
            ],
            Version::Two => vec![Limit::new("cpu.max", format!("{} {PERIOD_US}", self.quota_us), "max")],
        };
        confined::memo(site, &on, &Proof::at(site).await?, &limits)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        confined::confine(site, &confined::hierarchy(site, Controller::Cpu)?, memo)
    }

    /// It was made to wait at least once.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let group = confined::is_confined(site, memo)?;
        let idle = format!("it never wanted more than {} of {PERIOD_US} us", self.quota_us);
        site.until(deadline, &idle, || async {
            let throttled = group.count("cpu.stat", "nr_throttled").filter(|count| *count > 0)?;
            Some(facts([("periods_throttled", json!(throttled))]))
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        tokio::time::sleep(self.hold).await;
        let group = confined::is_confined(site, memo).ok();
        let count = |name| group.as_ref().and_then(|group| group.count("cpu.stat", name));
        Ok(facts([("periods", json!(count("nr_periods"))), ("periods_throttled", json!(count("nr_throttled")))]))
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
        confined::is_released(site, Controller::Cpu, memo, deadline).await
    }
}
