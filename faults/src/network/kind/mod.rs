//! The kinds of fault that the proxies make. Each is one short file that says which connections, and what becomes
//! of them; [`Shaping`] does the rest.
//!
//! Whose connections: with a node as `target`, all that others dial to it and all that it dials itself, narrowed by
//! `direction`; with `clients`, those of everybody who is no member, to every node. Direction means who dialled, as
//! a TCP connection that loses packets one way loses them both ways; `side` picks one stream of a connection.

mod accept_close;
mod bandwidth;
mod black_hole;
mod connection_storm;
mod cut_reply;
mod drop_connections;
mod drop_nth;
mod flap;
mod latency;
mod partition;
mod refuse;
mod shaping;
mod whom;

pub use accept_close::ACCEPT_CLOSE;
pub use bandwidth::BANDWIDTH;
pub use black_hole::BLACK_HOLE;
pub use connection_storm::CONNECTION_STORM;
pub use cut_reply::CUT_REPLY;
pub use drop_connections::DROP_CONNECTIONS;
pub use drop_nth::DROP_NTH;
pub use flap::FLAP;
pub use latency::LATENCY;
pub use partition::PARTITION;
pub use refuse::REFUSE;

use shaping::Shaping;
use whom::{DIRECTION, SIDE, Whom};
