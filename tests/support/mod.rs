//! What several test programs share: a server that does what a script says.

#![allow(dead_code, reason = "no test program uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(missing_docs, reason = "tests are no interface")]

pub mod aggregate;
pub mod commands;
pub mod fake_server;
pub mod run;
pub mod script;
pub mod store;
