//! A plan for people.

mod faults;

use super::{bytes, count, duration_s, mix_in_words, per_second};
use crate::plan::Plan;
use crate::scenario::{AfterOutage, Cluster, Loads, Scenario, Warmup, Workload};

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
    let at_most = if scenario.find_max.is_some() { "at most " } else { "" };
    let budget = scenario.workloads.iter().any(|w| w.operations.is_some());
    let until = if budget { ", or until the operations of the workloads are done" } else { "" };
    line(&mut text, "measure", &format!("{at_most}{}{until}", duration_s(plan.duration_s)));
    for w in &scenario.workloads {
        let rate = rate_in_words(w);
        let (name, workers, mix) = (&w.name, w.workers, mix_in_words(&w.mix));
        let writes = w.mix.iter().any(|(op, _)| op.kind().is_write());
        let s = if workers == 1 { "" } else { "s" };
        let concern = if writes { format!(", w: {}", w.write_concern) } else { String::new() };
        let end = w.operations.map(|n| format!(", {} operations", count(n))).unwrap_or_default();
        line(&mut text, "workload", &format!("{name}: {mix}, {workers} worker{s}, {rate}{concern}{end}"));
    }
    steps(&mut text, scenario);
    faults::lines(&mut text, scenario, plan);
    text
}

/// What a sweep or a search does with the measured phase.
fn steps(text: &mut String, scenario: &Scenario) {
    if let Some(sweep) = &scenario.sweep {
        let loads = match &sweep.loads {
            Loads::Workers(list) => {
                list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ") + " workers"
            }
            Loads::Rates(list) => list.iter().map(|rate| per_second(*rate)).collect::<Vec<_>>().join(", "),
        };
        let (each, settle) = (duration_s(sweep.each.as_secs_f64()), duration_s(sweep.settle.as_secs_f64()));
        line(text, "sweep", &format!("{}: {loads}, {each} each, of which {settle} settle", sweep.workload));
    }
    if let Some(search) = &scenario.find_max {
        let [from, to] = [search.from_ops_s, search.to_ops_s].map(per_second);
        let (p99, each) = (duration_s(search.p99.as_secs_f64()), duration_s(search.each.as_secs_f64()));
        let what = format!(
            "{}: the highest rate from {from} to {to} with a p99 within {p99}, to {:.0} %, {each} a probe; the measured \
             phase ends with the answer",
            search.workload,
            100.0 * search.precision
        );
        line(text, "find-max", &what);
    }
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
                crate::scenario::Topology::Sharded => {
                    format!("{} shards, each a replica set of {}", m.shards, m.members)
                }
            };
            let mongod = m.mongod.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
            let with = [
                (m.proxies, ", behind proxies"),
                (m.test_commands, ", with test commands"),
                (m.clock_library, ", with the clock library"),
                (m.disk_bytes.is_some(), ", each on a disk of its own"),
            ];
            let with: String = with.into_iter().filter_map(|(has, words)| has.then_some(words)).collect();
            format!("{what}, mongod{mongod}, cache {} each{with}", bytes(m.cache_bytes))
        }
    }
}

fn line(text: &mut String, label: &str, what: &str) {
    text.push_str(&format!("  {label:<9} {what}\n"));
}
