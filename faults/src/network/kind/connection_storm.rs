//! `connection_storm`: many clients at once that connect, say hello, and stay.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bson::doc;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;
use wire::Connection;

use crate::catalog::Kind;
use crate::replication::number;
use crate::{
    Evidence, FOR_30_S, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, TARGET_PRIMARY, Takes,
    facts,
};

/// One connection and its greeting.
const ANSWER: Duration = Duration::from_secs(10);
/// Connections that are made at the same time.
const AT_ONCE: usize = 64;
/// Each takes a descriptor here, two in a proxy and one in the server.
const MOST_CONNECTIONS: u64 = 100_000;

/// Pressure on the limit of connections.
pub const CONNECTION_STORM: Kind = Kind {
    name: "connection_storm",
    group: "network",
    does: "opens many connections to a node, greets, and holds them",
    parameters: &[
        TARGET_PRIMARY,
        Parameter {
            name: "connections",
            takes: Takes::Count,
            default: Preset::Count(500),
            about: "how many",
        },
        FOR_30_S,
    ],
    needs: &[],
    build: |parameters| {
        let connections = parameters.count("connections")?;
        if !(1..=MOST_CONNECTIONS).contains(&connections) {
            return Err(format!("connections: must be 1 to {MOST_CONNECTIONS}"));
        }
        Ok(Box::new(Storm {
            target: parameters.target("target")?,
            connections,
            hold: parameters.duration("for")?,
            open: Mutex::default(),
        }))
    },
};

#[derive(Debug)]
struct Storm {
    target: NodeTarget,
    connections: u64,
    hold: Duration,
    /// They die with this process, so nothing of them need be noted.
    open: Mutex<Vec<Connection>>,
}

impl Storm {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Fault for Storm {
    fn target(&self) -> NodeTarget {
        self.target.clone()
    }

    fn hold(&self) -> Duration {
        self.hold
    }

    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let current = current(site).await.ok_or_else(|| site.nothing_to_do("does not answer"))?;
        Ok(facts([("connections_before", json!(current))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let address =
            site.on.address(site.node).ok_or_else(|| site.unavailable("it has no known address"))?;
        let one = |_| async {
            let mut connection = Connection::connect(&address, ANSWER).await?;
            connection.command("admin", &doc! { "hello": 1 }, ANSWER).await?;
            Ok::<_, crate::CommandError>(connection)
        };
        let mut made = stream::iter(0..self.connections).map(one).buffer_unordered(AT_ONCE);
        let (mut refused, mut why) = (0_u64, None);
        while let Some(connection) = made.next().await {
            match connection {
                Ok(connection) => self.open().push(connection),
                Err(error) => {
                    refused += 1;
                    why.get_or_insert(error.to_string());
                }
            }
        }
        let opened = self.open().len();
        if opened == 0 {
            return Err(site.failed("connect to", why.unwrap_or_default()));
        }
        let mut done = facts([("opened", json!(opened)), ("refused", json!(refused))]);
        done.extend(why.map(|why| ("first_refusal".to_owned(), json!(why))));
        Ok(done)
    }

    /// The server counts them; or it has no room for more.
    async fn observe_effect(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let before = memo["connections_before"].as_i64().unwrap_or_default();
        let opened = i64::try_from(self.open().len()).unwrap_or(i64::MAX);
        // The load's own pools may shrink meanwhile.
        let look = || async { current(site).await.filter(|now| *now >= before + opened / 2) };
        let now = site.until(deadline, "a rise of its connections", look).await?;
        Ok(facts([("connections_before", json!(before)), ("connections_now", json!(now))]))
    }

    async fn lift(&self, _site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let closed = std::mem::take(&mut *self.open()).len();
        Ok(facts([("closed", json!(closed))]))
    }

    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let before = memo["connections_before"].as_i64().unwrap_or_default();
        let most = i64::try_from(self.connections).unwrap_or(i64::MAX);
        let look = || async { current(site).await.filter(|now| *now < before + most / 2 + 1) };
        let now = site.until(deadline, "the end of its connections", look).await?;
        Ok(facts([("connections_now", json!(now))]))
    }
}

async fn current(site: &Site<'_>) -> Option<i64> {
    let status =
        doc! { "serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "wiredTiger": 0, "tcmalloc": 0 };
    let status = site.ask(status).await.ok()?;
    Some(number(status.get_document("connections").ok()?.get("current")))
}
