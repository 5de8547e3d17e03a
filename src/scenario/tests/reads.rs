//! What is accepted, and what it comes to.

use serde_json::{Value, json};

use super::*;
use crate::plan::Plan;

const INSERT: Op = Op::Insert { batch: 1, ordered: true };
const S: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn defaults() {
    let scenario =
        good("# Shows\n#  nothing.\n\nduration = \"10m\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n");
    assert_eq!(scenario.name, "x");
    assert_eq!(scenario.description, "Shows\nnothing.");
    assert_eq!((scenario.seed, scenario.duration, scenario.warmup), (None, S(600), Warmup::Auto));
    let Cluster::Managed(managed) = scenario.cluster else { panic!("not managed") };
    assert_eq!((managed.topology, managed.members), (Topology::ReplicaSet, 3));
    assert_eq!((managed.cache_bytes, managed.election_timeout), (256 << 20, S(10)));
    assert_eq!(managed.oplog_bytes, 2 << 30);
    assert_eq!((managed.mongod, managed.parameters), (None, BTreeMap::new()));
    let data = scenario.dataset;
    assert_eq!((data.shape.clone(), data.documents), (Shape::Row, 100_000));
    assert_eq!((data.database.as_str(), data.collection.as_str()), ("soak", "docs"));
    let [workload] = scenario.workloads.as_slice() else { panic!("not one workload") };
    assert_eq!((workload.workers, workload.rate_ops_s), (1, None));
    assert_eq!((&workload.mix, workload.read_concern), (&vec![(Op::Read, 1.0)], ReadConcern::Local));
    assert_eq!(
        (workload.write_concern, workload.distribution),
        (WriteConcern::Majority, Distribution::Uniform)
    );
    assert_eq!((workload.read_preference, workload.deadline), (ReadPreference::Primary, S(10)));
    assert_eq!((scenario.measures, scenario.limits), (Measures::default(), Limits::default()));
}

#[test]
fn every_key() {
    let scenario = good(EVERYTHING);
    let Cluster::Managed(managed) = scenario.cluster else { panic!("not managed") };
    assert_eq!(managed.mongod.as_deref(), Some("7.10"));
    assert_eq!(managed.parameters["orphanCleanupDelaySecs"], "1");
    assert_eq!(managed.parameters["ttlMonitorEnabled"], "false");
    assert_eq!(managed.cache_bytes, 1 << 30);
    assert_eq!(scenario.seed, Some(42));
    assert_eq!(scenario.warmup, Warmup::Fixed(S(0)));
    assert_eq!(scenario.dataset.documents, 3_000_000_000);
    assert_eq!(scenario.dataset.indexes, ["field0", "field9"]);
    let [writers, readers] = scenario.workloads.as_slice() else { panic!("not two workloads") };
    assert_eq!(writers.mix, [(Op::Insert { batch: 100, ordered: false }, 1.0)]);
    assert_eq!((writers.rate_ops_s, writers.read_concern), (Some(0.5), ReadConcern::Majority));
    assert_eq!(writers.write_concern, WriteConcern::Nodes(2));
    assert_eq!(readers.mix, [(INSERT, 1.0), (Op::Read, 94.0), (Op::Update, 5.0)]);
    assert_eq!(readers.distribution, Distribution::Zipfian { exponent: 0.8, scrambled: true });
    assert_eq!((readers.read_preference, readers.deadline), (ReadPreference::SecondaryPreferred, S(3)));
    assert_eq!((writers.engine, readers.engine), (Engine::Driver, Engine::Wire));
    let [stop, kill] = scenario.faults.as_slice() else { panic!("not two faults") };
    assert_eq!(stop.choices[0].spec, fault("stop", json!({ "target": "node3", "restart_after": 0.0 })));
    assert_eq!(stop.when, When::At(vec![S(60), S(120)]));
    assert_eq!(kill.choices[0].spec, fault("kill", json!({ "target": "primary", "restart_after": 10.0 })));
    assert_eq!(kill.when, When::Every { first: S(30), every: S(45), times: Some(2) });
    assert_eq!(scenario.measures.sustained_for, Some(S(30)));
    assert_eq!(scenario.measures.sustained_p99_factor, 2.0);
    assert_eq!(scenario.limits.p99["readers"], Duration::from_millis(50));
    assert_eq!(scenario.limits.error_share["writers"], 0.01);
    assert_eq!(scenario.limits.min_effective_faults, Some(4));
}

const EVERYTHING: &str = r#"
name = "everything"
seed = 42
duration = "5m"
warmup = "0s"

[cluster]
topology = "replica-set"
members = 3
mongod = 7.10
cache = "1GiB"
election_timeout = "2s"
auth = false
tls = false
parameters = { orphanCleanupDelaySecs = 1, ttlMonitorEnabled = false }

[dataset]
shape = "ycsb"
documents = 3000000000
database = "other"
collection = "things"
indexes = ["field0", "field9"]

[[workload]]
name = "writers"
workers = 4
rate = "30/m"
op = { insert = { batch = 100, ordered = false } }
write_concern = 2
read_concern = "majority"

[[workload]]
name = "readers"
workers = 1e1
op = { mix = { read = 94, update = 5, insert = 1 } }
distribution = { zipfian = 0.8 }
read_preference = "secondaryPreferred"
deadline = "3s"
engine = "wire"

[[fault]]
do = { stop = { target = "node3", restart_after = "0s" } }
at = ["2m", "1m"]

[[fault]]
do = "kill"
first = "30s"
every = "45s"
times = 2

[measures]
baseline = "1m"
sustained_for = "30s"
sustained_throughput = 0.9
sustained_p99_factor = 2
sustained_p99_slack = "0s"

[limits]
sustained_recovery = "60s"
hard_outage = "20s"
longest_gap = "20s"
lost_majority_writes = 0
lost_permitted_writes = 100
p99 = { readers = "50ms" }
error_share = { writers = 0.01 }
min_effective_faults = 4
"#;

#[test]
fn counts_in_every_form() {
    for documents in ["1_000_000", "1e6", "\"1_000_000\"", "\"1M\"", "0xF4240"] {
        let scenario = good(&text("", &format!("[dataset]\ndocuments = {documents}")));
        assert_eq!(scenario.dataset.documents, 1_000_000, "{documents}");
    }
}

#[test]
fn small_deployments() {
    for cluster in ["topology = \"standalone\"", "members = 1", "topology = \"standalone\"\nmembers = 1"] {
        let rest = format!("write_concern = \"majority\"\n[cluster]\n{cluster}");
        let Cluster::Managed(managed) = good(&text("", &rest)).cluster else { panic!("not managed") };
        assert_eq!(managed.members, 1, "{cluster}");
    }
}

#[test]
fn every_scenario_of_the_repository_is_good() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let (scenario, source) = read(&file, &[]).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(Some(scenario.name.as_str()), file.file_stem().and_then(|stem| stem.to_str()));
        assert!(!scenario.description.is_empty(), "{} says nothing of itself", file.display());
        assert_eq!(parse(&source), Ok(scenario.clone()));
        let plan = Plan::new(&scenario, 1);
        let least = scenario.limits.min_effective_faults.unwrap_or(0);
        assert!(plan.faults.len() as u64 >= least, "{plan:?}");
    }
}

fn fault(kind: &str, parameters: Value) -> FaultSpec {
    FaultSpec::new(kind, &parameters).unwrap()
}
