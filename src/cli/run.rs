//! `run`, `plan`, `check`, `report`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tokio::task::JoinSet;

use super::{Colour, ScenarioArguments, complain};
use crate::cluster::binary;
use crate::exit::Outcome;
use crate::heal;
use crate::plan::Plan;
use crate::report::text::Style;
use crate::report::{self, json, scaling, text, ycsb};
use crate::run::Goal;
use crate::scenario::{self, Cluster, Problems, Scenario, Source};
use crate::signals::{Listener, Stop};
use crate::{entropy, judge, run as conductor};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    conduct: ConductArguments,
    /// Keep the nodes' data also after a pass
    #[arg(long)]
    keep_data: bool,
}

/// Arguments of everything that works on a cluster.
#[derive(Debug, Args)]
pub struct ConductArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Run directory; else `runs/<scenario>/<UTC time>-<seed>`, with a link `latest`
    #[arg(long)]
    out: Option<PathBuf>,
    /// Path or version prefix of the mongod to start
    #[arg(long, value_name = "PATH|VERSION")]
    mongod: Option<String>,
    /// No progress lines, only the summary
    #[arg(long, short)]
    quiet: bool,
    /// Folder of the nodes' data: of an earlier `load` or run, which is used and kept, or a new one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Drop the collection of an earlier load first, and load anew
    #[arg(long)]
    drop: bool,
    /// When to colour
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
    /// Whether the scenario must have a search.
    #[arg(skip)]
    search: bool,
}

impl RunArguments {
    /// Asks for a search, with more of `--set` after those that the user gave.
    pub(super) fn search(&mut self, overrides: Vec<String>) {
        self.conduct.scenario.set.extend(overrides);
        self.conduct.search = true;
    }
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A run directory
    run_dir: PathBuf,
    /// What to write: the summary to the terminal, or `report.json` into the directory
    #[arg(long, value_enum, value_delimiter = ',', default_value = "text,json")]
    format: Vec<Format>,
    /// When to colour
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
}

/// A format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The summary, on standard output.
    Text,
    /// `report.json`, in the run directory.
    Json,
    /// The lines that YCSB prints, on standard output.
    Ycsb,
}

/// `run`.
pub async fn run(arguments: &RunArguments) -> Outcome {
    conduct(&arguments.conduct, Goal::Run, arguments.keep_data).await
}

/// What `run` and `load` have in common: all of it but the goal.
pub(super) async fn conduct(arguments: &ConductArguments, goal: Goal, keep_data: bool) -> Outcome {
    let (scenario, source) = match read(&arguments.scenario) {
        Ok(read) => read,
        Err(problems) => return complain(problems, Outcome::Usage),
    };
    if arguments.search && scenario.find_max.is_none() {
        const HOW: &str =
            "nothing to search: name --workload and --p99, or give the scenario a table [find_max]";
        return complain(HOW, Outcome::Usage);
    }
    if let (Some(_), Cluster::Attached(_)) = (&arguments.data, &scenario.cluster) {
        let text =
            "--data is for servers that we start; a deployment that runs already keeps its data itself";
        return complain(text, Outcome::Usage);
    }
    let listener = match Listener::install() {
        Ok(listener) => listener,
        Err(error) => return complain(format!("listen to signals: {error}"), Outcome::Error),
    };
    heal::leftovers_undone().await.iter().for_each(|line| eprintln!("{line}"));
    let stop = Stop::default();
    let mut signals = JoinSet::new();
    signals.spawn(listener.run(stop.clone()));
    let request = conductor::Request {
        plan: Plan::new(&scenario, seed(&arguments.scenario, &scenario)),
        scenario,
        source,
        out: arguments.out.clone(),
        mongod: arguments.mongod.clone(),
        quiet: arguments.quiet,
        keep_data,
        goal,
        data: arguments.data.clone(),
        drop: arguments.drop,
    };
    match conductor::run(request, stop).await {
        Ok(finished) => {
            let place = conductor::shown(&finished.dir);
            print!("{}", text::summary(&finished.report, &place, style(arguments.color)));
            if arguments.scenario.ycsb.is_some() {
                print!("\n{}", ycsb::summary(&finished.report));
            }
            finished.report.verdict.outcome
        }
        Err(error) => complain(error, Outcome::Error),
    }
}

/// `plan`.
pub fn plan(arguments: &PlanArguments) -> Outcome {
    let (scenario, _) = match read(&arguments.scenario) {
        Ok(read) => read,
        Err(problems) => return complain(problems, Outcome::Usage),
    };
    let plan = Plan::new(&scenario, seed(&arguments.scenario, &scenario));
    if !arguments.json {
        print!("{}", report::plan::text(&scenario, &plan));
        return Outcome::Pass;
    }
    match serde_json::to_string_pretty(&plan) {
        Ok(json) => println!("{json}"),
        Err(error) => return complain(error, Outcome::Error),
    }
    Outcome::Pass
}

/// `check`: also whether the mongod that a managed scenario asks for is here, which is a warning only.
pub async fn check(arguments: &CheckArguments) -> Outcome {
    let mut outcome = Outcome::Pass;
    for path in &arguments.scenarios {
        match scenario::read(path, &[]) {
            Ok((scenario, _)) => {
                println!("{}: ok", path.display());
                warn_of_missing_binary(path, &scenario).await;
            }
            Err(problems) => outcome = complain(problems, Outcome::Usage),
        }
    }
    outcome
}

async fn warn_of_missing_binary(path: &Path, scenario: &Scenario) {
    if let Cluster::Managed(managed) = &scenario.cluster
        && let Err(error) = binary::find(managed.mongod.as_deref()).await
    {
        eprintln!("{}: warning: {error}", path.display());
    }
}

/// `report`.
pub fn report(arguments: &ReportArguments) -> Outcome {
    let report = match judge::directory(&arguments.run_dir, &[]) {
        Ok(report) => report,
        Err(error) => return complain(error, Outcome::Usage),
    };
    for format in &arguments.format {
        match format {
            Format::Text => {
                let place = arguments.run_dir.display().to_string();
                print!("{}", text::summary(&report, &place, style(arguments.color)));
            }
            Format::Ycsb => print!("{}", ycsb::summary(&report)),
            Format::Json => {
                let dir = &arguments.run_dir;
                if let Err(error) = json::write(dir, &report).and_then(|()| scaling::csv::write(dir, &report))
                {
                    return complain(format!("write report.json: {error}"), Outcome::Error);
                }
            }
        }
    }
    report.verdict.outcome
}

/// The scenario with everything that the command line changes.
fn read(arguments: &ScenarioArguments) -> Result<(Scenario, Source), Box<dyn std::error::Error>> {
    let mut overrides = arguments.set.clone();
    if let Some(duration) = &arguments.duration {
        overrides.push(format!("duration={}", toml_text(duration)));
    }
    let uri = match &arguments.uri_file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| format!("read {}: {e}", path.display()))?;
            Some(text.trim().to_owned())
        }
        None => arguments.uri.clone(),
    };
    if let Some(uri) = uri.filter(|uri| !uri.is_empty()) {
        overrides.push(format!("cluster={{ uri = {} }}", toml_text(&uri)));
    }
    let read = match (&arguments.scenario, &arguments.ycsb) {
        (_, Some(properties)) => read_ycsb(properties, &arguments.properties, &overrides),
        (Some(path), None) => scenario::read(path, &overrides),
        // The parser of the command line has asked for one of them.
        (None, None) => return Err("name a scenario file".into()),
    };
    read.map_err(|problems: Problems| problems.into())
}

/// YCSB's properties as a scenario; what will be different is said.
fn read_ycsb(
    path: &Path,
    properties: &[String],
    overrides: &[String],
) -> Result<(Scenario, Source), Problems> {
    let scenario::ycsb::Translated { source, notes } = scenario::ycsb::translate(path, properties)?;
    let read = scenario::read_text(source, overrides)?;
    for note in notes {
        eprintln!("mongosoak: ycsb: {note}");
    }
    Ok(read)
}

pub(super) fn toml_text(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn seed(arguments: &ScenarioArguments, scenario: &Scenario) -> u64 {
    arguments.seed.or(scenario.seed).unwrap_or_else(entropy::draw)
}

fn style(colour: Colour) -> Style {
    let wanted = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    if wanted { Style::Colour } else { Style::Plain }
}
