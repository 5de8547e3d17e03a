//! Makes a replica set of fresh nodes, and asks for its first election instead of waiting for it; takes over
//! the set of an earlier run.

use std::time::Duration;

use bson::{Bson, Document, doc};
use faults::Role;
use tokio_util::sync::CancellationToken;

use super::ClusterError;
use super::node::Node;
use crate::clock::Clock;
use crate::scenario::Part;

/// From "all answer" to "a majority write went through"; the election timeout comes on top.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
const COMMAND_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Initiates the set with node 0 as the first choice, makes it step up, and waits until a majority
/// write went through.
///
/// # Errors
/// When a command fails for good or nobody takes writes in time.
pub async fn initiate(
    nodes: &[std::sync::Arc<Node>],
    election_timeout: Duration,
    clock: Clock,
    stop: &CancellationToken,
) -> Result<(), ClusterError> {
    let first = &nodes[0];
    let failed = |what, error: wire::CommandError| ClusterError::ReplicaSet {
        what,
        node: first.name().into(),
        why: error.to_string(),
    };
    let config = configuration(nodes, election_timeout);
    first
        .ask(&doc! { "replSetInitiate": config }, COMMAND_DEADLINE)
        .await
        .map_err(|e| failed("replSetInitiate", e))?;
    let deadline = DEADLINE + election_timeout;
    let until = clock.now() + deadline;
    loop {
        if stop.is_cancelled() {
            return Err(ClusterError::Stopped);
        }
        match first.member().await.role {
            Role::Primary => break,
            // Refused until the others have heard of the set: ask again.
            Role::Secondary => drop(first.ask(&doc! { "replSetStepUp": 1 }, COMMAND_DEADLINE).await),
            _ => {}
        }
        if clock.now() > until {
            return Err(no_primary(nodes, deadline).await);
        }
        tokio::time::sleep(POLL).await;
    }
    majority_write(first).await.map_err(|e| failed("the first majority write", e))
}

/// Takes over a set that has a primary again: its election timeout becomes that of this run, and a majority
/// write goes through.
///
/// # Errors
/// When a command fails for good or nobody takes writes in time.
pub async fn adopt(
    nodes: &[std::sync::Arc<Node>],
    election_timeout: Duration,
    clock: Clock,
) -> Result<(), ClusterError> {
    let until = clock.now() + DEADLINE + election_timeout;
    loop {
        let mut failed = None;
        for node in nodes {
            if node.member().await.role != Role::Primary {
                continue;
            }
            let taken = match set_timeout(node, election_timeout).await {
                Ok(()) => majority_write(node).await,
                Err(error) => Err(error),
            };
            match taken {
                Ok(()) => return Ok(()),
                Err(error) => failed = Some((node.name().to_owned(), error)),
            }
        }
        if clock.now() > until {
            let Some((node, error)) = failed else {
                return Err(no_primary(nodes, DEADLINE + election_timeout).await);
            };
            let what = "take over the set";
            return Err(ClusterError::ReplicaSet { what, node, why: error.to_string() });
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn set_timeout(primary: &Node, election_timeout: Duration) -> Result<(), wire::CommandError> {
    let answer = primary.ask(&doc! { "replSetGetConfig": 1 }, COMMAND_DEADLINE).await?;
    let Ok(mut config) = answer.get_document("config").cloned() else {
        return Ok(());
    };
    let wanted = settings(election_timeout);
    let current = config.get_document("settings").ok().and_then(|s| number(s, "electionTimeoutMillis"));
    if current == number(&wanted, "electionTimeoutMillis") {
        return Ok(());
    }
    let mut merged = config.get_document("settings").cloned().unwrap_or_default();
    merged.extend(wanted);
    let version = number(&config, "version").unwrap_or_default() + 1;
    config.insert("settings", merged);
    config.insert("version", version);
    primary.ask(&doc! { "replSetReconfig": config }, COMMAND_DEADLINE).await.map(drop)
}

fn number(document: &Document, name: &str) -> Option<i64> {
    let value = document.get(name)?;
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

fn settings(election_timeout: Duration) -> Document {
    let timeout_ms = i64::try_from(election_timeout.as_millis()).unwrap_or(i64::MAX);
    // Failure detection needs several heartbeats within the election timeout.
    let heartbeat_ms = (timeout_ms / 4).clamp(200, 2_000);
    doc! { "electionTimeoutMillis": timeout_ms, "heartbeatIntervalMillis": heartbeat_ms }
}

fn configuration(nodes: &[std::sync::Arc<Node>], election_timeout: Duration) -> Document {
    let member = |(id, node): (i32, &std::sync::Arc<Node>)| doc! { "_id": id, "host": node.address() };
    let members: Vec<Bson> = (0..).zip(nodes).map(|pair| Bson::Document(member(pair))).collect();
    let name = nodes[0].replica_set().unwrap_or_default();
    let mut all = doc! { "_id": name, "members": members, "settings": settings(election_timeout) };
    if nodes[0].part() == Part::Config {
        all.insert("configsvr", true);
    }
    all
}

/// A write that changes nothing and waits for a majority.
async fn majority_write(node: &Node) -> Result<(), wire::CommandError> {
    let note = doc! {
        "appendOplogNote": 1,
        "data": { "mongosoak": "replica set ready" },
        "writeConcern": { "w": "majority", "wtimeout": 60_000 },
    };
    node.ask(&note, DEADLINE).await.map(drop)
}

async fn no_primary(nodes: &[std::sync::Arc<Node>], deadline: Duration) -> ClusterError {
    let mut members = Vec::new();
    for node in nodes {
        members.push(format!("{} {:?}", node.name(), node.member().await.role).to_lowercase());
    }
    ClusterError::NoPrimary { seconds: deadline.as_secs_f64(), members: members.join(", ") }
}
