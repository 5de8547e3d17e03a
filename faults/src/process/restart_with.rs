//! `restart_with`: a clean restart with other options for a time.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use super::end::back;
use crate::catalog::{Kind, Need};
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, LaunchOptions, Memo, NodeTarget, Parameter, Parameters,
    Preset, Site, TARGET_SECONDARY, Takes, facts,
};

const SIGTERM: i32 = 15;
/// A primary waits for its successor, and then for its checkpoint.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// SIGTERM, a start with other options, and back.
pub const RESTART_WITH: Kind = Kind {
    name: "restart_with",
    group: "process",
    does: "restarts a mongod with other options, and as before after a time",
    parameters: &[
        TARGET_SECONDARY,
        Parameter {
            name: "parameters",
            takes: Takes::Table,
            default: Preset::Absent,
            about: "--setParameter name and value",
        },
        Parameter {
            name: "arguments",
            takes: Takes::Texts,
            default: Preset::Absent,
            about: "more arguments, [\"--slowms\", \"50\"]",
        },
        FOR_30_S,
    ],
    needs: &[Need::Managed],
    build: |parameters| {
        Ok(Box::new(RestartWith {
            target: parameters.target("target")?,
            options: options(parameters)?,
            hold: parameters.duration("for")?,
        }))
    },
};

fn options(parameters: &Parameters) -> Result<LaunchOptions, String> {
    let table = parameters.any("parameters").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let options = LaunchOptions {
        arguments: parameters.texts("arguments")?,
        parameters: table.into_iter().map(|(name, value)| (name, text(value))).collect(),
        environment: BTreeMap::new(),
    };
    if options == LaunchOptions::default() {
        return Err("name at least one option: parameters = { ... } or arguments = [ ... ]".into());
    }
    Ok(options)
}

#[derive(Debug)]
struct RestartWith {
    target: NodeTarget,
    options: LaunchOptions,
    hold: Duration,
}

impl RestartWith {
    /// Whether the process that answers was started with these options.
    async fn is_in_force(&self, site: &Site<'_>) -> bool {
        let Ok(answer) = site.ask(doc! { "getCmdLineOpts": 1 }).await else {
            return false;
        };
        let argv: Vec<&str> =
            answer.get_array("argv").into_iter().flatten().filter_map(Bson::as_str).collect();
        let set: Vec<String> =
            self.options.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let wanted = self.options.arguments.iter().chain(&set);
        let mut wanted = wanted.map(String::as_str);
        wanted.all(|option| argv.contains(&option))
    }

    async fn restart(site: &Site<'_>) -> Result<i32, FaultError> {
        if site.on.pid(site.node).await.is_some() {
            site.on.signal(site.node, SIGTERM).await?;
            site.on.wait_exit(site.node, SHUTDOWN_DEADLINE).await?;
        }
        site.on.start(site.node).await
    }
}

#[async_trait]
impl Fault for RestartWith {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        if self.is_in_force(site).await {
            return Err(site.nothing_to_do("runs with these options already"));
        }
        Ok(facts([("pid", json!(pid))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.launch_options(site.node, Some(self.options.clone())).await?;
        let pid = Self::restart(site).await?;
        Ok(facts([("pid", memo["pid"].clone()), ("pid_after", json!(pid)), ("options", json!(self.options))]))
    }

    /// It answers, and says that it was started so.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let seen = back(site, deadline).await?;
        if !self.is_in_force(site).await {
            return Err(site.no_effect(deadline, "it was not started with these options"));
        }
        Ok(seen)
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.launch_options(site.node, None).await?;
        let pid = site.on.pid(site.node).await;
        let untouched = pid.is_some() && pid.map(i64::from) == memo["pid"].as_i64();
        if untouched || (pid.is_some() && self.answers(site).await && !self.is_in_force(site).await) {
            return Ok(facts([("pid_after", json!(pid))]));
        }
        Ok(facts([("pid_after", json!(Self::restart(site).await?))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let seen = back(site, deadline).await?;
        if self.is_in_force(site).await {
            return Err(site.no_effect(deadline, "it still runs with the options of the fault"));
        }
        Ok(seen)
    }
}

impl RestartWith {
    async fn answers(&self, site: &Site<'_>) -> bool {
        site.ask(Document::from_iter([("ping".to_owned(), Bson::Int32(1))])).await.is_ok()
    }
}
