//! `hook`: the user's own command as a fault; the way to docker, systemd, ssh and kubectl.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::catalog::Kind;
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Site, TARGET_PRIMARY,
    Takes, facts,
};

/// One command may take so long; then it is killed with all that it started.
const COMMAND_DEADLINE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(500);
/// What is kept of its output: the end.
const OUTPUT_BYTES: usize = 4 << 10;

const fn command(name: &'static str, default: Preset, about: &'static str) -> Parameter {
    Parameter { name, takes: Takes::Text, default, about }
}

/// Commands of the user.
pub const HOOK: Kind = Kind {
    name: "hook",
    group: "other",
    does: "runs a command of yours to inject, another to look whether it took effect, another to lift",
    parameters: &[
        command("inject", Preset::Required, "shell command that injects, \"docker pause {name}\""),
        command("check", Preset::Absent, "shell command that ends with 0 while the effect is there"),
        command("lift", Preset::Absent, "shell command that lifts; may be run more than once"),
        TARGET_PRIMARY,
        FOR_30_S,
    ],
    needs: &[],
    build: |parameters| {
        let optional = |name: &str| parameters.has(name).then(|| parameters.text(name)).transpose();
        Ok(Box::new(Hook {
            inject: parameters.text("inject")?,
            check: optional("check")?,
            lift: optional("lift")?,
            target: parameters.target("target")?,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct Hook {
    inject: String,
    check: Option<String>,
    lift: Option<String>,
    target: NodeTarget,
    hold: Duration,
}

#[async_trait]
impl Fault for Hook {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    /// Nobody knows; the guard of the majority expects the worst.
    fn harm(&self) -> Harm {
        Harm::TakesDown
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        false
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if let Some(check) = &self.check
            && run(site, "check", check).await?.code == Some(0)
        {
            return Err(site.nothing_to_do("is hit already: the check succeeds before the injection"));
        }
        Ok(Memo::new())
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let ended = run(site, "inject", &self.inject).await?;
        if ended.code != Some(0) {
            return Err(site.failed("run the command \"inject\" for", ended.words()));
        }
        Ok(ended.facts())
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        match &self.check {
            None => Ok(facts([
                ("checked", json!(false)),
                ("note", json!("no check was given: its exit code counts")),
            ])),
            Some(check) => checked(site, check, true, deadline).await,
        }
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let Some(lift) = &self.lift else {
            return Ok(Evidence::new());
        };
        let ended = run(site, "lift", lift).await?;
        if ended.code != Some(0) {
            return Err(site.failed("run the command \"lift\" for", ended.words()));
        }
        Ok(ended.facts())
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        match (&self.check, &self.lift) {
            (Some(check), Some(_)) => checked(site, check, false, deadline).await,
            _ => Ok(facts([("checked", json!(false))])),
        }
    }
}

/// Runs the check until it succeeds (or fails, after the lifting).
async fn checked(
    site: &Site<'_>,
    check: &str,
    wanted: bool,
    deadline: Duration,
) -> Result<Evidence, FaultError> {
    let looking = async {
        loop {
            let ended = run(site, "check", check).await?;
            if (ended.code == Some(0)) == wanted {
                return Ok(ended.facts());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let what = if wanted { "the check never succeeded" } else { "the check still succeeds" };
    tokio::time::timeout(deadline, looking).await.map_err(|_| site.no_effect(deadline, what))?
}

/// How a command ended.
struct Done {
    code: Option<i32>,
    output: String,
}

impl Done {
    fn facts(&self) -> Evidence {
        facts([("exit_code", json!(self.code)), ("output", json!(self.output))])
    }

    fn words(&self) -> String {
        let code = self.code.map_or_else(|| "it was killed".to_owned(), |code| format!("exit code {code}"));
        format!("{code}; it said: {}", self.output.trim())
    }
}

/// Ends everything that a command started, when it is dropped.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()) {
            // Gone already, in most cases.
            let _gone = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// Runs a shell command with the facts of the node in its environment, and in the places `{host}`, `{port}` ...
async fn run(site: &Site<'_>, step: &str, text: &str) -> Result<Done, FaultError> {
    let known = site.on.facts(site.node).await;
    let text =
        known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value));
    let mut command = Command::new("sh");
    command.args(["-c", &text]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true).env("MONGOSOAK_STEP", step);
    // It may hold a password, and no command of a fault needs it.
    command.env_remove("MONGOSOAK_URI");
    for (name, value) in &known {
        let name = if name == "name" {
            "MONGOSOAK_NODE".into()
        } else {
            format!("MONGOSOAK_{}", name.to_uppercase())
        };
        command.env(name, value);
    }
    let mut child = command.spawn().map_err(|error| site.failed("run a command for", error))?;
    let _all_of_it = Group(child.id());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ending = async { tokio::join!(child.wait(), tail(out), tail(err)) };
    let Ok((status, out, err)) = tokio::time::timeout(COMMAND_DEADLINE, ending).await else {
        let why = format!("it did not end within {} s and was killed: {text}", COMMAND_DEADLINE.as_secs());
        return Err(site.failed("run a command for", why));
    };
    let status = status.map_err(|error| site.failed("wait for a command for", error))?;
    Ok(Done { code: status.code(), output: out + &err })
}

/// Reads to the end, and keeps the last of it: a pipe that nobody reads would hold the command up.
async fn tail(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else {
        return String::new();
    };
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        let surplus = kept.len().saturating_sub(OUTPUT_BYTES);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
