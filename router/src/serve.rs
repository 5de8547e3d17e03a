//! Accepts clients, one task each, until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Connection;

use crate::cursors::Cursors;
use crate::hello::Identity;
use crate::relay::Client;
use crate::servers::Servers;
use crate::{Options, RouterError};

const ENGINE_DEADLINE: Duration = Duration::from_secs(5);
const BACKLOG: u32 = 1_024;
/// After this a listener that could not accept tries again.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// Forgotten cursors are looked for so often.
const SWEEP: Duration = Duration::from_secs(10);

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub options: Options,
    pub identity: Identity,
    pub servers: Servers,
    pub cursors: Cursors,
    pub counters: Counters,
}

/// What was done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub connections: AtomicU64,
    pub turned_away: AtomicU64,
    pub commands: AtomicU64,
    pub refused: AtomicU64,
    pub stale_retries: AtomicU64,
}

impl Shared {
    /// The answer to the command that asks what this is.
    pub fn who(&self) -> Document {
        let count = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        doc! {
            "what": format!("stand-in router (cluster* commands of mongod {})", self.identity.version),
            "isMongos": false,
            "pid": i32::try_from(std::process::id()).unwrap_or_default(),
            "engine": &self.options.upstream,
            "connections": count(&self.counters.connections),
            "turnedAway": count(&self.counters.turned_away),
            "commands": count(&self.counters.commands),
            "refused": count(&self.counters.refused),
            "staleRetries": count(&self.counters.stale_retries),
            "openCursors": i64::try_from(self.cursors.count()).unwrap_or(i64::MAX),
        }
    }
}

/// Serves until `stop`. Looks first whether the engine can route.
///
/// # Errors
/// When the engine does not answer or cannot route, or nobody can listen there.
pub async fn serve(options: Options, stop: CancellationToken) -> Result<(), RouterError> {
    let identity = identify(&options).await?;
    let listener = listen(&options)?;
    let servers = Servers::new(options.config.clone());
    let shared = Arc::new(Shared {
        options,
        identity,
        servers,
        cursors: Cursors::default(),
        counters: Counters::default(),
    });
    let mut clients = JoinSet::new();
    clients.spawn(sweep(Arc::clone(&shared)));
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    number += 1;
                    admit(&shared, socket, number, &mut clients);
                }
                Err(error) => {
                    tracing::warn!(%error, "no client could be accepted");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            },
            Some(ended) = clients.join_next() => if let Err(panic) = ended {
                tracing::error!(%panic, "the task of a client failed");
            },
        }
    }
    clients.shutdown().await;
    Ok(())
}

fn admit(shared: &Arc<Shared>, socket: TcpStream, number: u64, clients: &mut JoinSet<()>) {
    // One of the tasks is that of the cursors.
    if clients.len() > shared.options.connections_max {
        shared.counters.turned_away.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let shared = Arc::clone(shared);
    clients.spawn(async move {
        shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        let ended = Client::new(&shared, number).serve(socket).await;
        shared.counters.connections.fetch_sub(1, Ordering::Relaxed);
        if let Err(why) = ended {
            tracing::debug!(%why, number, "the connection of a client ended");
        }
    });
}

fn listen(options: &Options) -> Result<TcpListener, RouterError> {
    let address = options.listen;
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of the one before, which was killed, may still be there.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|why| RouterError::Listen { address, why })
}

/// Looks at the engine itself, not at its version.
async fn identify(options: &Options) -> Result<Identity, RouterError> {
    let address = &options.upstream;
    let failed = |why| RouterError::Engine { address: address.clone(), why };
    let mut engine = Connection::connect(address, ENGINE_DEADLINE).await.map_err(failed)?;
    let mut ask =
        async |command: Document| engine.command("admin", &command, ENGINE_DEADLINE).await.map_err(failed);
    let hello = ask(doc! { "hello": 1 }).await?;
    let version = ask(doc! { "buildInfo": 1 }).await?.get_str("version").unwrap_or("unknown").to_owned();
    let commands = ask(doc! { "listCommands": 1 }).await?;
    if !commands.get_document("commands").is_ok_and(|all| all.contains_key("clusterInsert")) {
        return Err(RouterError::CannotRoute { address: address.clone(), version });
    }
    let number = |name: &str| hello.get_i32(name).unwrap_or_default();
    Ok(Identity {
        min_wire_version: number("minWireVersion"),
        max_wire_version: number("maxWireVersion"),
        version,
    })
}

/// Closes the cursors that clients have forgotten.
async fn sweep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP.min(shared.options.cursor_timeout)).await;
        let idle = shared.cursors.idle_for(shared.options.cursor_timeout);
        if let Err(why) = crate::relay::close_all(&shared, &idle).await {
            tracing::warn!(why = why.message, "forgotten cursors were not closed");
        }
    }
}
