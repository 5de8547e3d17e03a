//! The real binary against a server that does what a script says: what it reports must be what happened.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod control;
mod counters;
mod defects;
mod determinism;
mod errors;
mod exit_codes;
mod freeze;
mod load;
mod long_freeze;
mod operations;
mod scaling;
mod secrets;
mod silence;
mod wire;
mod ycsb;
