//! `split`: chunks are cut in two in the middle. The routing table changes, no document moves.

use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use super::routing;
use crate::catalog::{Kind, Need};
use crate::server::{COLLECTION, DATABASE, namespace};
use crate::{Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, Takes, facts};

/// The middle of a large chunk is looked for in its index.
const SPLIT_DEADLINE: Duration = Duration::from_secs(120);
const MOST_SPLITS: u64 = 1_000;

/// `split`.
pub const SPLIT: Kind = Kind {
    name: "split",
    group: "sharding",
    does: "cuts chunks of a collection in two at their middle: every router and shard learns a new routing table",
    parameters: &[
        DATABASE,
        COLLECTION,
        Parameter { name: "count", takes: Takes::Count, default: Preset::Count(1), about: "how many cuts" },
    ],
    needs: &[Need::Sharded],
    build: |parameters| {
        let count = parameters.count("count")?;
        if !(1..=MOST_SPLITS).contains(&count) {
            return Err(format!("count: from 1 to {MOST_SPLITS}"));
        }
        let namespace = namespace(parameters)?;
        Ok(Box::new(Split { namespace, count }))
    },
};

#[derive(Debug)]
struct Split {
    namespace: String,
    count: u64,
}

#[async_trait]
impl Fault for Split {
    fn target(&self) -> NodeTarget {
        NodeTarget::Mongos
    }

    fn hold(&self) -> Duration {
        Duration::ZERO
    }

    /// More chunks are as good as fewer.
    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        let chunks = routing::chunks(site, &collection).await?.len();
        Ok(facts([("chunks_before", json!(chunks))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        let (mut refused, mut last) = (0, None);
        for turn in 0..self.count {
            let chunks = routing::chunks(site, &collection).await?;
            let at = site.tie.wrapping_add(turn) % chunks.len().max(1) as u64;
            let Some(chunk) = chunks.get(at as usize) else { break };
            let split = doc! { "split": &self.namespace, "bounds": chunk.bounds() };
            // A chunk with one document has no middle.
            if let Err(error) = site.on.command(site.node, "admin", &split, SPLIT_DEADLINE).await {
                refused += 1;
                last = Some(error.to_string());
            }
        }
        Ok(facts([("asked", json!(self.count)), ("refused", json!(refused)), ("last_refusal", json!(last))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let before = memo["chunks_before"].as_u64().unwrap_or_default();
        let collection = routing::collection(site, &self.namespace).await?;
        site.until(deadline, "there are no more chunks than before", || async {
            let now = routing::chunks(site, &collection).await.ok()?.len() as u64;
            (now > before).then(|| facts([("chunks", json!(now))]))
        })
        .await
    }

    async fn lift(&self, _site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(Evidence::new())
    }

    async fn observe_lifted(
        &self,
        _site: &Site<'_>,
        _memo: &Memo,
        _deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        Ok(Evidence::new())
    }
}
