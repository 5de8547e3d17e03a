//! `doctor`: what is here, and what would not work.

use std::collections::BTreeMap;

use clap::Args;
use faults::catalog::{KINDS, Kind};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use crate::cluster::binary;
use crate::exit::Outcome;
use crate::report::bytes;

/// A replica set of seven and a thousand workers need fewer.
const ENOUGH_DESCRIPTORS: u64 = 4_096;
/// Less than this does not hold an empty three-member set.
const ENOUGH_DISK: u64 = 2 << 30;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Path or version prefix of the mongod to look for
    #[arg(long, value_name = "PATH|VERSION")]
    mongod: Option<String>,
}

/// Prints what was found; the outcome is an error when a managed run cannot work here.
pub async fn doctor(arguments: &DoctorArguments) -> Outcome {
    let mut outcome = Outcome::Pass;
    match binary::find(arguments.mongod.as_deref()).await {
        Ok(found) => {
            let (path, by) = (found.path.display(), found.found_by);
            line("ok", "mongod", &format!("{} ({path}, found by {by})", found.version));
        }
        Err(error) => {
            line("MISSING", "mongod", &error.to_string());
            outcome = Outcome::Error;
        }
    }
    if let Err(why) = disk() {
        line("SHORT", "disk", &why);
        outcome = Outcome::Error;
    }
    limits();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    line("ok", "processors", &format!("{cores}; the load, the servers and the check share them"));
    let root = nix::unistd::geteuid().is_root();
    line("ok", "privileges", if root { "root" } else { "not root" });
    skipped_faults();
    outcome
}

/// Which faults a scenario could name in vain, and why.
fn skipped_faults() {
    let missing = |kind: &Kind| kind.needs.iter().find_map(|need| need.missing());
    let usable = KINDS.iter().filter(|kind| missing(kind).is_none()).count();
    line("ok", "faults", &format!("{usable} of {} kinds can be injected here", KINDS.len()));
    let mut why = BTreeMap::<String, Vec<&str>>::new();
    for kind in KINDS {
        if let Some(missing) = missing(kind) {
            why.entry(missing).or_default().push(kind.name);
        }
    }
    for (missing, kinds) in why {
        line("SKIPPED", "faults", &format!("{}: {missing}", kinds.join(", ")));
    }
}

fn disk() -> Result<(), String> {
    let disk = statvfs(".").map_err(|e| e.to_string())?;
    let free = disk.blocks_available() * disk.fragment_size();
    if free < ENOUGH_DISK {
        return Err(format!(
            "{} free here; a replica set of three needs {}",
            bytes(free),
            bytes(ENOUGH_DISK)
        ));
    }
    line("ok", "disk", &format!("{} free in this folder", bytes(free)));
    Ok(())
}

fn limits() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    if soft < ENOUGH_DESCRIPTORS {
        line(
            "SHORT",
            "descriptors",
            &format!("{soft} (up to {hard} possible); raise it with `ulimit -n {hard}`"),
        );
    } else {
        line("ok", "descriptors", &soft.to_string());
    }
}

fn line(state: &str, what: &str, text: &str) {
    println!("{state:<8} {what:<12} {text}");
}
