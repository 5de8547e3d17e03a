//! The faults of a plan: what the rules say, then each fault with its time or its moment.

use std::time::Duration;

use faults::{Parameter, Takes};
use serde_json::Value;

use super::line;
use crate::plan::{Majority, Plan, PlannedFault};
use crate::report::{bytes, count, duration_s};
use crate::scenario::{FaultRule, FaultSpec, Scenario, When};

/// A line for each rule that the faults alone do not show, and one for each fault.
pub(super) fn lines(text: &mut String, scenario: &Scenario, plan: &Plan) {
    for (number, rule) in scenario.faults.iter().enumerate() {
        let planned = plan.faults.iter().filter(|fault| fault.rule == number).count();
        if let Some(what) = of_rule(rule, planned) {
            line(text, &format!("rule {}", number + 1), &what);
            mix(text, rule);
        }
    }
    for fault in &plan.faults {
        let (when, what) = (moment(fault), action(&fault.r#do));
        line(text, "fault", &format!("{when:>9}  {:<4} {what}", fault.id));
    }
    if plan.faults.is_empty() {
        line(text, "faults", "none");
    }
}

/// `31.2 s`, or what triggers it.
fn moment(fault: &PlannedFault) -> String {
    match (fault.at_s, fault.when) {
        (Some(at_s), _) => duration_s(at_s),
        (None, Some(trigger)) => format!("at {}", trigger.cue),
        (None, None) => "-".into(),
    }
}

/// `None`: nothing is drawn or waited for.
fn of_rule(rule: &FaultRule, planned: usize) -> Option<String> {
    let length = |of: Duration| duration_s(of.as_secs_f64());
    let mut parts = Vec::new();
    if let choices @ [_, _, ..] = rule.choices.as_slice() {
        parts.push(format!("one of these {} each time, by their shares", choices.len()));
    }
    match &rule.when {
        When::At(_) | When::Every { .. } => {}
        When::Random { mean, from, until, .. } => {
            let from = if from.is_zero() { String::new() } else { format!(", from {}", length(*from)) };
            let until = until.map(|at| format!(", until {}", length(at))).unwrap_or_default();
            let s = if planned == 1 { "" } else { "s" };
            parts.push(format!(
                "at random, {} apart on average{from}{until}: {} time{s} by this seed",
                length(*mean),
                count(planned as u64)
            ));
        }
        When::Cued { cue, after, every, times } => {
            let after = if after.is_zero() { String::new() } else { format!(", after {}", length(*after)) };
            let every =
                if every.is_zero() { String::new() } else { format!(", at least {} apart", length(*every)) };
            let s = if *times == 1 { "" } else { "s" };
            parts.push(format!("triggered by {cue}{after}{every}, {times} time{s} at most"));
        }
    }
    if rule.majority == Majority::MayBeLost {
        parts.push("may take the majority away".into());
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(match rule.wait {
        Duration::ZERO => "skipped when something is in the way".into(),
        wait => format!("waits up to {} for what is in the way", length(wait)),
    });
    Some(parts.join("; "))
}

/// The faults of a mix, each with how likely it is.
fn mix(text: &mut String, rule: &FaultRule) {
    let [_, _, ..] = rule.choices.as_slice() else { return };
    let all: f64 = rule.choices.iter().map(|choice| f64::from(choice.weight)).sum();
    for choice in &rule.choices {
        let percent = 100.0 * f64::from(choice.weight) / all;
        line(text, "", &format!("{percent:>7.1} %  {}", action(&choice.spec)));
    }
}

/// `kill target primary, restart_after 10.0 s`.
fn action(spec: &FaultSpec) -> String {
    let show = |parameter: &Parameter| {
        let value = spec.parameters().any(parameter.name)?;
        Some(format!("{} {}", parameter.name, in_words(parameter.takes, value)))
    };
    let parameters: Vec<_> = spec.entry().parameters.iter().filter_map(show).collect();
    format!("{} {}", spec.kind(), parameters.join(", ")).trim_end().to_owned()
}

fn in_words(takes: Takes, value: &Value) -> String {
    match (takes, value) {
        (Takes::Duration | Takes::Shift, Value::Number(n)) => duration_s(n.as_f64().unwrap_or_default()),
        (Takes::Size, Value::Number(n)) => bytes(n.as_u64().unwrap_or_default()),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::scenario::{Source, parse};

    const TEXT: &str = r#"
duration = "10m"
[[workload]]
name = "w"
op = "read"
[[fault]]
mix = [{ do = { crash_loop = { times = 3, every = "2s" } }, weight = 3 }, { do = "pause" }]
random = { mean = "3m", from = "1m" }
[[fault]]
do = { kill = { target = "node1,node2" } }
when = "election"
every = "2m"
majority = "may_be_lost"
[[fault]]
do = { stop = { restart_after = "5s" } }
at = ["9m"]
"#;

    #[test]
    fn rules_and_faults_are_readable() {
        let scenario = parse(&Source { path: PathBuf::from("x.toml"), text: TEXT.into() })
            .unwrap_or_else(|p| panic!("{p}"));
        let plan = Plan::new(&scenario, 42);
        let mut text = String::new();
        lines(&mut text, &scenario, &plan);
        let drawn = plan.faults.iter().filter(|fault| fault.rule == 0).count();
        for wanted in [
            "rule 1    one of these 2 each time, by their shares; at random, 3 m 00 s apart on average, from 60.0 s: ",
            " by this seed; ",
            "               75.0 %  crash_loop target secondary, times 3, every 2.00 s\n",
            "               25.0 %  pause target primary, for 30.0 s\n",
            "waits up to 2 m 00 s for what is in the way",
            "rule 2    triggered by election, at least 2 m 00 s apart, 1 time at most; may take the majority away; \
             skipped when something is in the way",
            "  fault      9 m 00 s  f",
            "stop target primary, restart_after 5.00 s",
            "  fault     at election  f",
            "kill target node1,node2, restart_after 10.0 s",
        ] {
            assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
        }
        assert!(!text.contains("rule 3"), "{text}");
        assert_eq!(text.lines().count(), 2 + 2 + drawn + 2, "{text}");
        // Counts are no durations.
        assert!(!text.contains("times 3.00 s"), "{text}");
    }
}
