//! `index_build`: an index is built under load, and dropped again.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::json;

use super::{COLLECTION, DATABASE};
use crate::catalog::Kind;
use crate::{
    CommandError, Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, Takes, facts,
    held_for,
};

/// The build goes on when nobody waits for it any more.
const START_DEADLINE: Duration = Duration::from_secs(1);
const COMMAND_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);
/// `IndexNotFound`, `NamespaceNotFound`: gone already.
const GONE: [i32; 2] = [27, 26];

/// `createIndexes`, then `dropIndexes`.
pub const INDEX_BUILD: Kind = Kind {
    name: "index_build",
    group: "server",
    does: "builds an index on the primary (and with it on every member), and drops it when it is built",
    parameters: &[
        Parameter {
            name: "fields",
            takes: Takes::Texts,
            default: Preset::Required,
            about: "its fields, [\"int\", \"date\"]",
        },
        DATABASE,
        COLLECTION,
        Parameter { about: "how long the build may take before it is given up", ..held_for(1_800.0) },
    ],
    needs: &[],
    build: |parameters| {
        let fields = parameters.texts("fields")?;
        if fields.is_empty() {
            return Err("fields: name at least one".into());
        }
        Ok(Box::new(IndexBuild {
            fields,
            database: parameters.text("database")?,
            collection: parameters.text("collection")?,
            longest: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct IndexBuild {
    fields: Vec<String>,
    database: String,
    collection: String,
    longest: Duration,
}

impl IndexBuild {
    /// A name that is nobody else's.
    fn name(site: &Site<'_>) -> String {
        format!("mongosoak_{}", site.fault)
    }

    async fn indexes(&self, site: &Site<'_>) -> Result<Vec<Document>, CommandError> {
        let list = doc! { "listIndexes": &self.collection };
        let answer = site.on.command(site.node, &self.database, &list, COMMAND_DEADLINE).await?;
        let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
        let batch = batch.map_err(|error| CommandError::Protocol(error.to_string()))?;
        Ok(batch.iter().filter_map(Bson::as_document).cloned().collect())
    }

    async fn exists(&self, site: &Site<'_>) -> Result<bool, CommandError> {
        let name = Self::name(site);
        Ok(self.indexes(site).await?.iter().any(|index| index.get_str("name").is_ok_and(|n| n == name)))
    }

    /// How far the build is, as the server says it; `None`: it does not run.
    async fn progress(&self, site: &Site<'_>) -> Option<String> {
        let name = format!("{}.{}", self.database, self.collection);
        let builds = doc! { "command.createIndexes": &self.collection, "msg": { "$regex": "^Index Build" } };
        let operations = site.operations(builds).await.ok()?;
        let here = |op: &&Document| op.get_str("ns").is_ok_and(|ns| ns == name || ns.ends_with(".$cmd"));
        Some(operations.iter().find(here)?.get_str("msg").unwrap_or_default().to_owned())
    }
}

#[async_trait]
impl Fault for IndexBuild {
    fn target(&self) -> NodeTarget {
        NodeTarget::Primary
    }

    fn hold(&self) -> Duration {
        self.longest
    }

    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let namespace = format!("{}.{}", self.database, self.collection);
        let indexes = match self.indexes(site).await {
            Ok(indexes) => indexes,
            Err(error @ CommandError::Server { .. }) => {
                return Err(site.nothing_to_do(format!("has no collection {namespace}: {error}")));
            }
            Err(error) => return Err(site.failed("list the indexes of", error)),
        };
        let same = |index: &&Document| {
            index
                .get_document("key")
                .is_ok_and(|key| key.keys().map(String::as_str).eq(self.fields.iter().map(|f| &**f)))
        };
        if let Some(index) = indexes.iter().find(same) {
            let name = index.get_str("name").unwrap_or_default();
            return Err(site.nothing_to_do(format!("has this index already: {name} on {namespace}")));
        }
        Ok(facts([("index", json!(Self::name(site)))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let key: Document = self.fields.iter().map(|field| (field.clone(), Bson::Int32(1))).collect();
        let create = doc! {
            "createIndexes": &self.collection,
            "indexes": [{ "key": key, "name": Self::name(site) }],
        };
        match site.on.command(site.node, &self.database, &create, START_DEADLINE).await {
            Ok(_) => Ok(facts([("built_at_once", json!(true))])),
            Err(CommandError::Timeout(_)) => Ok(facts([("building", json!(true))])),
            Err(error) => Err(site.failed("build an index on", error)),
        }
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "neither the build nor the index was seen", || async {
            match self.progress(site).await {
                Some(progress) => Some(facts([("progress", json!(progress))])),
                None => self.exists(site).await.ok()?.then(|| facts([("built", json!(true))])),
            }
        })
        .await
    }

    /// Until it is built.
    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let building = async {
            while self.progress(site).await.is_some() {
                tokio::time::sleep(POLL).await;
            }
        };
        let in_time = tokio::time::timeout(self.longest, building).await.is_ok();
        Ok(facts([("built", json!(in_time))]))
    }

    /// Dropping an index that is being built ends its build.
    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let Some(primary) = site.view().await.primary().map(|p| p.name.clone()) else {
            return Err(site.failed("drop an index on", "no node takes writes"));
        };
        let drop = doc! { "dropIndexes": &self.collection, "index": Self::name(site) };
        match site.on.command(&primary, &self.database, &drop, COMMAND_DEADLINE).await {
            Ok(_) => Ok(facts([("dropped", json!(true))])),
            Err(CommandError::Server { code, .. }) if GONE.contains(&code) => {
                Ok(facts([("dropped", json!(false))]))
            }
            Err(error) => Err(site.failed("drop an index on", error)),
        }
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "the index is still there", || async {
            (!self.exists(site).await.ok()?).then(|| facts([("index_there", json!(false))]))
        })
        .await
    }
}
