//! The stand-in router: a wire-protocol proxy in front of a drained shard server.
//!
//! A `mongod >= 6.0` that was started with `--shardsvr`, added to a cluster as a shard and removed again still runs
//! MongoDB's own routing code behind its `cluster*` commands. It is called *rtr* here. This crate makes of it what
//! drivers take for a `mongos`:
//!
//! - [`serve`] accepts clients: one task and one private connection to rtr for each of them;
//! - `routes` is the one list of commands and where they go; what is not in it is refused (rtr would happily run
//!   it on its own empty databases);
//! - `crud` renames commands and passes the rest on as bytes; `aggregated` and `explain` build theirs;
//! - `cursors` remembers the session behind each open cursor, so that an abandoned one can be ended on the shards;
//! - `ddl` and `admin` speak to the primaries of config servers and shards, which `places` finds.
//!
//! No state must survive: a router that was killed may be started again on the same port at once; cursors of
//! before are then unknown (43 `CursorNotFound`), and drivers resume what can be resumed.
//!
//! # What it is not
//!
//! No sessions, transactions, retryable writes, change streams, tailable cursors, `findAndModify`, `mapReduce`,
//! resharding, `collMod`; no authentication, TLS or compression. It is neither supported nor tested by MongoDB: what is found about *routing* must not be reported
//! as a finding about MongoDB. Shards, config servers, balancer and migrations are the genuine ones.

mod admin;
mod aggregated;
mod body;
mod catalog;
mod client;
mod command;
mod crud;
mod cursors;
mod ddl;
mod dispatch;
mod error;
mod explain;
mod hello;
mod kill;
mod options;
mod places;
mod refusal;
mod router;
mod routes;
mod serve;
mod status;
mod stream;
mod upstream;

pub use error::RouterError;
pub use options::Options;
pub use serve::serve;
