//! `failpoint` and `fail_command`: switches that MongoDB's own tests use to make a server misbehave.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Bson, Document, doc};
use serde_json::{Value, json};

use crate::catalog::{Kind, Need};
use crate::{
    CommandError, Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Parameters, Preset,
    Site, TARGET_PRIMARY, Takes, facts,
};

/// `CommandNotFound`: the server was started without test commands.
const NO_TEST_COMMANDS: i32 = 59;
/// `FailPointSetFailed`, of old servers `BadValue`: no failpoint of that name.
const UNKNOWN: [i32; 2] = [266, 2];

const TIMES: Parameter = Parameter {
    name: "times",
    takes: Takes::Count,
    default: Preset::Absent,
    about: "how often it strikes at most",
};

/// Any failpoint by its name.
pub const FAILPOINT: Kind = Kind {
    name: "failpoint",
    group: "server",
    does: "switches one of the server's failpoints on (configureFailPoint), and off again",
    parameters: &[
        TARGET_PRIMARY,
        Parameter { name: "name", takes: Takes::Text, default: Preset::Required, about: "which failpoint" },
        Parameter { name: "data", takes: Takes::Table, default: Preset::Absent, about: "its data" },
        TIMES,
        FOR_30_S,
    ],
    needs: &[Need::TestCommands],
    build: |parameters| {
        let data = parameters.any("data").cloned().unwrap_or_else(|| json!({}));
        let data = Bson::try_from(data).ok().and_then(|data| data.as_document().cloned());
        let data = data.ok_or("data: must be a table")?;
        Ok(Box::new(Failpoint::new(parameters, parameters.text("name")?, data)?))
    },
};

/// The failpoint `failCommand`.
pub const FAIL_COMMAND: Kind = Kind {
    name: "fail_command",
    group: "server",
    does: "makes chosen commands of clients fail with an error code, lose their connection, or wait",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "commands",
            takes: Takes::Texts,
            default: Preset::Required,
            about: "which commands, [\"insert\", \"find\"]",
        },
        Parameter {
            name: "error_code",
            takes: Takes::Count,
            default: Preset::Absent,
            about: "they fail with this code, 10107 for example",
        },
        Parameter {
            name: "close_connection",
            takes: Takes::Flag,
            default: Preset::Flag(false),
            about: "their connection is closed without an answer",
        },
        Parameter {
            name: "block",
            takes: Takes::Duration,
            default: Preset::Absent,
            about: "they wait so long",
        },
        TIMES,
        FOR_30_S,
    ],
    needs: &[Need::TestCommands],
    build: |parameters| {
        Ok(Box::new(Failpoint::new(parameters, "failCommand".into(), fail_command(parameters)?)?))
    },
};

fn fail_command(parameters: &Parameters) -> Result<Document, String> {
    let commands = parameters.texts("commands")?;
    if commands.is_empty() {
        return Err("commands: name at least one".into());
    }
    let mut data = doc! { "failCommands": commands };
    if parameters.has("error_code") {
        let code = i32::try_from(parameters.count("error_code")?).map_err(|e| format!("error_code: {e}"))?;
        data.insert("errorCode", code);
    }
    if parameters.flag("close_connection")? {
        data.insert("closeConnection", true);
    }
    if parameters.has("block") {
        let ms =
            i32::try_from(parameters.duration("block")?.as_millis()).map_err(|e| format!("block: {e}"))?;
        data.insert("blockConnection", true);
        data.insert("blockTimeMS", ms);
    }
    if data.len() == 1 {
        return Err("say what happens to the commands: error_code, close_connection or block".into());
    }
    Ok(data)
}

#[derive(Debug)]
struct Failpoint {
    target: NodeTarget,
    name: String,
    data: Document,
    times: Option<i32>,
    hold: Duration,
}

impl Failpoint {
    fn new(parameters: &Parameters, name: String, data: Document) -> Result<Self, String> {
        let times = parameters.has("times").then(|| parameters.count("times")).transpose()?;
        Ok(Self {
            target: parameters.target("target")?,
            name,
            data,
            times: times.map(i32::try_from).transpose().map_err(|e| format!("times: {e}"))?,
            hold: parameters.duration("for")?,
        })
    }

    /// Switches it off, and returns how often it was entered so far.
    async fn off(&self, site: &Site<'_>) -> Result<i64, CommandError> {
        let answer = site.ask(doc! { "configureFailPoint": &self.name, "mode": "off" }).await?;
        Ok(count(&answer))
    }

    async fn is_on(&self, site: &Site<'_>) -> Result<bool, CommandError> {
        let name = format!("failpoint.{}", self.name);
        let answer = site.ask(doc! { "getParameter": 1, &name: 1 }).await?;
        let mode = answer.get_document(&name).ok().and_then(|state| state.get("mode").cloned());
        Ok(!matches!(mode, None | Some(Bson::Int32(0))))
    }
}

#[async_trait]
impl Fault for Failpoint {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    /// How often it was entered before. Switching off what is off changes nothing.
    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        match self.is_on(site).await {
            Ok(true) => {
                return Err(
                    site.nothing_to_do(format!("has {} on already, and not by this fault", self.name))
                );
            }
            // Old servers do not show it; an unknown one is refused below.
            Ok(false) | Err(CommandError::Server { .. }) => {}
            Err(error) => return Err(site.failed("look at a failpoint of", error)),
        }
        match self.off(site).await {
            Ok(entered) => Ok(facts([("entered", json!(entered))])),
            Err(CommandError::Server { code: NO_TEST_COMMANDS, .. }) => Err(site.unavailable(
                "was started without test commands: write test_commands = true in [cluster], \
                 or start it with --setParameter enableTestCommands=1",
            )),
            Err(CommandError::Server { code, .. }) if UNKNOWN.contains(&code) => {
                Err(site.unavailable(format!("this server has no failpoint {:?}", self.name)))
            }
            Err(error) => Err(site.failed("look at a failpoint of", error)),
        }
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let mode = self.times.map_or_else(|| Bson::from("alwaysOn"), |times| doc! { "times": times }.into());
        let command = doc! { "configureFailPoint": &self.name, "mode": mode, "data": self.data.clone() };
        site.ask(command).await.map_err(|error| site.failed("switch on a failpoint of", error))?;
        Ok(facts([
            ("failpoint", json!(self.name)),
            ("data", Bson::from(self.data.clone()).into_relaxed_extjson()),
        ]))
    }

    /// The server counts how often it came to it.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let next = memo["entered"].as_i64().unwrap_or_default() + 1;
        let ms = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
        let wait = doc! { "waitForFailPoint": &self.name, "timesEntered": next, "maxTimeMS": ms };
        match site.on.command(site.node, "admin", &wait, deadline).await {
            Ok(_) => Ok(facts([("entered", json!(true))])),
            Err(_) => Err(site.no_effect(deadline, format!("{} was never reached", self.name))),
        }
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        match self.off(site).await {
            Ok(entered) => {
                let before = memo.get("entered").and_then(Value::as_i64).unwrap_or_default();
                Ok(facts([("times_entered", json!(entered - before))]))
            }
            // It ended with its process.
            Err(CommandError::Io(_))
                if site.on.pid(site.node).await.is_none() && site.on.ends_with_tester() =>
            {
                Ok(facts([("down", json!(true))]))
            }
            Err(error) => Err(site.failed("switch off a failpoint of", error)),
        }
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        site.until(deadline, "it is still on", || async {
            (!self.is_on(site).await.ok()?).then(|| facts([("on", json!(false))]))
        })
        .await
    }
}

fn count(answer: &Document) -> i64 {
    match answer.get("count") {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        _ => 0,
    }
}
