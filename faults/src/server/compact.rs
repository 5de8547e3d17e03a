//! `compact`: a member gives space back to its disk, which keeps it busy.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::{COLLECTION, DATABASE};
use crate::catalog::Kind;
use crate::{
    CommandError, Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Role, Site,
    TARGET_SECONDARY, Takes, facts, held_for,
};

/// It goes on when nobody waits for it any more.
const START_DEADLINE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(200);

/// `compact`.
pub const COMPACT: Kind = Kind {
    name: "compact",
    group: "server",
    does: "compacts a collection on one member",
    parameters: &[
        TARGET_SECONDARY,
        DATABASE,
        COLLECTION,
        Parameter {
            name: "force",
            takes: Takes::Flag,
            default: Preset::Flag(false),
            about: "also on a primary, whose service it may slow",
        },
        Parameter { about: "how long it may take before it is stopped", ..held_for(1_800.0) },
    ],
    needs: &[],
    build: |parameters| {
        Ok(Box::new(Compact {
            target: parameters.target("target")?,
            database: parameters.text("database")?,
            collection: parameters.text("collection")?,
            force: parameters.flag("force")?,
            longest: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct Compact {
    target: NodeTarget,
    database: String,
    collection: String,
    force: bool,
    longest: Duration,
}

impl Compact {
    fn comment(site: &Site<'_>) -> String {
        format!("mongosoak_{}", site.fault)
    }

    /// The operation as the server lists it; `None`: it does not run.
    async fn running(site: &Site<'_>) -> Result<Option<Bson>, CommandError> {
        let ours = doc! { "command.compact": { "$exists": true }, "command.comment": Self::comment(site) };
        Ok(site.operations(ours).await?.first().and_then(|op| op.get("opid")).cloned())
    }
}

#[async_trait]
impl Fault for Compact {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.longest
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// What the storage holds for reuse before.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if site.role_before() == Role::Primary && !self.force {
            return Err(site.nothing_to_do("is the primary: write force = true to compact there"));
        }
        let stats = doc! { "collStats": &self.collection };
        let deadline = Duration::from_secs(10);
        let answer = site.on.command(site.node, &self.database, &stats, deadline).await;
        let answer = answer.map_err(|error| site.failed("look at the collection on", error))?;
        if !answer.contains_key("wiredTiger") {
            return Err(
                site.nothing_to_do(format!("has no collection {}.{}", self.database, self.collection))
            );
        }
        Ok(facts([("storage_bytes", size(&answer))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut compact = doc! { "compact": &self.collection, "comment": Self::comment(site) };
        if self.force {
            compact.insert("force", true);
        }
        let mut done = facts([("storage_bytes", memo["storage_bytes"].clone())]);
        match site.on.command(site.node, &self.database, &compact, START_DEADLINE).await {
            Ok(answer) => {
                let freed = answer.get("bytesFreed").cloned().unwrap_or(Bson::Null);
                done.extend(facts([
                    ("done_at_once", json!(true)),
                    ("bytes_freed", freed.into_relaxed_extjson()),
                ]));
            }
            Err(CommandError::Timeout(_)) => done.extend(facts([("compacting", json!(true))])),
            Err(error) => return Err(site.failed("compact on", error)),
        }
        Ok(done)
    }

    /// It is in the server's list, or was through before we could look.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        _deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let running =
            Self::running(site).await.map_err(|error| site.failed("list the operations of", error))?;
        Ok(facts([("running", json!(running.is_some()))]))
    }

    /// Until it is through.
    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let running = async {
            while matches!(Self::running(site).await, Ok(Some(_))) {
                tokio::time::sleep(POLL).await;
            }
        };
        let in_time = tokio::time::timeout(self.longest, running).await.is_ok();
        Ok(facts([("through", json!(in_time))]))
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let Ok(Some(opid)) = Self::running(site).await else {
            return Ok(Evidence::new());
        };
        let stopped = site.ask(doc! { "killOp": 1, "op": opid }).await;
        stopped.map_err(|error| site.failed("stop compacting on", error))?;
        Ok(facts([("stopped", json!(true))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "it is still compacting", || async {
            match Self::running(site).await {
                Ok(None) => Some(facts([("running", json!(false))])),
                // Nothing runs on a server that is gone.
                Err(CommandError::Io(_)) => Some(facts([("down", json!(true))])),
                _ => None,
            }
        })
        .await
    }
}

fn size(stats: &Document) -> Value {
    stats.get("storageSize").cloned().unwrap_or(Bson::Null).into_relaxed_extjson()
}
