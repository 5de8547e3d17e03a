//! Accepts clients until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::client;
use crate::error::RouterError;
use crate::kill;
use crate::options::Options;
use crate::router::Router;

/// Clients that wait to be accepted, as servers have it.
const BACKLOG: u32 = 1_024;
/// When no client can be accepted, most likely for want of file descriptors, others must end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Makes sure that rtr can route, then serves clients until `stop` is cancelled; all of them are disconnected then.
///
/// The process may be killed at any time and started again on the same port.
///
/// # Errors
/// When rtr does not answer or cannot route, and when the port cannot be had. Once it serves, it goes on.
pub async fn serve(options: Options, stop: CancellationToken) -> Result<(), RouterError> {
    let router = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        router = Router::probe(options) => Arc::new(router?),
    };
    let listen = router.options.listen;
    let listener = bind(listen).map_err(|error| RouterError::Listen { listen, error })?;
    tracing::info!(%listen, upstream = router.options.upstream, "serving: {}", router.description());
    let mut clients = JoinSet::new();
    let mut sweeper = std::pin::pin!(kill::sweep(&router));
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            never = &mut sweeper => match never {},
            Some(ended) = clients.join_next() => {
                router.counters.connections_open.store(clients.len() as u64, Ordering::Relaxed);
                if let Err(error) = ended {
                    tracing::error!("the task of a client failed: {error}");
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => admit(&router, &mut clients, stream),
                Err(error) => {
                    tracing::warn!("cannot accept a client: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    clients.shutdown().await;
    Ok(())
}

fn admit(router: &Arc<Router>, clients: &mut JoinSet<()>, stream: TcpStream) {
    let counters = &router.counters;
    if clients.len() >= router.options.connections_max {
        counters.connections_refused.fetch_add(1, Ordering::Relaxed);
        return; // which closes it
    }
    counters.connections_total.fetch_add(1, Ordering::Relaxed);
    clients.spawn(client::serve(Arc::clone(router), stream));
    counters.connections_open.store(clients.len() as u64, Ordering::Relaxed);
}

fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a router that was killed must not keep its port from the next one.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}
