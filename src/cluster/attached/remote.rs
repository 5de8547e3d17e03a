//! One member of somebody else's deployment, asked by the driver (which knows authentication and TLS), and only it.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use faults::CommandError;
use mongodb::Client;
use mongodb::options::{ClientOptions, ServerAddress};

use super::local::is_here;
use crate::cluster::ClusterError;
use crate::outcome;
use crate::scenario::Secret;

/// The first answer of a deployment.
const FIRST_ANSWER: Duration = Duration::from_secs(15);
/// A member that does not answer is tried again by the next question.
const SELECTION: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_millis(500);
const GOODBYE: Duration = Duration::from_secs(1);
const DEFAULT_PORT: u16 = 27017;

/// One member.
#[derive(Debug)]
pub struct Remote {
    host: String,
    port: u16,
    address: String,
    client: Client,
    /// As it said last; 0: not known, or it ended.
    pid: AtomicI32,
}

/// Addresses of all members, as they know each other.
///
/// # Errors
/// When nobody answers, or it is a sharded cluster.
pub async fn members(uri: &Secret) -> Result<Vec<String>, ClusterError> {
    let options = options(uri).await?;
    let first: Vec<String> = options.hosts.iter().map(with_port).collect();
    let client = Client::with_options(options).map_err(|error| refused(uri, &outcome::text(&error)))?;
    let admin = client.database("admin");
    let answer = tokio::time::timeout(FIRST_ANSWER, admin.run_command(doc! { "hello": 1 })).await;
    shut_down(client).await;
    let hello = answer.map_err(|_| refused(uri, &format!("no answer within {FIRST_ANSWER:?}")))?;
    let hello = hello.map_err(|error| refused(uri, &outcome::text(&error)))?;
    if hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid") {
        return Err(refused(uri, "it is a sharded cluster, on which this version injects no faults"));
    }
    let list = |key: &str| hello.get_array(key).map(Vec::as_slice).unwrap_or_default();
    // Arbiters are processes, too.
    let all = ["hosts", "passives", "arbiters"].into_iter().flat_map(list);
    let hosts: Vec<String> = all.filter_map(|host| host.as_str().map(str::to_owned)).collect();
    let addresses = if hosts.is_empty() { first } else { hosts };
    // They come from a server, and end up in commands of the user.
    match addresses.iter().find(|address| !is_plain(address)) {
        Some(odd) => Err(refused(uri, &format!("a member calls itself {odd:?}, which is no address"))),
        None => Ok(addresses),
    }
}

fn is_plain(address: &str) -> bool {
    address.chars().all(|c| c.is_ascii_alphanumeric() || ".:-_[]".contains(c))
}

async fn options(uri: &Secret) -> Result<ClientOptions, ClusterError> {
    let parsed = ClientOptions::parse(uri.reveal()).await;
    let mut options =
        parsed.map_err(|_| ClusterError::Attach("the connection string is not understood".into()))?;
    options.app_name = Some("mongosoak faults".into());
    options.server_selection_timeout = Some(SELECTION);
    options.connect_timeout = Some(SELECTION);
    options.heartbeat_freq = Some(HEARTBEAT);
    options.retry_reads = Some(false);
    options.retry_writes = Some(false);
    Ok(options)
}

/// Closes the connections. The driver says goodbye to the servers and waits for their answers; a frozen one has
/// none.
async fn shut_down(client: Client) {
    let _rude = tokio::time::timeout(GOODBYE, client.shutdown().immediate(true)).await;
}

/// An error without the secrets of the connection string.
fn refused(uri: &Secret, why: &str) -> ClusterError {
    ClusterError::Attach(uri.hidden_in(why))
}

fn with_port(address: &ServerAddress) -> String {
    match address {
        ServerAddress::Tcp { host, port } => format!("{host}:{}", port.unwrap_or(DEFAULT_PORT)),
        other => other.to_string(),
    }
}

impl Remote {
    /// A client of this member alone. Nothing is sent yet.
    ///
    /// # Errors
    /// When the connection string is not understood.
    pub async fn connect(uri: &Secret, address: &str) -> Result<Self, ClusterError> {
        let mut options = options(uri).await?;
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "27017"));
        let port = port.parse().unwrap_or(DEFAULT_PORT);
        options.hosts = vec![ServerAddress::Tcp { host: host.into(), port: Some(port) }];
        options.direct_connection = Some(true);
        options.repl_set_name = None;
        let client = Client::with_options(options).map_err(|error| refused(uri, &outcome::text(&error)))?;
        Ok(Self { host: host.into(), port, address: address.into(), client, pid: AtomicI32::new(0) })
    }

    /// Where it is.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// On which port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether it is on this machine.
    pub async fn is_here(&self) -> bool {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        found.is_ok_and(|mut addresses| addresses.any(|address| is_here(address.ip())))
    }

    /// Runs a command on this very member.
    ///
    /// # Errors
    /// As the server or the connection says.
    pub async fn command(
        &self,
        database: &str,
        body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        let database = self.client.database(database);
        let mut body = body.clone();
        // The driver would refuse it inside of a command; asked directly, every member answers.
        body.remove("$readPreference");
        match tokio::time::timeout(deadline, database.run_command(body)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(outcome::command_error(&error)),
            Err(_) => Err(CommandError::Timeout(deadline)),
        }
    }

    /// The process that it says it is; while it does not answer, the one that it said before.
    pub async fn pid(&self, deadline: Duration) -> Option<i32> {
        let status = doc! { "serverStatus": 1, "metrics": 0, "wiredTiger": 0, "locks": 0, "tcmalloc": 0 };
        let said = self.command("admin", &status, deadline).await.ok();
        if let Some(pid) = said.as_ref().and_then(|status| status.get("pid")).and_then(super::number) {
            self.pid.store(pid, Ordering::Relaxed);
        }
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// Closes the connections to it.
    pub async fn leave(&self) {
        shut_down(self.client.clone()).await;
    }

    /// Its process ended.
    pub fn forget_pid(&self) {
        self.pid.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_command() {
        for plain in ["db1.example.net:27017", "[::1]:27017", "mongo-0.mongo_svc:1"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["a;reboot:1", "$(reboot):1", "a b:1"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
