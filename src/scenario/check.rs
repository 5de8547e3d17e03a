//! Cross-checks: values that are fine alone, but not together.
//!
//! Each of them names every value it rests on, so that it keeps silent when one of these could not
//! be read.

mod faults;
mod operations;

use std::collections::BTreeSet;
use std::time::Duration;

use super::path::KeyPath;
use super::table::{Log, Refusal};
use super::words::Names;
use super::{
    AfterOutage, Cluster, Dataset, Engine, Op, OpKind, ReadConcern, ReadPreference, Scenario, Topology,
    Workload, WriteConcern, content,
};

/// More faults than this in one run is a mistake in a unit.
pub const MOST_FAULTS: usize = 10_000;
/// More than that, times the shards, starve each other on one machine.
const MOST_SHARD_MEMBERS: u8 = 5;

/// Books everything that does not fit together.
pub(super) fn check(scenario: &Scenario, log: &Log) {
    let check = Check { scenario, log };
    check.cluster();
    check.sharding();
    check.indexes(&scenario.dataset);
    check.workloads();
    check.faults();
    check.steps();
    check.operations();
    check.limits_by_workload("p99", scenario.limits.p99.keys());
    check.limits_by_workload("error_share", scenario.limits.error_share.keys());
}

/// The checks, and what they book problems with.
pub(super) struct Check<'a> {
    pub(super) scenario: &'a Scenario,
    log: &'a Log,
}

impl Check<'_> {
    /// Books a refusal at the first path, unless one of the paths was refused already.
    pub(super) fn refuse(&self, at: &str, rests_on: &[&str], message: impl Into<String>, hint: &str) {
        let paths: Vec<_> = std::iter::once(&at).chain(rests_on).map(|path| KeyPath::of(path)).collect();
        self.log.across(&paths.iter().collect::<Vec<_>>(), Refusal::new(message).hint(hint));
    }

    /// Data-bearing members; `None`: somebody else's cluster, unknown before it is reached.
    fn members(&self) -> Option<u8> {
        match &self.scenario.cluster {
            Cluster::Managed(managed) => Some(managed.members),
            Cluster::Attached(_) => None,
        }
    }

    fn cluster(&self) {
        let Cluster::Managed(managed) = &self.scenario.cluster else { return };
        if managed.topology == Topology::Standalone && managed.members > 1 {
            self.refuse(
                "cluster.members",
                &["cluster.topology"],
                format!("a standalone has one member, not {}", managed.members),
                "leave it out, or write topology = \"replica-set\"",
            );
        }
    }

    fn sharding(&self) {
        let Cluster::Managed(managed) = &self.scenario.cluster else { return };
        let sharded = managed.topology == Topology::Sharded;
        if !sharded && managed.shards > 0 {
            self.refuse(
                "cluster.shards",
                &["cluster.topology"],
                "only a sharded cluster has shards",
                "leave it out, or write topology = \"sharded\"",
            );
        }
        if sharded && managed.members > MOST_SHARD_MEMBERS {
            self.refuse(
                "cluster.members",
                &["cluster.topology"],
                format!("a shard has at most {MOST_SHARD_MEMBERS} members here, not {}", managed.members),
                "write fewer",
            );
        }
        if !sharded && self.scenario.dataset.shard_key.is_some() {
            self.refuse(
                "dataset.shard_key",
                &["cluster.topology"],
                "only a sharded cluster spreads a collection",
                "leave it out, or write topology = \"sharded\" in [cluster]",
            );
        }
    }

    fn indexes(&self, dataset: &Dataset) {
        let fields = dataset.shape.fields();
        let paths = content::paths(&fields);
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        for (index, field) in dataset.indexes.iter().enumerate() {
            let at = format!("dataset.indexes.{index}");
            if !content::has_path(&fields, field) {
                let unknown =
                    Names { what: "field", now: &paths, later: &[] }.unknown(field, " of the shape");
                self.refuse(&at, &["dataset.shape"], unknown.message, &unknown.hint);
            } else if !seen.insert(field) {
                self.refuse(&at, &[], format!("{field:?} stands here twice"), "list each field once");
            }
        }
    }

    fn workloads(&self) {
        let workloads = &self.scenario.workloads;
        if workloads.is_empty() {
            self.refuse("workload", &[], "there is none", "add at least one [[workload]]");
        }
        for (index, workload) in workloads.iter().enumerate() {
            self.unique_name(index, workload);
            self.has_documents(index, workload);
            self.has_nodes(index, workload);
            self.has_indexes(index, workload);
            self.read_concern(index, workload);
            self.engine(index, workload);
        }
    }

    fn unique_name(&self, index: usize, workload: &Workload) {
        let earlier = self.scenario.workloads.iter().take(index);
        if let Some(twin) = earlier.clone().position(|other| other.name == workload.name) {
            self.refuse(
                &format!("workload.{index}.name"),
                &[&format!("workload.{twin}.name")],
                format!("{:?} is the name of another workload", workload.name),
                "give each workload its own name",
            );
        }
    }

    fn has_documents(&self, index: usize, workload: &Workload) {
        let inserts = |workload: &Workload| workload.mix.iter().any(|(op, _)| op.kind() == OpKind::Insert);
        let workloads = &self.scenario.workloads;
        let needs = workload.mix.iter().find(|(op, _)| op.kind() != OpKind::Insert);
        let (Some((op, _)), 0) = (needs, self.scenario.dataset.documents) else { return };
        if workloads.iter().any(inserts) {
            return;
        }
        let ops: Vec<_> = (0..workloads.len()).map(|other| format!("workload.{other}.op")).collect();
        let rests_on: Vec<_> = ops.iter().map(String::as_str).chain(["dataset.documents"]).collect();
        self.refuse(
            &format!("workload.{index}.op"),
            &rests_on,
            format!("there is no document to {op}"),
            "raise documents in [dataset], or add a workload that inserts",
        );
    }

    fn has_nodes(&self, index: usize, workload: &Workload) {
        let Some(members) = self.members() else { return };
        let cluster = ["cluster.members", "cluster.topology"];
        if let WriteConcern::Nodes(nodes) = workload.write_concern
            && nodes > u32::from(members)
        {
            self.refuse(
                &format!("workload.{index}.write_concern"),
                &cluster,
                format!("{nodes} members cannot acknowledge a write where there are {members}"),
                "write \"majority\", or fewer",
            );
        }
        if workload.read_preference == ReadPreference::Secondary && members == 1 {
            self.refuse(
                &format!("workload.{index}.read_preference"),
                &cluster,
                "there is no secondary in a cluster of one member",
                "write \"primary\" or \"secondaryPreferred\"",
            );
        }
    }

    /// Without an index a find reads the whole collection, each time.
    fn has_indexes(&self, index: usize, workload: &Workload) {
        let indexes = &self.scenario.dataset.indexes;
        for (op, _) in &workload.mix {
            if let Op::Find { field, .. } = op
                && !indexes.contains(field)
            {
                self.refuse(
                    &format!("workload.{index}.op"),
                    &["dataset.indexes"],
                    format!("find asks for {field:?}, which has no index"),
                    &format!("write indexes = [\"{field}\"] in [dataset], or find by another field"),
                );
            }
        }
    }

    fn read_concern(&self, index: usize, workload: &Workload) {
        if workload.read_concern == ReadConcern::Linearizable
            && workload.read_preference != ReadPreference::Primary
        {
            self.refuse(
                &format!("workload.{index}.read_concern"),
                &[&format!("workload.{index}.read_preference")],
                "only the primary answers linearizable reads",
                "write read_preference = \"primary\", or read_concern = \"majority\"",
            );
        }
    }

    fn engine(&self, index: usize, workload: &Workload) {
        let (Engine::Wire, Cluster::Attached(attached)) = (workload.engine, &self.scenario.cluster) else {
            return;
        };
        if let Some(what) = super::uri::beyond_wire(attached.uri.reveal()) {
            self.refuse(
                &format!("workload.{index}.engine"),
                &["cluster.uri"],
                format!("engine \"wire\" has no {what} yet"),
                "write engine = \"driver\"",
            );
        }
    }

    /// A sweep or a search for the highest rate: one of them, and nothing that would spoil it.
    fn steps(&self) {
        let Scenario { sweep, find_max, faults, .. } = self.scenario;
        if let Some(sweep) = sweep {
            super::sweep::check(self, sweep);
        }
        if let Some(search) = find_max {
            super::find_max::check(self, search);
        }
        if sweep.is_some() && find_max.is_some() {
            self.refuse("find_max", &[], "stands beside [sweep]", "make two scenarios of them");
        }
        if sweep.is_none() && find_max.is_none() {
            return;
        }
        self.nothing_else_changes();
        if !faults.is_empty() {
            self.refuse(
                "fault",
                &[],
                "a fault would spoil the steps that it falls into",
                "leave the faults out (--set 'fault=[]'), or make two scenarios of them",
            );
        }
    }

    /// Steps are compared with each other, so nothing else may change from one to the next.
    fn nothing_else_changes(&self) {
        for (index, workload) in self.scenario.workloads.iter().enumerate() {
            if workload.schedule.is_some() {
                self.refuse(
                    &format!("workload.{index}.rate"),
                    &[],
                    "a rate that changes by itself would spoil the steps",
                    "write one rate, for example \"500/s\"",
                );
            }
            if workload.after_outage != AfterOutage::Drop {
                self.refuse(
                    &format!("workload.{index}.after_outage"),
                    &[],
                    "what one step leaves behind would be sent in the next",
                    "leave it out, or write \"drop\"",
                );
            }
        }
    }

    /// The number of the workload of that name. A name that nobody has is booked.
    pub(super) fn known_workload(&self, at: &str, name: &str) -> Option<usize> {
        let workloads = &self.scenario.workloads;
        let known: Vec<_> = workloads.iter().map(|workload| workload.name.as_str()).collect();
        let found = known.iter().position(|known| *known == name);
        if found.is_none() && !known.is_empty() {
            let unknown = Names { what: "workload", now: &known, later: &[] }.unknown(name, "");
            let names: Vec<_> = (0..known.len()).map(|index| format!("workload.{index}.name")).collect();
            let rests_on: Vec<_> = names.iter().map(String::as_str).collect();
            self.refuse(at, &rests_on, unknown.message, &unknown.hint);
        }
        found
    }

    /// What is counted row by row of the timeline.
    pub(super) fn whole_seconds(&self, at: &str, length: Duration) {
        if length.subsec_nanos() > 0 {
            let hint = "write whole seconds: the timeline has one row a second";
            self.refuse(at, &[], "is no whole number of seconds", hint);
        }
    }

    fn limits_by_workload<'n>(&self, key: &str, names: impl Iterator<Item = &'n String>) {
        let workloads = &self.scenario.workloads;
        let known: Vec<_> = workloads.iter().map(|workload| workload.name.as_str()).collect();
        let unread = (0..known.len()).any(|i| self.log.is_bad(&KeyPath::of(&format!("workload.{i}.name"))));
        if known.is_empty() || unread {
            return;
        }
        for name in names.filter(|name| !known.contains(&name.as_str())) {
            let unknown = Names { what: "workload", now: &known, later: &[] }.unknown(name, "");
            let path = KeyPath::of(&format!("limits.{key}")).child(name);
            self.log.across(&[&path], unknown.into());
        }
    }
}
