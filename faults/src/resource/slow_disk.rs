//! `slow_disk`: as many operations in a second as a slower disk would do.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::cgroup::{Controller, Group, Version};
use super::confined::{self, Limit};
use super::device::disk_of;
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Proof, Site, TARGET_PRIMARY,
    Takes, facts,
};

/// What a disk does in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    reads: u64,
    writes: u64,
    bytes: u64,
}

/// Disks to be like, by name.
const DISKS: &[(&str, Pace)] = &[
    // 7,200 turns in a minute, with seeks.
    ("spinning_disk", Pace { reads: 120, writes: 120, bytes: 150 << 20 }),
    // The smaller volumes of the large providers.
    ("cloud_volume", Pace { reads: 3_000, writes: 3_000, bytes: 125 << 20 }),
];

/// Limits of a control group for the disk of the data.
pub const SLOW_DISK: Kind = Kind {
    name: "slow_disk",
    group: "resource",
    does: "lets a server's disk do only so many operations in a second (limits of a control group)",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "like",
            takes: Takes::Choice(&["spinning_disk", "cloud_volume"]),
            default: Preset::Text("spinning_disk"),
            about: "which disk to be like: 120 operations and 150 MiB, or 3000 operations and 125 MiB in a second",
        },
        Parameter {
            name: "read_iops",
            takes: Takes::Count,
            default: Preset::Absent,
            about: "reads in a second, instead of those of that disk",
        },
        FOR_30_S,
    ],
    needs: &[Need::Processes, Need::CgroupIo],
    build: |parameters| {
        let like = parameters.text("like")?;
        let known = DISKS.iter().find(|(name, _)| *name == like);
        let (_, mut pace) = *known.ok_or_else(|| format!("like: no disk is called {like:?}"))?;
        if parameters.has("read_iops") {
            pace.reads = parameters.count("read_iops")?;
        }
        if pace.reads == 0 {
            return Err("read_iops: at least 1; for none at all there is stall_disk".into());
        }
        let (target, hold) = (parameters.target("target")?, parameters.duration("for")?);
        Ok(Box::new(SlowDisk { target, pace, hold }))
    },
};

#[derive(Debug)]
struct SlowDisk {
    target: NodeTarget,
    pace: Pace,
    hold: Duration,
}

impl SlowDisk {
    fn limits(&self, version: Version, disk: &str) -> Vec<Limit> {
        let Pace { reads, writes, bytes } = self.pace;
        match version {
            Version::One => [
                ("blkio.throttle.read_iops_device", reads),
                ("blkio.throttle.write_iops_device", writes),
                ("blkio.throttle.read_bps_device", bytes),
                ("blkio.throttle.write_bps_device", bytes),
            ]
            .map(|(file, value)| Limit::new(file, format!("{disk} {value}"), format!("{disk} 0")))
            .into(),
            Version::Two => vec![Limit::new(
                "io.max",
                format!("{disk} riops={reads} wiops={writes} rbps={bytes} wbps={bytes}"),
                format!("{disk} riops=max wiops=max rbps=max wbps=max"),
            )],
        }
    }
}

#[async_trait]
impl Fault for SlowDisk {
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
        let on = confined::hierarchy(site, Controller::Io)?;
        let server = Proof::at(site).await?;
        let data = server.data.clone().unwrap_or_default();
        let disk = disk_of(&data).map_err(|why| site.unavailable(why))?;
        let mut memo = confined::memo(site, &on, &server, &self.limits(on.version, &disk))?;
        memo.insert("disk".into(), json!(disk));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut done = confined::confine(site, &confined::hierarchy(site, Controller::Io)?, memo)?;
        done.insert("disk".into(), memo["disk"].clone());
        Ok(done)
    }

    /// Its operations go through the limited group: that counts them.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let group = confined::is_confined(site, memo)?;
        let disk = memo["disk"].as_str().unwrap_or_default();
        site.until(deadline, "it neither read nor wrote", || async {
            let served = served(&group, disk).filter(|served| *served > 0)?;
            Some(facts([("operations", json!(served))]))
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        tokio::time::sleep(self.hold).await;
        let group = confined::is_confined(site, memo).ok();
        let disk = memo["disk"].as_str().unwrap_or_default();
        Ok(facts([("operations", json!(group.and_then(|group| served(&group, disk))))]))
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
        confined::is_released(site, Controller::Io, memo, deadline).await
    }
}

/// Operations on this disk that the group has counted.
fn served(group: &Group, disk: &str) -> Option<u64> {
    // Version 1: a line `254:0 Total 12`; version 2: `254:0 rbytes=1 wbytes=2 rios=3 wios=4 ...`.
    if let Some(total) = group.count("blkio.throttle.io_serviced", &format!("{disk} Total")) {
        return Some(total);
    }
    let all = group.read("io.stat").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix(disk)?.strip_prefix(' '))?;
    let counted = |name: &str| line.split(' ').find_map(|pair| pair.strip_prefix(name)?.parse::<u64>().ok());
    Some(counted("rios=")? + counted("wios=")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_written_as_each_version_takes_them() {
        let pace = DISKS[0].1;
        let slow = SlowDisk { target: NodeTarget::Primary, pace, hold: Duration::ZERO };
        let one = slow.limits(Version::One, "8:0");
        assert_eq!(one[0], Limit::new("blkio.throttle.read_iops_device", "8:0 120", "8:0 0"));
        let two = slow.limits(Version::Two, "8:0");
        assert_eq!(two[0].on, "8:0 riops=120 wiops=120 rbps=157286400 wbps=157286400");
    }

    #[test]
    fn operations_are_counted_from_either_version() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("mongosoak-1-2");
        std::fs::create_dir(&folder).unwrap();
        let group = Group::ours(&folder).unwrap();
        assert_eq!(served(&group, "8:0"), None);
        group.write("io.stat", "8:16 rbytes=9 rios=9 wios=9\n8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0").unwrap();
        assert_eq!(served(&group, "8:0"), Some(7));
        let counted = "8:0 Read 5\n8:0 Write 6\n8:0 Total 11\nTotal 11";
        group.write("blkio.throttle.io_serviced", counted).unwrap();
        assert_eq!(served(&group, "8:0"), Some(11));
    }
}
