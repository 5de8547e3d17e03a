//! `small_oplog`: less room for history, so that a member that is away may fall off it.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use super::config::number;
use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, TARGET_PRIMARY,
    Takes, facts, held_for,
};

/// The server takes no smaller one.
const LEAST_BYTES: u64 = 990 << 20;
const MIB: i64 = 1 << 20;

/// `replSetResizeOplog`.
pub const SMALL_OPLOG: Kind = Kind {
    name: "small_oplog",
    group: "replication",
    does: "makes the oplog of a member small (990 MiB at least), and as large as it was again",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "size",
            takes: Takes::Size,
            default: Preset::Bytes(LEAST_BYTES),
            about: "its size",
        },
        held_for(300.0),
    ],
    needs: &[Need::ReplicaSet],
    build: |parameters| {
        let bytes = parameters.count("size")?;
        if bytes < LEAST_BYTES {
            return Err("size: servers take no oplog below 990MiB".into());
        }
        Ok(Box::new(SmallOplog {
            target: parameters.target("target")?,
            mib: i64::try_from(bytes >> 20).map_err(|e| format!("size: {e}"))?,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct SmallOplog {
    target: NodeTarget,
    mib: i64,
    hold: Duration,
}

#[async_trait]
impl Fault for SmallOplog {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        // The size is part of the data.
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let mib =
            size_mib(site).await.map_err(|error| site.failed("read the size of the oplog of", error))?;
        if mib <= self.mib {
            return Err(site.nothing_to_do(format!("has an oplog of {mib} MiB, which is no larger")));
        }
        Ok(facts([("mib", json!(mib))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        resize(site, self.mib).await?;
        Ok(facts([("from_mib", memo["mib"].clone()), ("to_mib", json!(self.mib))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        has_size(site, self.mib, deadline).await
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let former = memo["mib"].as_i64().unwrap_or(self.mib);
        resize(site, former).await?;
        Ok(facts([("to_mib", json!(former))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        has_size(site, memo["mib"].as_i64().unwrap_or(self.mib), deadline).await
    }
}

async fn resize(site: &Site<'_>, mib: i64) -> Result<(), FaultError> {
    #[expect(clippy::cast_precision_loss, reason = "the command takes a double of mebibytes")]
    let size = mib as f64;
    let resized = site.ask(doc! { "replSetResizeOplog": 1, "size": size }).await;
    resized.map(drop).map_err(|error| site.failed("resize the oplog of", error))
}

async fn has_size(site: &Site<'_>, mib: i64, deadline: Duration) -> Result<Evidence, FaultError> {
    let what = format!("an oplog of {mib} MiB");
    site.until(deadline, &what, || async {
        (size_mib(site).await.ok()? == mib).then(|| facts([("oplog_mib", json!(mib))]))
    })
    .await
}

/// Largest size of the oplog as the storage says it.
async fn size_mib(site: &Site<'_>) -> Result<i64, CommandError> {
    let deadline = Duration::from_secs(10);
    let stats = site.on.command(site.node, "local", &doc! { "collStats": "oplog.rs" }, deadline).await?;
    Ok(number(stats.get("maxSize")) / MIB)
}
