//! Faults: whom they hit, when, how many they come to.

use std::collections::BTreeSet;
use std::time::Duration;

use faults::catalog::Need;
use faults::{Harm, NodeTarget, Parameter, Takes};
use humantime::format_duration;

use super::{Check, MOST_FAULTS};
use crate::scenario::words::Names;
use crate::scenario::{Cluster, FaultRule, FaultSpec, Majority, Scenario, Seat, Topology, When};

/// The clients, among names of members.
const CLIENTS: &str = "clients";

/// What an attached cluster never has.
const FOR_OWN_CLUSTERS: [Need; 3] = [Need::Managed, Need::Proxies, Need::ClockShim];

impl Check<'_> {
    /// All rules.
    pub(super) fn faults(&self) {
        for (index, rule) in self.scenario.faults.iter().enumerate() {
            for (number, choice) in rule.choices.iter().enumerate() {
                let mixed = rule.choices.len() > 1;
                let place = if mixed { format!("mix.{number}.do") } else { "do".into() };
                let at = format!("fault.{index}.{place}");
                self.target(&at, &choice.spec);
                self.can_keep_the_majority(&at, rule, &choice.spec);
            }
            self.times(index, rule);
        }
        self.planned();
    }

    fn target(&self, at: &str, spec: &FaultSpec) {
        let kind = spec.kind();
        let needs = spec.entry().needs;
        let Some(members) = self.members() else {
            if let Some(need) = needs.iter().find(|need| FOR_OWN_CLUSTERS.contains(need)) {
                self.refuse(
                    at,
                    &[],
                    format!("{kind} needs {}, and this one is not ours", need.words()),
                    "leave out \"uri\" in [cluster], or leave out this fault",
                );
            }
            return;
        };
        if needs.contains(&Need::Sharded) && !self.is_sharded() {
            self.refuse(
                at,
                &["cluster.topology"],
                format!("{kind} needs {}", Need::Sharded.words()),
                "write topology = \"sharded\" in [cluster], or leave out this fault",
            );
            return;
        }
        for parameter in spec.entry().parameters {
            let target = match parameter.takes {
                Takes::Target | Takes::Party => spec.parameters().party(parameter.name),
                _ => continue,
            };
            if let Ok(target) = target {
                self.names(&format!("{at}.{kind}.{}", parameter.name), &target, parameter.takes, members);
            }
        }
    }

    /// Whether a cluster of so many members has whom the target names.
    fn names(&self, at: &str, target: &NodeTarget, takes: Takes, members: u8) {
        let cluster = ["cluster.members", "cluster.topology"];
        match target {
            NodeTarget::Secondary if members == 1 => self.refuse(
                at,
                &cluster,
                "there is no secondary in a cluster of one member",
                "write \"primary\", or raise members in [cluster]",
            ),
            NodeTarget::Mongos if !self.is_sharded() => self.refuse(
                at,
                &cluster,
                "only a sharded cluster has a mongos",
                "name another target, or write topology = \"sharded\" in [cluster]",
            ),
            NodeTarget::Nodes(names) => {
                let nodes: Vec<_> = self.seats().into_iter().map(|seat| seat.name).collect();
                let valid: Vec<_> =
                    NodeTarget::WORDS.into_iter().chain(nodes.iter().map(String::as_str)).collect();
                // A side of a partition may have members and clients.
                let known =
                    |name: &String| nodes.contains(name) || (takes == Takes::Party && name == CLIENTS);
                for name in names.iter().filter(|name| !known(name)) {
                    let unknown = Names { what: "target", now: &valid, later: &[] }.unknown(name, "");
                    self.refuse(at, &cluster, unknown.message, &unknown.hint);
                }
            }
            NodeTarget::Within(set, _) => {
                let sets: BTreeSet<_> = self.seats().into_iter().filter_map(|seat| seat.set).collect();
                if !sets.contains(set) {
                    let sets: Vec<_> = sets.iter().map(String::as_str).collect();
                    let unknown = Names { what: "replica set", now: &sets, later: &[] }.unknown(set, "");
                    self.refuse(at, &cluster, unknown.message, &unknown.hint);
                }
            }
            _ => {}
        }
    }

    fn is_sharded(&self) -> bool {
        matches!(&self.scenario.cluster, Cluster::Managed(m) if m.topology == Topology::Sharded)
    }

    /// All nodes of a cluster of ours, and those that it may have.
    fn seats(&self) -> Vec<Seat> {
        match &self.scenario.cluster {
            Cluster::Managed(managed) => managed.seats(true),
            Cluster::Attached(_) => Vec::new(),
        }
    }

    /// A fault that could never be injected.
    fn can_keep_the_majority(&self, at: &str, rule: &FaultRule, spec: &FaultSpec) {
        let (Some(members), NodeTarget::Nodes(names)) = (self.members(), spec.target()) else { return };
        // In a sharded cluster each set has a majority of its own: the guard looks at them in the run.
        if self.is_sharded() {
            return;
        }
        let spare = usize::from(members) - faults::majority_of(usize::from(members));
        let takes_down = spec.build().harm() == Harm::TakesDown && rule.majority == Majority::Kept;
        let members_named = names.iter().filter(|name| *name != CLIENTS).count();
        if takes_down && spare > 0 && members_named > spare {
            let names_nodes =
                |parameter: &&Parameter| matches!(parameter.takes, Takes::Target | Takes::Party);
            let key = spec.entry().parameters.iter().find(names_nodes).map_or("target", |p| p.name);
            self.refuse(
                &format!("{at}.{}.{key}", spec.kind()),
                &["cluster.members", "cluster.topology"],
                format!("{} of {members} members down at once leave no majority", names.len()),
                "name fewer nodes, or write majority = \"may_be_lost\" beside it",
            );
        }
    }

    /// Every time that the user wrote must come.
    fn times(&self, index: usize, rule: &FaultRule) {
        let duration = self.scenario.duration;
        if let When::Random { from, until, .. } = &rule.when {
            return self.random(index, *from, *until);
        }
        let (key, written) = match &rule.when {
            When::At(offsets) => ("at", offsets.as_slice()),
            When::Every { first, .. } => ("first", std::slice::from_ref(first)),
            When::Cued { after, .. } if *after < duration => return,
            When::Cued { after, .. } => ("after", std::slice::from_ref(after)),
            When::Random { .. } => return,
        };
        let outside: Vec<_> = written.iter().filter(|at| at.is_zero() || **at >= duration).collect();
        if outside.is_empty() {
            return;
        }
        let outside: Vec<_> = outside.into_iter().map(|at| format_duration(*at).to_string()).collect();
        self.refuse(
            &format!("fault.{index}.{key}"),
            &["duration"],
            format!(
                "nothing would ever happen at {}: the measured phase lasts {}",
                outside.join(", "),
                format_duration(duration)
            ),
            "write times above 0s (a fault needs a time before it to compare with) and below \"duration\"",
        );
    }

    /// There is a time in which a fault may fall.
    fn random(&self, index: usize, from: Duration, until: Option<Duration>) {
        let end = until.unwrap_or(self.scenario.duration).min(self.scenario.duration);
        if from >= end {
            self.refuse(
                &format!("fault.{index}.random"),
                &["duration"],
                format!("no time is left between {} and {}", format_duration(from), format_duration(end)),
                "write a \"from\" below \"until\" and below \"duration\"",
            );
        }
    }

    /// How many faults the rules come to.
    fn planned(&self) {
        let Scenario { duration, faults, limits, .. } = self.scenario;
        let (mut planned, mut known) = (0_usize, true);
        for (index, rule) in faults.iter().enumerate() {
            planned = planned.saturating_add(planned_by(rule, *duration));
            known &= !matches!(rule.when, When::Random { .. });
            if planned > MOST_FAULTS {
                let key = match rule.when {
                    When::At(_) => "at",
                    When::Every { .. } => "every",
                    When::Random { .. } => "random",
                    When::Cued { .. } => "times",
                };
                self.refuse(
                    &format!("fault.{index}.{key}"),
                    &[&format!("fault.{index}"), "duration"],
                    format!("the scenario comes to more than {MOST_FAULTS} faults"),
                    "write a longer \"every\", or \"times\"",
                );
                return;
            }
        }
        // How many a random rule comes to, only the seed says.
        let planned = u64::try_from(planned).unwrap_or(u64::MAX);
        if let Some(least) = limits.min_effective_faults.filter(|least| known && *least > planned) {
            self.refuse(
                "limits.min_effective_faults",
                &["fault", "duration"],
                format!("{least} can never be reached, {planned} are planned"),
                "lower it, or plan more faults",
            );
        }
    }
}

/// Counts no further than it must. Of a random rule: what is to be expected.
fn planned_by(rule: &FaultRule, duration: Duration) -> usize {
    let at_most = |times: u32| usize::try_from(times).unwrap_or(usize::MAX);
    match &rule.when {
        When::Cued { times, .. } => at_most(*times),
        When::Random { mean, from, until, times } => {
            let room = until.unwrap_or(duration).min(duration).saturating_sub(*from);
            let expected = usize::try_from(room.as_nanos() / mean.as_nanos().max(1)).unwrap_or(usize::MAX);
            expected.min(times.map_or(usize::MAX, at_most))
        }
        when => when.offsets(duration).take(MOST_FAULTS + 1).count(),
    }
}
