//! What the conductor is asked for, and what it gives back.

use std::io;
use std::path::PathBuf;

use crate::cluster;
use crate::plan::Plan;
use crate::report::data::Report;
use crate::scenario::{Scenario, Source};

/// What to run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Checked.
    pub scenario: Scenario,
    /// Its text.
    pub source: Source,
    /// Expanded, with the seed.
    pub plan: Plan,
    /// Run directory; `None`: `runs/<scenario>/<time>-<seed>`.
    pub out: Option<PathBuf>,
    /// `--mongod`: goes before the scenario's.
    pub mongod: Option<String>,
    /// No progress lines.
    pub quiet: bool,
    /// Keep the nodes' data also after a pass.
    pub keep_data: bool,
    /// What it is for.
    pub goal: Goal,
    /// Folder of the nodes' data, of an earlier run or new; `None`: in the run directory.
    pub data: Option<PathBuf>,
    /// Drop the collection of an earlier load first.
    pub drop: bool,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To drive and judge.
    Run,
    /// To fill the collection.
    Load {
        /// And to look up every key afterwards.
        verify: bool,
    },
}

/// A run that came to its end, one way or another.
#[derive(Debug)]
pub struct Finished {
    /// Its directory.
    pub dir: PathBuf,
    /// What it came to.
    pub report: Report,
}

/// The run could not even begin; nothing is left behind but perhaps an empty directory.
#[derive(Debug, thiserror::Error)]
pub enum CannotRun {
    /// No mongod.
    #[error(transparent)]
    Binary(#[from] cluster::binary::NotFound),
    /// The run directory, the disk or the log.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The recording cannot be read back.
    #[error("judge the run in {dir}: {why}")]
    Judge {
        /// The run directory.
        dir: PathBuf,
        /// Why.
        why: String,
    },
}
