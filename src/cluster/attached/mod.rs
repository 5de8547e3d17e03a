//! A deployment that somebody else started, as the faults see it: members are asked by the driver, processes are
//! those of this machine, or out of reach but for the user's own commands.

mod hooks;
mod local;
mod remote;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, doc};
use faults::catalog::Need;
use faults::{CommandError, Deployment, Exit, FaultError, Member, Place, Role, View};
use futures_util::future::join_all;

use super::ClusterError;
use super::description::{DescribedNode, Description};
use crate::scenario::{Hooks, Secret};
pub use local::CommandLine;
use local::Local;
use remote::Remote;

/// A healthy member answers within milliseconds.
const ASK_DEADLINE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);

/// What is needed to attach.
#[derive(Clone, Debug)]
pub struct Attach<'a> {
    /// The connection string.
    pub uri: &'a Secret,
    /// The user's own commands.
    pub hooks: &'a Hooks,
    /// Names of members by their addresses; the others are called by these.
    pub names: &'a BTreeMap<String, String>,
    /// Where this tester writes: never to be filled.
    pub own_output: Option<PathBuf>,
}

/// A deployment of somebody else.
#[derive(Debug)]
pub struct AttachedCluster {
    nodes: Vec<Node>,
    hooks: Hooks,
    own_output: Option<PathBuf>,
}

#[derive(Debug)]
struct Node {
    name: String,
    remote: Remote,
    /// Its process, or why that is out of reach.
    local: Result<Local, String>,
    log: Option<PathBuf>,
}

impl AttachedCluster {
    /// Asks the deployment for its members, and looks for their processes.
    ///
    /// # Errors
    /// When nobody answers, or it is a kind of deployment that is not known here.
    pub async fn attach(how: &Attach<'_>) -> Result<Self, ClusterError> {
        let addresses = remote::members(how.uri).await?;
        let mut nodes = Vec::new();
        for address in addresses {
            let name = how.names.get(&address).unwrap_or(&address).clone();
            let remote = Remote::connect(how.uri, &address).await?;
            let found = find_process(&name, &remote).await;
            let (local, log) = match found {
                Ok((local, log)) => (Ok(local), log),
                Err(why) => (Err(why), None),
            };
            nodes.push(Node { name, remote, local, log });
        }
        Ok(Self { nodes, hooks: how.hooks.clone(), own_output: how.own_output.clone() })
    }

    /// The deployment as an earlier tester knew it, whoever of it is dead by now.
    ///
    /// # Errors
    /// When the connection string is not understood.
    pub async fn again(uri: &Secret, nodes: &[DescribedNode], hooks: &Hooks) -> Result<Self, ClusterError> {
        let node = async |node: &DescribedNode| {
            let remote = Remote::connect(uri, &node.address).await?;
            let local = match (&node.command, remote.port()) {
                (Some(command), port) => Ok(Local::known(&node.name, port, command.clone())),
                (None, _) => Err("its process was out of reach before".into()),
            };
            Ok::<_, ClusterError>(Node { name: node.name.clone(), remote, local, log: node.log.clone() })
        };
        let nodes = join_all(nodes.iter().map(node)).await.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { nodes, hooks: hooks.clone(), own_output: None })
    }

    /// What another process needs to know to heal it.
    #[must_use]
    pub fn describe(&self, uri: &Secret) -> Description {
        let node = |node: &Node| DescribedNode {
            name: node.name.clone(),
            address: node.remote.address().into(),
            log: node.log.clone(),
            data: node.local.as_ref().ok().map(|local| local.command().data.clone()),
            command: node.local.as_ref().ok().map(|local| local.command().clone()),
        };
        Description::attached(uri, &self.hooks, self.nodes.iter().map(node).collect())
    }

    /// Waits until somebody takes writes, at most `deadline`.
    ///
    /// # Errors
    /// With what the members say.
    pub async fn wait_for_primary(&self, deadline: Duration) -> Result<(), ClusterError> {
        let primary = async {
            while self.view().await.primary().is_none() {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(deadline, primary).await.is_err() {
            let members = format!("{:?}", self.view().await.members);
            return Err(ClusterError::NoPrimary { seconds: deadline.as_secs_f64(), members });
        }
        Ok(())
    }

    /// Closes all connections; to be called when it is needed no more.
    pub async fn leave(&self) {
        join_all(self.nodes.iter().map(|node| node.remote.leave())).await;
    }

    fn node(&self, name: &str) -> Result<&Node, FaultError> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| FaultError::Failed {
            doing: "find",
            node: name.into(),
            why: "no member has this name".into(),
        })
    }
}

/// Its process on this machine, and its log.
async fn find_process(name: &str, remote: &Remote) -> Result<(Local, Option<PathBuf>), String> {
    if !remote.is_here().await {
        return Err(format!("{} is on another machine; [cluster] hooks can reach it", remote.address()));
    }
    let status = remote.command("admin", &doc! { "serverStatus": 1 }, ASK_DEADLINE * 5).await;
    let status = status.map_err(|error| format!("serverStatus: {error}"))?;
    let pid = status.get("pid").and_then(number).ok_or("it does not say its process id")?;
    let options = remote.command("admin", &doc! { "getCmdLineOpts": 1 }, ASK_DEADLINE * 5).await;
    let options = options.map_err(|error| format!("getCmdLineOpts: {error}"))?;
    let text = |table: &str, key: &str| {
        let parsed = options.get_document("parsed").and_then(|parsed| parsed.get_document(table)).ok()?;
        Some(PathBuf::from(parsed.get_str(key).ok()?))
    };
    let data = text("storage", "dbPath").unwrap_or_else(|| "/data/db".into());
    let local = Local::find(name, remote.port(), pid, data)?;
    Ok((local, text("systemLog", "path")))
}

fn number(value: &bson::Bson) -> Option<i32> {
    let wide = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    i32::try_from(wide).ok()
}

impl Node {
    async fn member(&self) -> Member {
        let hello = self.remote.command("admin", &doc! { "hello": 1 }, ASK_DEADLINE).await.ok();
        let role = hello.as_ref().map_or(Role::Down, super::node::role_of);
        let term = match role {
            Role::Down | Role::Standalone | Role::Router => None,
            _ => {
                let status =
                    self.remote.command("admin", &doc! { "replSetGetStatus": 1 }, ASK_DEADLINE).await;
                status.ok().and_then(|status| status.get_i64("term").ok())
            }
        };
        Member { name: self.name.clone(), role, term, set: None }
    }

    async fn answers(&self) -> bool {
        self.remote.command("admin", &doc! { "hello": 1 }, ASK_DEADLINE).await.is_ok()
    }

    fn unavailable(&self, why: impl Into<String>) -> FaultError {
        FaultError::Unavailable { node: self.name.clone(), why: why.into() }
    }

    fn facts(&self) -> hooks::Facts<'_> {
        hooks::Facts { name: &self.name, host: self.remote.host(), port: self.remote.port() }
    }
}

#[async_trait]
impl Deployment for AttachedCluster {
    async fn view(&self) -> View {
        let mut members = join_all(self.nodes.iter().map(Node::member)).await;
        members.sort_by(|a, b| a.name.cmp(&b.name));
        View { members }
    }

    async fn command(
        &self,
        node: &str,
        database: &str,
        body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        match self.node(node) {
            Ok(node) => node.remote.command(database, body, deadline).await,
            Err(unknown) => Err(CommandError::Protocol(unknown.to_string())),
        }
    }

    async fn lacks(&self, node: &str, need: Need) -> Option<String> {
        let node = self.node(node).ok()?;
        match need {
            Need::Managed | Need::Proxies | Need::ClockShim => Some(format!("needs {}", need.words())),
            Need::Processes if self.hooks.any() => None,
            Need::Processes => node.local.as_ref().err().cloned(),
            Need::Root | Need::CgroupIo | Need::CgroupMemory | Need::CgroupCpu => {
                node.local.as_ref().err().cloned().or_else(|| need.missing())
            }
            Need::ReplicaSet | Need::ThreeMembers | Need::TestCommands | Need::Sharded => need.missing(),
        }
    }

    async fn pid(&self, node: &str) -> Option<i32> {
        let node = self.node(node).ok()?;
        match &node.local {
            Ok(local) => local.pid(),
            Err(_) => node.remote.pid(ASK_DEADLINE).await,
        }
    }

    async fn signal(&self, node: &str, signal: i32) -> Result<(), FaultError> {
        let node = self.node(node)?;
        if let Some((hook, command)) = hooks::of_signal(&self.hooks, signal) {
            return hooks::run(hook, command, &node.facts()).await;
        }
        match &node.local {
            Ok(local) => local.signal(signal),
            Err(why) => Err(node.unavailable(why.clone())),
        }
    }

    /// How it ended, only its parent knows.
    async fn wait_exit(&self, node: &str, deadline: Duration) -> Result<Exit, FaultError> {
        let node = self.node(node)?;
        let gone = async {
            match &node.local {
                Ok(local) => local.gone().await,
                Err(_) => {
                    while node.answers().await {
                        tokio::time::sleep(POLL).await;
                    }
                    node.remote.forget_pid();
                }
            }
        };
        tokio::time::timeout(deadline, gone).await.map_err(|_| FaultError::NoEffect {
            node: node.name.clone(),
            seconds: deadline.as_secs_f64(),
            what: "the end of its process".into(),
        })?;
        Ok(Exit { code: None, signal: None })
    }

    async fn start(&self, node: &str) -> Result<i32, FaultError> {
        let node = self.node(node)?;
        if let Some(pid) = self.pid(&node.name).await {
            return Ok(pid);
        }
        let Some(command) = &self.hooks.start else {
            return match &node.local {
                Ok(local) => local.start().await,
                Err(why) => Err(node.unavailable(why.clone())),
            };
        };
        hooks::run("start", command, &node.facts()).await?;
        Ok(self.pid(&node.name).await.unwrap_or_default())
    }

    async fn wait_ready(&self, node: &str, deadline: Duration) -> Result<(), FaultError> {
        let node = self.node(node)?;
        let answers = async {
            while !node.answers().await {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(deadline, answers).await.map_err(|_| FaultError::Failed {
            doing: "restart",
            node: node.name.clone(),
            why: format!("no answer within {} s", deadline.as_secs()),
        })
    }

    fn ends_with_tester(&self) -> bool {
        false
    }

    fn address(&self, node: &str) -> Option<String> {
        Some(self.node(node).ok()?.remote.address().into())
    }

    fn place(&self, node: &str) -> Option<Place> {
        let node = self.node(node).ok()?;
        let data = node.local.as_ref().ok()?.command().data.clone();
        let log = node.log.clone().unwrap_or_default();
        Some(Place { data, log, own_output: self.own_output.as_deref().map(Path::to_path_buf) })
    }
}
