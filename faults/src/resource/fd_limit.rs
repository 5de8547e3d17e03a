//! `fd_limit`: a server gets no more descriptors: no new connection, no further file.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use nix::libc;
use serde_json::json;

use crate::catalog::{Kind, Need};
use crate::process::back;
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Harm, Memo, NodeTarget, Parameter, Preset, Proof, Site,
    TARGET_PRIMARY, Takes, facts,
};

/// `RLIMIT_NOFILE` of a running process.
pub const FD_LIMIT: Kind = Kind {
    name: "fd_limit",
    group: "resource",
    does: "a server may open no more descriptors than that: new connections and files are refused",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "limit",
            takes: Takes::Count,
            default: Preset::Absent,
            about: "how many it may have open; left out: as many as it has open when it is hit",
        },
        FOR_30_S,
    ],
    needs: &[Need::Processes],
    build: |parameters| {
        let limit = parameters.has("limit").then(|| parameters.count("limit")).transpose()?;
        Ok(Box::new(FdLimit {
            target: parameters.target("target")?,
            limit,
            hold: parameters.duration("for")?,
        }))
    },
};

#[derive(Debug)]
struct FdLimit {
    target: NodeTarget,
    limit: Option<u64>,
    hold: Duration,
}

#[async_trait]
impl Fault for FdLimit {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    /// Others cannot connect to it, and it may end when it cannot open a file of its own.
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
        let server = Proof::at(site).await?;
        let out_of_reach = |e| site.unavailable(format!("the limits of its process are out of reach: {e}"));
        let former = limit_of(server.pid, None).map_err(out_of_reach)?;
        let open = open_descriptors(server.pid).map_err(out_of_reach)?;
        let limit = self.limit.unwrap_or(open);
        if limit >= former {
            return Err(site.nothing_to_do(format!("may open no more than {former} already")));
        }
        let mut memo = server.memo();
        memo.extend(facts([("former", json!(former)), ("limit", json!(limit)), ("open", json!(open))]));
        Ok(memo)
    }

    async fn inject(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let server = Proof::noted(memo).filter(Proof::holds);
        let server = server.ok_or_else(|| site.nothing_to_do("has ended meanwhile"))?;
        // A server that cannot open a file of its own may end.
        site.on.expect_end(site.node, true).await?;
        limit_of(server.pid, memo["limit"].as_u64()).map_err(|e| site.failed("limit", e))?;
        Ok(["pid", "limit", "open"].into_iter().map(|name| (name.to_owned(), memo[name].clone())).collect())
    }

    /// The kernel says so, and as many are open as may be: the next one is refused.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let pid = Proof::noted(memo).map_or(0, |server| server.pid);
        let limit = memo["limit"].as_u64().unwrap_or_default();
        let address = site.on.address(site.node).unwrap_or_default();
        // Whoever connects takes one; they are given back together when enough were seen.
        let mut taken = Vec::new();
        let used_up = async {
            loop {
                let now = (limit_of(pid, None).ok(), open_descriptors(pid).ok());
                if let (Some(now), Some(open)) = now
                    && now == limit
                    && open >= limit
                {
                    return facts([("limit", json!(now)), ("open", json!(open))]);
                }
                if (taken.len() as u64) < limit
                    && let Ok(connection) = tokio::net::TcpStream::connect(&address).await
                {
                    taken.push(connection);
                } else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        let seen = tokio::time::timeout(deadline, used_up).await;
        seen.map_err(|_| site.no_effect(deadline, "it has fewer open than it may"))
    }

    async fn lift(&self, site: &Site<'_>, memo: &Memo) -> Result<Evidence, FaultError> {
        let Some(server) = Proof::noted(memo).filter(Proof::holds) else {
            // A new process has a limit of its own.
            let pid = site.on.start(site.node).await?;
            return Ok(facts([("target_gone", json!(true)), ("pid_after", json!(pid))]));
        };
        let former = memo["former"].as_u64();
        limit_of(server.pid, former).map_err(|e| site.failed("lift the limit of", e))?;
        site.on.expect_end(site.node, false).await?;
        Ok(facts([("limit", json!(former))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let mut seen = back(site, deadline).await?;
        if let Some(server) = Proof::noted(memo).filter(Proof::holds) {
            let limit = limit_of(server.pid, None).map_err(|e| site.failed("look at", e))?;
            if Some(limit) != memo["former"].as_u64() {
                return Err(site.no_effect(deadline, format!("its limit is still {limit}")));
            }
            seen.insert("limit".into(), json!(limit));
        }
        Ok(seen)
    }
}

/// The soft limit of a process before it is set to `to`. The hard limit stays: raising it again would need root.
fn limit_of(pid: i32, to: Option<u64>) -> io::Result<u64> {
    let mut former = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let call = |new: *const libc::rlimit64, old: *mut libc::rlimit64| {
        // SAFETY: both are null or point to a structure that lives longer than the call.
        match unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, new, old) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    call(std::ptr::null(), &raw mut former)?;
    if let Some(soft) = to {
        let new = libc::rlimit64 { rlim_cur: soft.min(former.rlim_max), rlim_max: former.rlim_max };
        call(&raw const new, std::ptr::null_mut())?;
    }
    Ok(former.rlim_cur)
}

fn open_descriptors(pid: i32) -> io::Result<u64> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}
