//! Whole scenarios in, checked scenarios or problems with their places out.

mod counted;
mod distributions;
mod faults;
mod operations;
mod overrides;
mod rates;
mod reads;
mod refusals;
mod secrets;
mod steps;
mod tables;
mod templates;

use std::path::PathBuf;

use super::*;

/// A minimal scenario: `root` stands at the top level, `rest` begins inside of its one workload.
fn text(root: &str, rest: &str) -> String {
    format!("duration = \"10m\"\n{root}\n[[workload]]\nname = \"w\"\nop = \"read\"\n{rest}\n")
}

fn source(text: &str) -> Source {
    Source { path: PathBuf::from("scenarios/x.toml"), text: text.into() }
}

fn good(text: &str) -> Scenario {
    parse(&source(text)).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn bad(text: &str) -> Vec<Problem> {
    parse(&source(text)).expect_err(text).list().to_vec()
}

/// Asserts that there is exactly one problem, that it is where the text is marked with `«`, and that
/// it reads like this.
#[track_caller]
fn refused(marked: &str, message: &str, hint: &str) {
    let (before, after) = marked.split_once('«').expect("the place is marked");
    let line = before.matches('\n').count() + 1;
    let column = before.lines().last().map_or(0, |line| line.chars().count()) + 1;
    let column = if before.ends_with('\n') { 1 } else { column };
    let problems = bad(&format!("{before}{after}"));
    let [problem] = problems.as_slice() else { panic!("not one problem: {problems:#?}") };
    assert_eq!((problem.line(), problem.column()), (Some(line), Some(column)), "{problem}");
    assert_eq!(problem.message, message);
    let said = problem.hint.clone().unwrap_or_default();
    assert!(said.contains(hint), "{said:?} does not contain {hint:?}");
}
