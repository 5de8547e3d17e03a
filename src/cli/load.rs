//! `load`: only the filling of the collection.

use clap::Args;

use super::run::{ConductArguments, conduct};
use crate::exit::Outcome;
use crate::run::Goal;

/// Arguments of `load`.
#[derive(Debug, Args)]
pub struct LoadArguments {
    #[command(flatten)]
    conduct: ConductArguments,
    /// Do not look up every key afterwards
    #[arg(long)]
    no_verify: bool,
}

/// Brings the cluster up, fills the collection or goes on with it, looks up every key, and stops. The data stays.
pub async fn load(arguments: &LoadArguments) -> Outcome {
    conduct(&arguments.conduct, Goal::Load { verify: !arguments.no_verify }, true).await
}
