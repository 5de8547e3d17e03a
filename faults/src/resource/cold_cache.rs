//! `cold_cache`: the kernel forgets a server's files, as after a reboot of its machine.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use serde_json::json;

use super::page_cache::{cached_below, drop_all};
use crate::catalog::{Kind, Need};
use crate::{Evidence, Fault, FaultError, Memo, NodeTarget, Site, TARGET_PRIMARY, facts};

/// Below this share of what was cached before, the cache counts as cold: a server under load reads on meanwhile.
const COLD_SHARE: u64 = 2;

/// `posix_fadvise(DONTNEED)` on all files.
pub const COLD_CACHE: Kind = Kind {
    name: "cold_cache",
    group: "resource",
    does: "drops a server's files from the page cache: what is not in its own cache is read from disk again",
    parameters: &[TARGET_PRIMARY],
    needs: &[Need::Processes],
    build: |parameters| Ok(Box::new(ColdCache { target: parameters.target("target")? })),
};

#[derive(Debug)]
struct ColdCache {
    target: NodeTarget,
}

#[async_trait]
impl Fault for ColdCache {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        Duration::ZERO
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let place = site.on.place(site.node);
        let data = place.ok_or_else(|| site.unavailable("its data is not on this machine"))?.data;
        let cached = cached_below(&data).map_err(|e| site.unavailable(format!("{}: {e}", data.display())))?;
        if cached == 0 {
            return Err(site.nothing_to_do("has no file in the page cache"));
        }
        Ok(facts([("data", json!(data.display().to_string())), ("cached_bytes_before", json!(cached))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        // Writes a checkpoint: pages that only the server knows to be old stay in its own cache. One that does not
        // answer has its files dropped all the same.
        let flushed = site.ask(doc! { "fsync": 1 }).await.is_ok();
        let dropped = drop_all(&data(memo)).await.map_err(|e| site.failed("drop the files of", e))?;
        let mut done = facts([("checkpoint", json!(flushed))]);
        done.extend(dropped.facts());
        Ok(done)
    }

    /// What is left in memory is counted right after; what came back before that is dropped once more.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let before = memo["cached_bytes_before"].as_u64().unwrap_or_default();
        site.until(deadline, "its files stay in the page cache", || async {
            let dropped = drop_all(&data(memo)).await.ok()?;
            let cold = dropped.after_bytes <= before / COLD_SHARE;
            cold.then(|| {
                facts([
                    ("cached_bytes_before", json!(before)),
                    ("cached_bytes_after", json!(dropped.after_bytes)),
                ])
            })
        })
        .await
    }

    /// It warms by itself.
    async fn lift(&self, _site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(Evidence::new())
    }

    async fn observe_lifted(
        &self,
        _site: &Site<'_>,
        memo: &Memo,
        _deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        Ok(facts([("cached_bytes", json!(cached_below(&data(memo)).ok()))]))
    }
}

fn data(memo: &Memo) -> PathBuf {
    PathBuf::from(memo["data"].as_str().unwrap_or_default())
}
