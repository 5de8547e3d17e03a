//! `find-max`: the search for the highest rate, on any scenario.

use clap::Args;

use super::run::{self, RunArguments};
use crate::exit::Outcome;

/// A search that the command line defines takes no longer, unless `--duration` says so. Forty probes of the default
/// length, each with the longest pause, take half of it.
const LONGEST: &str = "1h";

/// Arguments of `find-max`. What is left out stands in the scenario, or has its default.
#[derive(Debug, Args)]
pub struct FindMaxArguments {
    #[command(flatten)]
    run: RunArguments,
    /// The workload whose rate is searched
    #[arg(long)]
    workload: Option<String>,
    /// Limit on the p99 of the response time: `10ms`
    #[arg(long)]
    p99: Option<String>,
    /// Lowest rate: `100/s`
    #[arg(long)]
    from: Option<String>,
    /// Highest rate: `100k/s`
    #[arg(long)]
    to: Option<String>,
    /// Measured part of each probe: `10s`
    #[arg(long)]
    each: Option<String>,
    /// Start of each probe that is not measured: `3s`
    #[arg(long)]
    settle: Option<String>,
    /// How close the answer is: `5%`, or the share `0.05`
    #[arg(long)]
    precision: Option<String>,
}

/// `find-max`: the same as `run` with a table `[find_max]`.
pub async fn find_max(arguments: FindMaxArguments) -> Outcome {
    let overrides = overrides(&arguments);
    let mut run = arguments.run;
    run.search(overrides);
    run::run(&run).await
}

/// As `--set` would have them.
fn overrides(arguments: &FindMaxArguments) -> Vec<String> {
    let texts = [
        ("workload", &arguments.workload),
        ("p99", &arguments.p99),
        ("from", &arguments.from),
        ("to", &arguments.to),
        ("each", &arguments.each),
        ("settle", &arguments.settle),
    ];
    let text = |(key, value): (&str, &Option<String>)| {
        value.as_ref().map(|value| format!("find_max.{key}={}", run::toml_text(value)))
    };
    // The duration of a scenario is that of its ordinary run; `--duration` comes after this one.
    let duration = arguments.workload.is_some().then(|| format!("duration={LONGEST}"));
    let precision =
        arguments.precision.as_deref().map(|value| format!("find_max.precision={}", share(value)));
    duration.into_iter().chain(texts.into_iter().filter_map(text)).chain(precision).collect()
}

/// `5%` as `0.05`; anything else as it is, for the scenario to judge.
fn share(text: &str) -> String {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent.map_or_else(|| text.to_owned(), |percent| format!("{:?}", percent / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_becomes_a_share_and_nothing_else_changes() {
        assert_eq!(["5%", "2.5 %", "0.1", "x%"].map(share), ["0.05", "0.025", "0.1", "x%"]);
    }
}
