//! The command line: what the user typed, as types, and the commands behind it.

mod cluster;
mod ctl;
mod doctor;
mod fault;
mod faults;
mod find_max;
mod heal;
mod load;
mod router;
mod run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::Outcome;

/// Stability and failure-injection soak tester for MongoDB.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    pass
  1    fail: a limit was broken
  2    bad command line or scenario; nothing was touched
  3    violation: acknowledged data lost, corrupt or invented
  4    inconclusive: the evidence does not carry a verdict
  5    error: the tester or its infrastructure broke
  130  interrupted

Example: mongosoak run scenarios/quick.toml";

#[derive(Debug, Subcommand)]
enum Command {
    /// Start or attach the cluster, load, drive, inject, judge, report
    Run(run::RunArguments),
    /// Search the highest rate of a workload at which a latency limit holds; else as `run`
    FindMax(Box<find_max::FindMaxArguments>),
    /// Only bring up the cluster and fill its collection; goes on where an earlier load was cut off
    Load(load::LoadArguments),
    /// Print what `run` would do, every fault with its time; touches nothing
    Plan(run::PlanArguments),
    /// Parse and cross-check scenarios; all problems at once, with line and column
    Check(run::CheckArguments),
    /// Judge a run again from its recording, and print its summary
    Report(run::ReportArguments),
    /// Look at a running test, and change its rates
    Ctl(ctl::CtlArguments),
    /// One fault now, on a deployment that runs: waits for its effect, holds, lifts
    Fault(fault::FaultArguments),
    /// Undo what a killed tester left broken, and nothing else
    Heal(heal::HealArguments),
    /// Table of fault kinds: parameters, defaults, needs
    Faults(faults::FaultsArguments),
    /// What is here: mongod and its version, disk, limits; what would not work and why
    Doctor(doctor::DoctorArguments),
    /// A local cluster to play with
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// The stand-in for a mongos; started by managed sharded clusters
    #[command(hide = true)]
    Router(router::RouterArguments),
}

/// A scenario and what the command line changes about it.
#[derive(Clone, Debug, Args)]
struct ScenarioArguments {
    /// The scenario file
    #[arg(required_unless_present = "ycsb")]
    scenario: Option<PathBuf>,
    /// A YCSB property file (workloada ...) in the place of a scenario
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    ycsb: Option<PathBuf>,
    /// A YCSB property that goes before the file's: `recordcount=1000000`
    #[arg(short = 'p', value_name = "KEY=VALUE", requires = "ycsb")]
    properties: Vec<String>,
    /// Override a key: `duration=10m`, `cluster.members=1`, `workload.readers.rate=200/s`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of documents, key choice and faults; drawn and printed when left out everywhere
    #[arg(long)]
    seed: Option<u64>,
    /// Length of the measured phase: `90s`, `2h 30m`
    #[arg(long)]
    duration: Option<String>,
    /// Use this running deployment instead of the scenario's cluster
    #[arg(long, env = "MONGOSOAK_URI", hide_env_values = true)]
    uri: Option<String>,
    /// The same from a file, which keeps a password out of the process list
    #[arg(long)]
    uri_file: Option<PathBuf>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Does what was asked, and says how it went.
pub async fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments).await,
        Command::FindMax(arguments) => find_max::find_max(*arguments).await,
        Command::Load(arguments) => load::load(&arguments).await,
        Command::Plan(arguments) => run::plan(&arguments),
        Command::Check(arguments) => run::check(&arguments).await,
        Command::Report(arguments) => run::report(&arguments),
        Command::Ctl(arguments) => ctl::ctl(&arguments).await,
        Command::Fault(arguments) => fault::run(&arguments).await,
        Command::Heal(arguments) => heal::run(&arguments).await,
        Command::Faults(arguments) => faults::list(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments).await,
        Command::Cluster(command) => cluster::run(command).await,
        Command::Router(arguments) => router::run(arguments).await,
    }
}

/// Prints an error as all commands do, and passes the outcome on.
fn complain(error: impl std::fmt::Display, outcome: Outcome) -> Outcome {
    eprintln!("mongosoak: {error}");
    outcome
}
