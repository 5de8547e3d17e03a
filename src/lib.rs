//! mongosoak: the stability and failure-injection soak tester for MongoDB.
//!
//! One direction: scenario -> plan -> cluster, workload, nemesis -> events -> recorder -> run directory
//! -> analysis -> report -> exit code. `ARCHITECTURE.md` has the picture.

pub mod analysis;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod control;
pub mod dataset;
pub mod entropy;
pub mod event;
pub mod exit;
pub mod file;
pub mod heal;
pub mod judge;
pub mod ledger;
pub mod live;
pub mod logging;
pub mod monitor;
pub mod nemesis;
pub mod outcome;
pub mod plan;
pub mod recorder;
pub mod recording;
pub mod report;
pub mod run;
pub mod scenario;
pub mod search;
pub mod signals;
pub mod state;
pub mod workload;
