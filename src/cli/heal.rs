//! `heal`: what a dead tester left broken.

use std::path::PathBuf;

use clap::Args;

use super::complain;
use crate::exit::Outcome;
use crate::heal::{HealError, PATIENT, forget, heal, lines};
use crate::scenario::Secret;

/// Arguments of `heal`.
#[derive(Debug, Args)]
pub struct HealArguments {
    /// The run directory, or the folder that `fault` named
    run_dir: PathBuf,
    /// The connection string with its user and password, if the deployment wants them
    #[arg(long, env = "MONGOSOAK_URI", hide_env_values = true)]
    uri: Option<String>,
}

/// Undoes it, and says what was done.
pub async fn run(arguments: &HealArguments) -> Outcome {
    let uri = arguments.uri.clone().map(Secret::new);
    match heal(&arguments.run_dir, uri.as_ref(), PATIENT).await {
        Ok(healed) if healed.is_empty() => {
            println!("nothing is left to be undone");
            Outcome::Pass
        }
        Ok(healed) => {
            lines(&healed).iter().for_each(|line| println!("{line}"));
            let all = healed.iter().all(|healed| healed.result.is_ok());
            if all {
                forget(&arguments.run_dir);
            }
            if all { Outcome::Pass } else { Outcome::Error }
        }
        Err(error @ (HealError::NoJournal { .. } | HealError::Credentials { .. })) => {
            complain(error, Outcome::Usage)
        }
        Err(error) => complain(error, Outcome::Error),
    }
}
