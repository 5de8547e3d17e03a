//! Why a router cannot serve.

use std::net::SocketAddr;
use std::time::Duration;

use wire::CommandError;

/// Why [`serve`](crate::serve) ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Nobody answers at the address of rtr.
    #[error("the server behind the router at {upstream} does not answer within {after:?}: {error}")]
    Unreachable {
        /// Its address.
        upstream: String,
        /// How long it was tried.
        after: Duration,
        /// What the last attempt came to.
        error: CommandError,
    },
    /// It answers, and cannot be used as a router.
    #[error("the server behind the router at {upstream} cannot route: {reason}")]
    CannotRoute {
        /// Its address.
        upstream: String,
        /// What is missing.
        reason: String,
    },
    /// The port cannot be had.
    #[error("cannot listen on {listen}: {error}")]
    Listen {
        /// The address that was asked for.
        listen: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
}
