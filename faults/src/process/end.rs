//! `kill` (SIGKILL) and `stop` (SIGTERM, a clean shutdown), each with a restart.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::resource::page_cache::drop_all;
use crate::{
    Evidence, Exit, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Parameters, Preset, Role,
    Site, TARGET_PRIMARY, Takes, facts,
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const POLL: Duration = Duration::from_millis(20);
/// A primary waits up to 15 s for its successor, and then for its checkpoint.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10 * 60);

const RESTART_AFTER: Parameter = Parameter {
    name: "restart_after",
    takes: Takes::Duration,
    default: Preset::Seconds(10.0),
    about: "time between the seen effect and the restart",
};

const COLD: Parameter = Parameter {
    name: "cold",
    takes: Takes::Flag,
    default: Preset::Flag(false),
    about: "drop its files from the page cache before the restart, as a reboot of the machine would",
};

/// SIGKILL, then a restart: the server recovers from its journal.
pub const KILL: Kind = Kind {
    name: "kill",
    group: "process",
    does: "SIGKILL a mongod, start it again on its old data after a time",
    parameters: &[TARGET_PRIMARY, RESTART_AFTER, COLD],
    needs: &[Need::Processes],
    build: |parameters| Ok(Box::new(Ending::new(SIGKILL, parameters)?)),
};

/// SIGTERM, then a restart: the server shuts down cleanly.
pub const STOP: Kind = Kind {
    name: "stop",
    group: "process",
    does: "SIGTERM a mongod (clean shutdown), start it again after a time",
    parameters: &[TARGET_PRIMARY, RESTART_AFTER, COLD],
    needs: &[Need::Processes],
    build: |parameters| Ok(Box::new(Ending::new(SIGTERM, parameters)?)),
};

/// SIGKILL to every member, then a restart of all.
pub const KILL_ALL: Kind = Kind {
    name: "kill_all",
    group: "process",
    does: "SIGKILL every mongod at the same moment, start all again after a time",
    parameters: &[RESTART_AFTER],
    needs: &[Need::Processes],
    build: |parameters| {
        let restart_after = parameters.duration("restart_after")?;
        Ok(Box::new(Ending {
            signal: SIGKILL,
            target: NodeTarget::All,
            restart_after,
            harm: Harm::LosesMajority,
            cache: Cache::Stays,
        }))
    },
};

/// SIGKILL to a majority, then a restart.
pub const MAJORITY_LOSS: Kind = Kind {
    name: "majority_loss",
    group: "process",
    does: "SIGKILL as many members as make a majority, start them again after a time; nobody leads meanwhile",
    parameters: &[FOR_30_S],
    needs: &[Need::Processes, Need::ThreeMembers],
    build: |parameters| {
        let (target, restart_after) = (NodeTarget::Majority, parameters.duration("for")?);
        let (harm, cache) = (Harm::LosesMajority, Cache::Stays);
        Ok(Box::new(Ending { signal: SIGKILL, target, restart_after, harm, cache }))
    },
};

/// Ends processes by a signal.
#[derive(Debug)]
struct Ending {
    signal: i32,
    target: NodeTarget,
    restart_after: Duration,
    harm: Harm,
    cache: Cache,
}

/// What becomes of the page cache between the end and the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    /// As it is: only the process has ended.
    Stays,
    /// The files of the server are dropped from it.
    Dropped,
}

impl Ending {
    fn new(signal: i32, parameters: &Parameters) -> Result<Self, String> {
        let (target, restart_after) = (parameters.target("target")?, parameters.duration("restart_after")?);
        let cache = if parameters.flag("cold")? { Cache::Dropped } else { Cache::Stays };
        Ok(Self { signal, target, restart_after, harm: Harm::TakesDown, cache })
    }
}

#[async_trait]
impl Fault for Ending {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn harm(&self) -> Harm {
        self.harm
    }

    fn hold(&self) -> Duration {
        self.restart_after
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        if self.cache == Cache::Dropped && site.on.place(site.node).is_none() {
            return Err(site.unavailable("its data is not on this machine, so its cache cannot be dropped"));
        }
        let pid = site.on.pid(site.node).await.ok_or_else(|| site.nothing_to_do("was not running"))?;
        Ok(facts([("pid", json!(pid))]))
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        site.on.signal(site.node, self.signal).await?;
        Ok(facts([("pid", memo["pid"].clone()), ("signal", json!(self.signal))]))
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        if self.signal == SIGTERM {
            return leaving(site, deadline).await;
        }
        let mut seen = ended(site, deadline).await?;
        if self.harm == Harm::LosesMajority {
            // The survivors notice it after an election timeout.
            let nobody = || async { site.view().await.primary().is_none().then_some(()) };
            site.until(deadline, "somebody still leads", nobody).await?;
            seen.insert("primary_now".into(), serde_json::Value::Null);
        }
        Ok(seen)
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let mut done = Evidence::new();
        let running = site.on.pid(site.node).await;
        if self.signal == SIGTERM && running.is_some() && running.map(i64::from) == memo["pid"].as_i64() {
            // It is still shutting down: its end is evidence, too.
            done.extend(exit_facts(site.on.wait_exit(site.node, SHUTDOWN_DEADLINE).await?));
        }
        if self.cache == Cache::Dropped && site.on.pid(site.node).await.is_none() {
            done.extend(cool(site).await?);
        }
        done.insert("pid_after".into(), json!(site.on.start(site.node).await?));
        Ok(done)
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        back(site, deadline).await
    }
}

/// Drops the files of a node that does not run from the page cache.
async fn cool(site: &Site<'_>) -> Result<Evidence, FaultError> {
    let Some(place) = site.on.place(site.node) else { return Ok(Evidence::new()) };
    let dropped = drop_all(&place.data).await.map_err(|e| site.failed("drop the files of", e))?;
    Ok(dropped.facts())
}

/// The effect of a kill: the process is gone (reaped by its parent, so this is certain).
async fn ended(site: &Site<'_>, deadline: Duration) -> Result<Evidence, FaultError> {
    Ok(left(site, site.on.wait_exit(site.node, deadline).await?))
}

fn left(site: &Site<'_>, exit: Exit) -> Evidence {
    let mut seen = facts([("role_before", json!(site.role_before())), ("pid_gone", json!(true))]);
    seen.extend(exit_facts(exit));
    seen.extend(site.before.term().map(|term| ("term_before".into(), json!(term))));
    seen
}

/// How a process ended, as evidence.
pub(crate) fn exit_facts(exit: Exit) -> Evidence {
    let code = exit.code.map(|code| ("exit_code".to_owned(), json!(code)));
    let signal = exit.signal.map(|signal| ("exit_signal".to_owned(), json!(signal)));
    code.into_iter().chain(signal).collect()
}

/// A clean shutdown works long before the process ends (a primary waits up to 15 s for its successor): its
/// effect is that the node is not what it was any more.
async fn leaving(site: &Site<'_>, deadline: Duration) -> Result<Evidence, FaultError> {
    let was = site.role_before();
    let changed = async {
        loop {
            let now = site.view().await.member(site.node).map_or(Role::Down, |m| m.role);
            if now != was {
                return now;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::select! {
        biased;
        exit = site.on.wait_exit(site.node, deadline) => exit.map(|exit| left(site, exit)),
        now = changed => Ok(facts([("role_before", json!(was)), ("role_now", json!(now))])),
    }
}

/// A node that was started again answers; what it and the others are now.
pub(crate) async fn back(site: &Site<'_>, deadline: Duration) -> Result<Evidence, FaultError> {
    site.on.wait_ready(site.node, deadline).await?;
    let view = site.view().await;
    let mut seen = facts([("answers", json!(true))]);
    if let Some(member) = view.member(site.node) {
        seen.insert("role_after".into(), json!(member.role));
    }
    // A quick restart comes before the election: then the old term says nothing of what came after.
    if let Some(primary) = view.primary() {
        seen.insert("primary_after".into(), json!(primary.name));
        seen.extend(view.term().map(|term| ("term_after".into(), json!(term))));
    }
    Ok(seen)
}
