//! `fault KIND`: one fault now, against a deployment that runs: the chaos step of a pipeline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use clap::Args;
use faults::life::{Ends, Failure, Life, Undo, Watch};
use faults::{Deployment, Evidence, NodeTarget, View};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::complain;
use crate::clock::Clock;
use crate::cluster::{Attach, AttachedCluster, playground};
use crate::exit::Outcome;
use crate::scenario::{FaultSpec, Hooks, Secret, fault_spec};
use crate::signals::{Listener, Stop};
use crate::{entropy, heal, state};

/// Arguments of `fault`.
#[derive(Debug, Args)]
#[command(
    after_help = "`mongosoak faults` lists the kinds with their parameters. Ctrl-C lifts the fault.\n\n\
    Example: mongosoak fault pause --target primary --for 30s --uri mongodb://127.0.0.1:27017"
)]
pub struct FaultArguments {
    /// What to do: `kill`, `pause`, `stepdown` ...
    kind: String,
    /// Whom to hit: primary, secondary, any, all, majority, minority, or names of members
    #[arg(long)]
    target: Option<String>,
    /// How long it holds, or how long a killed server stays down
    #[arg(long = "for", value_name = "DURATION")]
    hold: Option<String>,
    /// A parameter of the kind: `restart_after=30s`
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// The deployment
    #[arg(long, env = "MONGOSOAK_URI", hide_env_values = true)]
    uri: Option<String>,
    /// The same from a file, which keeps a password out of the process list
    #[arg(long, conflicts_with = "uri")]
    uri_file: Option<PathBuf>,
    /// A cluster of `cluster start`, by its name or its folder
    #[arg(long, conflicts_with_all = ["uri", "uri_file"])]
    cluster: Option<String>,
    /// Decides whom it hits when several fit; drawn when left out
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object at the end, and nothing else on standard output
    #[arg(long)]
    json: bool,
}

/// Which deployment, and how its members are called.
struct Whom {
    uri: Secret,
    names: BTreeMap<String, String>,
}

/// Injects it, waits for its effect, holds, lifts; the outcome says whether it took effect.
pub async fn run(arguments: &FaultArguments) -> Outcome {
    let (spec, whom) = match (spec(arguments), whom(arguments)) {
        (Ok(spec), Ok(whom)) => (spec, whom),
        (spec, whom) => {
            let problems: Vec<_> = [spec.err(), whom.err()].into_iter().flatten().collect();
            return complain(problems.join("\nmongosoak: "), Outcome::Usage);
        }
    };
    heal::leftovers_undone().await.iter().for_each(|line| eprintln!("{line}"));
    let listener = match Listener::install() {
        Ok(listener) => listener,
        Err(error) => return complain(format!("listen to signals: {error}"), Outcome::Error),
    };
    let (stop, mut signals) = (Stop::default(), JoinSet::new());
    signals.spawn(listener.run(stop.clone()));
    let attached = tokio::select! {
        biased;
        () = stop.orderly.cancelled() => return Outcome::Interrupted,
        attached = attach(&whom) => attached,
    };
    let result = match attached {
        Ok((cluster, dir)) => {
            let result = inject(arguments, &spec, &cluster, &dir, &stop).await;
            cluster.leave().await;
            result
        }
        Err(why) => Err(why),
    };
    result.unwrap_or_else(|why| complain(why, Outcome::Error))
}

fn spec(arguments: &FaultArguments) -> Result<FaultSpec, String> {
    let mut values = Vec::new();
    for pair in &arguments.parameters {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("-p {pair}: write NAME=VALUE"))?;
        values.push((name.to_owned(), value.to_owned()));
    }
    let Some(kind) = faults::catalog::kind(&arguments.kind) else {
        let known: Vec<_> = faults::catalog::KINDS.iter().map(|kind| kind.name).collect();
        return Err(format!("no fault is called \"{}\"; there are: {}", arguments.kind, known.join(", ")));
    };
    let has = |name: &str| kind.parameters.iter().any(|parameter| parameter.name == name);
    values.extend(arguments.target.clone().map(|target| {
        // A partition names its two sides.
        (if has("from") && !has("target") { "from" } else { "target" }.to_owned(), target)
    }));
    values.extend(
        arguments
            .hold
            .clone()
            .map(|hold| (if has("restart_after") { "restart_after" } else { "for" }.to_owned(), hold)),
    );
    fault_spec(kind.name, &values)
}

fn whom(arguments: &FaultArguments) -> Result<Whom, String> {
    if let Some(name) = &arguments.cluster {
        let given = Path::new(name);
        let dir = if given.is_dir() {
            given.to_path_buf()
        } else {
            playground::base_dir().map_err(|error| error.to_string())?.join(name)
        };
        let there = playground::read(&dir).map_err(|error| error.to_string())?;
        let names = there.nodes.iter().map(|node| (format!("127.0.0.1:{}", node.port), node.name.clone()));
        return Ok(Whom { uri: Secret::new(there.uri), names: names.collect() });
    }
    let uri = match (&arguments.uri, &arguments.uri_file) {
        (Some(uri), _) => uri.clone(),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file);
            text.map_err(|error| format!("--uri-file {}: {error}", file.display()))?.trim().to_owned()
        }
        (None, None) => return Err("which deployment? name it with --uri, --uri-file or --cluster".into()),
    };
    Ok(Whom { uri: Secret::new(uri), names: BTreeMap::new() })
}

/// The deployment, and the folder from which the fault can be healed.
async fn attach(whom: &Whom) -> Result<(AttachedCluster, PathBuf), String> {
    let how = Attach { uri: &whom.uri, hooks: &Hooks::default(), names: &whom.names, own_output: None };
    let cluster = AttachedCluster::attach(&how).await.map_err(|error| error.to_string())?;
    let dir = own_folder()?;
    cluster.describe(&whom.uri).write(&dir).map_err(|error| error.to_string())?;
    if let Err(error) = heal::register(&dir) {
        eprintln!(
            "mongosoak: if this is killed, only `mongosoak heal {}` will undo it: {error}",
            dir.display()
        );
    }
    Ok((cluster, dir))
}

/// A folder for the journal: in the user's state folder, or where that cannot be written among temporary files.
fn own_folder() -> Result<PathBuf, String> {
    let name = format!("{}-{:08x}", std::process::id(), entropy::draw() >> 32);
    let places = state::dir().into_iter().chain([std::env::temp_dir().join("mongosoak")]);
    let mut why = String::new();
    for dir in places.map(|place| place.join("faults").join(&name)) {
        match std::fs::create_dir_all(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => why = format!("{}: {error}", dir.display()),
        }
    }
    Err(why)
}

async fn inject(
    arguments: &FaultArguments,
    spec: &FaultSpec,
    cluster: &AttachedCluster,
    dir: &Path,
    stop: &Stop,
) -> Result<Outcome, String> {
    let teller = Teller { clock: Clock::start(), quiet: arguments.json, book: Mutex::default() };
    let before = cluster.view().await;
    if let Some(unknown) = unknown_name(&spec.target(), &before) {
        let known: Vec<_> = before.members.iter().map(|member| member.name.as_str()).collect();
        heal::forget(dir);
        let text = format!("no member is called {unknown:?}; there are: {}", known.join(", "));
        return Ok(complain(text, Outcome::Usage));
    }
    let tie = arguments.seed.unwrap_or_else(entropy::draw);
    let nodes = spec.target().resolve(&before, tie);
    let before = before.around(&nodes);
    let undo =
        Undo::open(&dir.join(heal::JOURNAL)).map_err(|error| format!("make the undo journal: {error}"))?;
    // The first signal lifts it in order, the second one in haste.
    let ends = Ends { measured: stop.orderly.clone(), run: stop.now.clone() };
    let result = if nodes.is_empty() {
        Err(Failure::NotEffective(format!("no node is {} right now", spec.target())))
    } else {
        let (on, watch): (&dyn Deployment, &dyn Watch) = (cluster, &teller);
        let (undo, ends, nodes, before) = (&undo, &ends, &nodes, &before);
        Life { on, undo, watch, ends, id: "f1", spec, tie, nodes, before }.run().await
    };
    drop(undo);
    let whole = heal::settle(dir, heal::Servers::GoOn).await;
    if whole {
        // Nothing in it that anybody will need.
        let _stays = std::fs::remove_dir_all(dir);
    }
    let interrupted = stop.orderly.is_cancelled();
    let (word, outcome, reason) = verdict(result, interrupted);
    let left = (!whole).then(|| dir.display().to_string());
    if arguments.json {
        println!("{:#}", teller.json(spec, &nodes, word, outcome, reason.as_deref(), left.as_deref()));
    } else {
        teller.say(&format!("{word}{}", reason.map(|why| format!(": {why}")).unwrap_or_default()));
        if let Some(left) = &left {
            eprintln!("mongosoak: something is left behind; to undo it: mongosoak heal {left}");
        }
    }
    Ok(outcome)
}

/// A name that no member has.
fn unknown_name(target: &NodeTarget, view: &View) -> Option<String> {
    let NodeTarget::Nodes(names) = target else { return None };
    names.iter().find(|name| view.member(name).is_none()).cloned()
}

fn verdict(result: Result<(), Failure>, interrupted: bool) -> (&'static str, Outcome, Option<String>) {
    match result {
        Ok(()) if interrupted => ("interrupted, lifted", Outcome::Interrupted, None),
        Ok(()) => ("effective", Outcome::Pass, None),
        Err(Failure::NotEffective(why)) if interrupted => ("interrupted", Outcome::Interrupted, Some(why)),
        Err(Failure::NotEffective(why)) => ("not effective", Outcome::Inconclusive, Some(why)),
        Err(Failure::Skipped(why)) => ("skipped", Outcome::Inconclusive, Some(why)),
        Err(Failure::Failed(why)) => ("failed", Outcome::Error, Some(why)),
    }
}

/// Tells how it goes, and keeps it.
struct Teller {
    clock: Clock,
    quiet: bool,
    book: Mutex<Vec<(f64, String, &'static str, Evidence)>>,
}

impl Teller {
    fn now_s(&self) -> f64 {
        (self.clock.now().as_secs_f64() * 1e3).round() / 1e3
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            println!("{:>7.1} s  {text}", self.now_s());
        }
    }

    fn json(
        &self,
        spec: &FaultSpec,
        nodes: &[String],
        word: &str,
        outcome: Outcome,
        reason: Option<&str>,
        left: Option<&str>,
    ) -> Value {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let steps: Vec<_> = book
            .iter()
            .map(|(at_s, node, step, evidence)| json!({ "at_s": at_s, "node": node, "step": step, "evidence": evidence }))
            .collect();
        json!({
            "schema": "mongosoak-fault/1",
            "kind": spec.kind(),
            "parameters": spec.parameters().values(),
            "nodes": nodes,
            "outcome": word.replace(' ', "_").replace(',', ""),
            "exit_code": outcome.code(),
            "reason": reason,
            "steps": steps,
            "to_heal": left,
        })
    }
}

#[async_trait]
impl Watch for Teller {
    async fn injected(&self, nodes: &[String]) {
        self.say(&format!("injecting on {}", nodes.join(", ")));
    }

    async fn effective(&self) {
        self.say("took effect");
    }

    async fn lifted(&self) {
        self.say("lifted");
    }

    async fn step(&self, node: &str, step: &'static str, evidence: Evidence) {
        let facts: Vec<_> = evidence.iter().map(|(name, value)| format!("{name} {value}")).collect();
        self.say(&format!("  {step} {node}: {}", facts.join(", ")));
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.push((self.now_s(), node.into(), step, evidence));
    }
}
