//! The one driver client of a run.

use std::time::Duration;

use bson::doc;
use mongodb::Client;
use mongodb::options::ClientOptions;
use serde_json::{Value, json};

use crate::outcome;
use crate::scenario::{Workload, hide_credentials};
use crate::workload::CONNECTIONS_PER_WORKER;

/// The first answer of a deployment may take this long.
const FIRST_ANSWER: Duration = Duration::from_secs(30);
/// A healthy deployment ends our sessions in milliseconds.
const GOODBYE: Duration = Duration::from_secs(2);

/// A client that had its first answer.
#[derive(Debug)]
pub struct Connected {
    /// The client.
    pub client: Client,
    /// What the driver tries again by itself, for the manifest.
    pub retries: Value,
}

/// A client whose pool is never the bottleneck: a worker may leave many operations behind that outlived
/// their deadline, each with its connection. The driver opens only what is needed at a time.
///
/// # Errors
/// For people, without secrets: the URI is not understood, or nobody answers.
pub async fn connect(uri: &str, workloads: &[Workload]) -> Result<Connected, String> {
    let hide = |text: String| hide_credentials(&text, uri);
    let parsed = ClientOptions::parse(uri).await;
    let mut options =
        parsed.map_err(|e| hide(format!("the URI is not understood: {}", outcome::text(&e))))?;
    let workers: u32 = workloads.iter().map(|w| w.workers).sum();
    options.app_name = Some("mongosoak".into());
    options.max_pool_size = Some(workers.saturating_mul(CONNECTIONS_PER_WORKER).max(10));
    // Both are on in the driver unless the URI turns them off.
    let retries = json!({
        "writes": options.retry_writes.unwrap_or(true),
        "reads": options.retry_reads.unwrap_or(true),
    });
    let client = Client::with_options(options).map_err(|e| hide(outcome::text(&e)))?;
    let database = client.database("admin");
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move { database.run_command(doc! { "ping": 1 }).await });
    match tokio::time::timeout(FIRST_ANSWER, task.join_next()).await {
        Ok(Some(Ok(Ok(_)))) => Ok(Connected { client, retries }),
        Ok(Some(Ok(Err(error)))) => Err(hide(format!("no answer to ping: {}", outcome::text(&error)))),
        Ok(_) => Err("the first ping panicked".into()),
        Err(_) => Err(format!("no answer to ping within {} s", FIRST_ANSWER.as_secs())),
    }
}

/// Gives up what is under way and closes the connections. The driver says goodbye to the servers and waits
/// for their answers; a frozen one has none.
pub async fn shut_down(client: Client) {
    let _rude = tokio::time::timeout(GOODBYE, client.shutdown().immediate(true)).await;
}

/// What the deployment says of itself, for the manifest.
pub async fn describe(connected: &Connected) -> Value {
    let client = &connected.client;
    let admin = client.database("admin");
    let build = admin.run_command(doc! { "buildInfo": 1 }).await.ok();
    let hello = admin.run_command(doc! { "hello": 1 }).await.ok();
    let defaults = admin.run_command(doc! { "getDefaultRWConcern": 1 }).await.ok();
    let text = |from: &Option<bson::Document>, name: &str| {
        from.as_ref().and_then(|d| d.get(name).cloned()).map(bson::Bson::into_relaxed_extjson)
    };
    json!({
        "version": text(&build, "version"),
        "retries": connected.retries,
        "storage_engine": text(&build, "storageEngines"),
        "set_name": text(&hello, "setName"),
        "hosts": text(&hello, "hosts"),
        "message": text(&hello, "msg"),
        "default_write_concern": text(&defaults, "defaultWriteConcern"),
        "default_read_concern": text(&defaults, "defaultReadConcern"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dead_port_is_reported_as_soon_as_the_uri_allows() {
        let uri = "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=500";
        let clock = crate::clock::Clock::start();
        let error = connect(uri, &[]).await.unwrap_err();
        assert!(error.contains("no answer"), "{error}");
        assert!(clock.now() < Duration::from_secs(5));
    }
}
