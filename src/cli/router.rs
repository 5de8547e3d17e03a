//! `router`: the stand-in for a mongos, as a process of its own. A managed sharded cluster starts it; nobody else has
//! a reason to, so the help does not list it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use tokio::task::JoinSet;

use super::complain;
use crate::exit::Outcome;
use crate::signals::{Listener, Stop};

/// A fault may keep the server behind it from starting; whoever started this one ends it when it waited enough.
const START_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

/// Arguments of `router`.
#[derive(Debug, Args)]
pub struct RouterArguments {
    /// Port on 127.0.0.1 for clients
    #[arg(long)]
    port: u16,
    /// `host:port` of the drained shard server that routes
    #[arg(long)]
    engine: String,
    /// `host:port` of the config servers
    #[arg(long, value_delimiter = ',')]
    config: Vec<String>,
}

/// Serves until a signal.
pub async fn run(arguments: RouterArguments) -> Outcome {
    let listener = match Listener::install() {
        Ok(listener) => listener,
        Err(error) => return complain(format!("listen to signals: {error}"), Outcome::Error),
    };
    let (stop, mut signals) = (Stop::default(), JoinSet::new());
    signals.spawn(listener.run(stop.clone()));
    let options = ::router::Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port)),
        upstream: arguments.engine,
        config: arguments.config,
        start_timeout: START_TIMEOUT,
        ..::router::Options::default()
    };
    match ::router::serve(options, stop.orderly.clone()).await {
        Ok(()) => Outcome::Pass,
        Err(error) => complain(error, Outcome::Error),
    }
}
