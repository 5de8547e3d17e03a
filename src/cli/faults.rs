//! `faults`: the catalogue.

use clap::Args;

use crate::exit::Outcome;
use ::faults::NodeTarget;
use ::faults::catalog::{KINDS, Kind};

/// Arguments of `faults`.
#[derive(Debug, Args)]
pub struct FaultsArguments {
    /// Only this kind
    kind: Option<String>,
}

/// Prints the table.
pub fn list(arguments: &FaultsArguments) -> Outcome {
    let chosen: Vec<&Kind> =
        KINDS.iter().filter(|k| arguments.kind.as_ref().is_none_or(|name| k.name == *name)).collect();
    if let (true, Some(name)) = (chosen.is_empty(), &arguments.kind) {
        let known: Vec<_> = KINDS.iter().map(|k| k.name).collect();
        return super::complain(
            format!("no fault is called \"{name}\"; there are: {}", known.join(", ")),
            Outcome::Usage,
        );
    }
    for kind in chosen {
        print(kind);
    }
    println!(
        "A target is {}, or names of members (\"node1,node2\"). More: docs/faults.md",
        NodeTarget::WORDS[..6].join(", ")
    );
    Outcome::Pass
}

fn print(kind: &Kind) {
    let needs: Vec<_> = kind.needs.iter().map(|need| need.words()).collect();
    let needs = if needs.is_empty() { "nothing".into() } else { needs.join(", ") };
    println!("{} ({}): {}\n  needs {needs}", kind.name, kind.group, kind.does);
    for missing in kind.needs.iter().filter_map(|need| need.missing()) {
        println!("  NOT HERE: {missing}");
    }
    let width = kind.parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or_default();
    for parameter in kind.parameters {
        let (takes, about) = (parameter.takes.words(), parameter.about);
        println!("  {:<width$}  {about}: {takes} ({})", parameter.name, parameter.default);
    }
    println!();
}
