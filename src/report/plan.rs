//! A plan for people.

use super::{bytes, count, duration_s, mix_in_words};
use crate::plan::Plan;
use crate::scenario::{AfterOutage, Cluster, Scenario, Warmup, Workload};

/// What `run` would do, in the order in which it would.
#[must_use]
pub fn text(scenario: &Scenario, plan: &Plan) -> String {
    let mut text = format!("{}: seed {}\n", scenario.name, plan.seed);
    if !scenario.description.is_empty() {
        text.push_str(&format!("  {}\n", scenario.description.replace('\n', "\n  ")));
    }
    text.push('\n');
    line(&mut text, "cluster", &cluster(scenario));
    let d = &scenario.dataset;
    line(
        &mut text,
        "load",
        &format!("{} documents into {}.{}", count(d.documents), d.database, d.collection),
    );
    line(
        &mut text,
        "warm-up",
        &match scenario.warmup {
            Warmup::Auto => "until throughput is steady".into(),
            Warmup::Fixed(length) => duration_s(length.as_secs_f64()),
        },
    );
    line(&mut text, "measure", &duration_s(plan.duration_s));
    for w in &scenario.workloads {
        let rate = rate_in_words(w);
        let (name, workers, mix) = (&w.name, w.workers, mix_in_words(&w.mix));
        let writes = w.mix.iter().any(|(op, _)| op.kind().is_write());
        let s = if workers == 1 { "" } else { "s" };
        let concern = if writes { format!(", w: {}", w.write_concern) } else { String::new() };
        line(&mut text, "workload", &format!("{name}: {mix}, {workers} worker{s}, {rate}{concern}"));
    }
    for fault in &plan.faults {
        let parameters = parameters(fault);
        let what = format!("{:>9}  {}  {} {parameters}", duration_s(fault.at_s), fault.id, fault.r#do.kind());
        line(&mut text, "fault", &what);
    }
    if plan.faults.is_empty() {
        line(&mut text, "faults", "none");
    }
    text
}

/// `200 operations/s`, `as fast as answers come`.
fn rate_in_words(w: &Workload) -> String {
    let rate = match (&w.schedule, w.rate_ops_s) {
        (Some(schedule), _) => schedule.to_string(),
        (None, Some(rate)) => format!("{rate} operations/s"),
        (None, None) => "as fast as answers come".into(),
    };
    let missed = match w.after_outage {
        AfterOutage::Drop => "",
        AfterOutage::Paced => ", caught up after an outage at 1.1 x the rate",
        AfterOutage::Burst => ", caught up after an outage as fast as can be",
    };
    format!("{rate}{missed}")
}

fn cluster(scenario: &Scenario) -> String {
    match &scenario.cluster {
        Cluster::Attached(_) => "attached (the URI is not shown)".into(),
        Cluster::Managed(m) => {
            let what = match m.topology {
                crate::scenario::Topology::Standalone => "standalone".into(),
                crate::scenario::Topology::ReplicaSet => format!("replica set of {}", m.members),
            };
            let mongod = m.mongod.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
            format!("{what}, mongod{mongod}, cache {} each", bytes(m.cache_bytes))
        }
    }
}

fn parameters(fault: &crate::plan::PlannedFault) -> String {
    let value = serde_json::to_value(&fault.r#do).unwrap_or_default();
    let inner =
        value.as_object().and_then(|kinds| kinds.values().next()).and_then(|p| p.as_object().cloned());
    let show = |(name, value): (String, serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name} {text}"),
        serde_json::Value::Number(n) => format!("{name} {}", duration_s(n.as_f64().unwrap_or_default())),
        other => format!("{name} {other}"),
    };
    inner.into_iter().flatten().map(show).collect::<Vec<_>>().join(", ")
}

fn line(text: &mut String, label: &str, what: &str) {
    text.push_str(&format!("  {label:<9} {what}\n"));
}
