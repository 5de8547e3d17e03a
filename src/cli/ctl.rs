//! `ctl`: look at a running test, and change its rates.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::control::{self, CannotAsk, NewRate, Reply, Request, Status};
use crate::exit::Outcome;
use crate::report::{count, duration_s};
use crate::scenario::quantity;

/// Arguments of `ctl`.
#[derive(Debug, Args)]
pub struct CtlArguments {
    /// Run directory of a test that is going on
    run_dir: PathBuf,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Phase, second, and the last second of each workload
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change rates from now on: `readers=2000/s`; `0/s` pauses
    Rate {
        /// Workload and rate
        #[arg(required = true, value_name = "NAME=RATE", value_parser = new_rate)]
        rates: Vec<NewRate>,
    },
}

fn new_rate(text: &str) -> Result<NewRate, String> {
    let (workload, rate) = text.split_once('=').ok_or("write NAME=RATE, for example readers=2000/s")?;
    let rate_ops_s = match rate.trim() {
        "0" | "0/s" => 0.0,
        rate => quantity::rate(rate).map_err(|error| format!("{}; {}", error.message, error.accepted))?,
    };
    Ok(NewRate { workload: workload.trim().into(), rate_ops_s })
}

/// Asks the test, and prints what it says.
pub async fn ctl(arguments: &CtlArguments) -> Outcome {
    let request = match &arguments.what {
        What::Status { .. } => Request::Status,
        What::Rate { rates } => Request::Rate { rates: rates.clone() },
    };
    match control::ask(&arguments.run_dir, &request).await {
        Ok(Reply::Status(status)) => {
            let json = matches!(arguments.what, What::Status { json: true });
            print!("{}", if json { as_json(&status) } else { text(&status) });
            Outcome::Pass
        }
        Ok(Reply::Changed) => Outcome::Pass,
        Ok(Reply::Refused { why }) => super::complain(why, Outcome::Usage),
        Err(error @ (CannotAsk::NotThere(_) | CannotAsk::NotYours(_))) => {
            super::complain(error, Outcome::Usage)
        }
        Err(error) => super::complain(error, Outcome::Error),
    }
}

fn as_json(status: &Status) -> String {
    serde_json::to_string_pretty(status).unwrap_or_default() + "\n"
}

/// For people: one line for the test, one for each workload.
fn text(status: &Status) -> String {
    let when = match status.t_s {
        Some(t_s) => format!(", {} of {}", duration_s(t_s.floor()), duration_s(status.duration_s)),
        None => String::new(),
    };
    let mut text = format!("{}{when}\n", status.phase);
    let longest = status.workloads.iter().map(|w| w.name.len()).max().unwrap_or(0);
    for w in &status.workloads {
        let rate = w.rate_ops_s.map_or("closed loop".into(), |rate| format!("rate {rate:.1}/s"));
        let p99 = w.p99_us.map_or("-".into(), |us| format!("{:.1} ms", us as f64 / 1e3));
        let (ok, not_ok) = (count(w.ok), count(w.not_ok));
        text.push_str(&format!("  {:<longest$}  {rate}, {ok} ok/s, {not_ok} not ok/s, p99 {p99}\n", w.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::WorkloadStatus;

    #[test]
    fn a_rate_needs_a_name_and_a_unit() {
        let rate = |text| new_rate(text).map(|new| (new.workload, new.rate_ops_s));
        assert_eq!(rate("readers=2k/s"), Ok(("readers".into(), 2_000.0)));
        assert_eq!(rate("readers=0/s"), Ok(("readers".into(), 0.0)));
        assert!(rate("readers").unwrap_err().contains("NAME=RATE"));
        assert!(rate("readers=2000").unwrap_err().contains("/s"));
        assert!(rate("readers=-1/s").is_err());
    }

    #[test]
    fn a_status_is_shown_in_lines() {
        let workload = |name: &str, rate_ops_s, p99_us| WorkloadStatus {
            name: name.into(),
            rate_ops_s,
            ok: 1_498,
            not_ok: 2,
            p99_us,
        };
        let status = Status {
            phase: "measure".into(),
            t_s: Some(61.7),
            duration_s: 600.0,
            workloads: vec![workload("readers", Some(1500.0), Some(3_210)), workload("w", None, None)],
        };
        let text = text(&status);
        assert!(text.contains("readers  rate 1500.0/s, 1,498 ok/s, 2 not ok/s, p99 3.2 ms"), "{text}");
        assert!(text.contains("w        closed loop, 1,498 ok/s, 2 not ok/s, p99 -"), "{text}");
    }
}
