//! `kill_operations`: operations of clients are killed on the server, as an administrator would with killOp.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::{COLLECTION, DATABASE, namespace};
use crate::catalog::Kind;
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// Operations last for less than a millisecond: the first look finds few.
const FIRST_DEADLINE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// `killOp`, again and again.
pub const KILL_OPERATIONS: Kind = Kind {
    name: "kill_operations",
    group: "server",
    does: "kills the operations of clients on a collection (killOp), again and again for a time",
    parameters: &[
        TARGET_PRIMARY,
        DATABASE,
        COLLECTION,
        Parameter {
            name: "every",
            takes: Takes::Duration,
            default: Preset::Seconds(1.0),
            about: "time between two rounds",
        },
        FOR_30_S,
    ],
    needs: &[],
    build: |parameters| {
        Ok(Box::new(KillOperations {
            target: parameters.target("target")?,
            namespace: namespace(parameters)?,
            every: parameters.duration("every")?.max(LOOK),
            hold: parameters.duration("for")?,
        }))
    },
};

/// Looks that follow each other at once until a command failed.
const ROUNDS_AT_ONCE: u32 = 50;

#[derive(Debug)]
struct KillOperations {
    target: NodeTarget,
    namespace: String,
    every: Duration,
    hold: Duration,
}

impl KillOperations {
    /// Kills what runs now; how many.
    async fn round(&self, site: &Site<'_>) -> Result<u64, CommandError> {
        let mut killed = 0;
        for opid in self.running(site).await? {
            site.ask(doc! { "killOp": 1, "op": opid }).await?;
            killed += 1;
        }
        Ok(killed)
    }

    /// Operations of clients on the collection. Members of the set say `internalClient` and work on the oplog.
    async fn running(&self, site: &Site<'_>) -> Result<Vec<Bson>, CommandError> {
        let of_clients = doc! {
            "active": true,
            "type": "op",
            "ns": &self.namespace,
            "client": { "$exists": true },
            "command.createIndexes": { "$exists": false },
            "killPending": { "$ne": true },
        };
        let operations = site.operations(of_clients).await?;
        Ok(operations.into_iter().filter_map(|mut op| op.remove("opid")).collect())
    }

    /// Operations that ended by being interrupted so far, as the server counts them.
    async fn interrupted(site: &Site<'_>) -> Option<i64> {
        let status: Document = site.ask(doc! { "serverStatus": 1 }).await.ok()?;
        let counted = status.get_document("metrics").ok()?.get_document("commands").ok()?;
        let failed =
            |command: &Bson| command.as_document().map(|c| crate::replication::number(c.get("failed")));
        Some(counted.values().filter_map(failed).sum())
    }
}

#[async_trait]
impl Fault for KillOperations {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// Commands that had failed before.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        Ok(facts([("failed_commands", json!(Self::interrupted(site).await))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let first = async {
            loop {
                match self.round(site).await {
                    Ok(0) => tokio::time::sleep(LOOK).await,
                    Ok(killed) => return Ok(killed),
                    Err(error) => return Err(site.failed("kill operations on", error)),
                }
            }
        };
        match tokio::time::timeout(FIRST_DEADLINE, first).await {
            Ok(killed) => Ok(facts([("killed", json!(killed?))])),
            Err(_) => Err(site.no_effect(FIRST_DEADLINE, format!("no client works on {}", self.namespace))),
        }
    }

    /// More commands have failed by the server's own count. What was killed at its end may have gone through, so
    /// killing goes on until one failed.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let before = memo.get("failed_commands").and_then(Value::as_i64).unwrap_or_default();
        site.until(deadline, "no command failed although operations were killed", || async {
            let failed = Self::interrupted(site).await? - before;
            if failed > 0 {
                return Some(facts([("failed_commands", json!(failed))]));
            }
            // Operations last for less than a millisecond: one look seldom meets one that has not done its work yet.
            for _ in 0..ROUNDS_AT_ONCE {
                let _next_time = self.round(site).await;
            }
            None
        })
        .await
    }

    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let mut killed = 0;
        let rounds = async {
            loop {
                tokio::time::sleep(self.every).await;
                // The node may be gone for a while by another fault.
                killed += self.round(site).await.unwrap_or_default();
            }
        };
        let _until_the_time_is_over: Result<(), _> = tokio::time::timeout(self.hold, rounds).await;
        Ok(facts([("killed", json!(killed))]))
    }

    /// What was killed stays so; nothing is left.
    async fn lift(&self, _site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        Ok(Evidence::new())
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        _deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let running = self.running(site).await.map_or(0, |running| running.len());
        Ok(facts([("running", json!(running))]))
    }
}
