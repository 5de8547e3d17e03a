//! `--set`: what it changes, what it keeps, and where its problems point.

use super::super::source::read_text;
use super::*;

const TEXT: &str = r#"# Shows something.
duration = "30m" # long

[cluster]
members = 3

[[workload]] # first
name = "writers"
op = "insert"

[[workload]]
name = "readers"
rate = "500/s" # open loop
op = { read = {} }

[[fault]]
do = { kill = { target = "primary" } }
first = "5m"
every = "5m"
"#;

fn set(overrides: &[&str]) -> Result<(Scenario, Source), Problems> {
    read_text(source(TEXT), &overrides.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

#[test]
fn changes_what_it_names() {
    let (scenario, changed) = set(&[
        "duration=10m",
        "seed=7",
        "cluster.members=1",
        "cluster.mongod=7.0",
        "workload.readers.rate=200/s",
        "workload.0.workers=1e2",
        "workload.writers.op={ insert = { batch = 10 } }",
        "fault.0.every=1m",
        "fault.0.do.kill.restart_after=1s",
        "limits.p99.readers=20ms",
    ])
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.duration, Duration::from_secs(600));
    assert_eq!(scenario.seed, Some(7));
    assert_eq!(scenario.workloads[1].rate_ops_s, Some(200.0));
    let insert = Op::Insert { batch: 10, ordered: true };
    assert_eq!((scenario.workloads[0].workers, &scenario.workloads[0].mix), (100, &vec![(insert, 1.0)]));
    assert_eq!(scenario.limits.p99["readers"], Duration::from_millis(20));
    assert_eq!(scenario.faults[0].when.offsets(scenario.duration).count(), 5);
    let Cluster::Managed(managed) = &scenario.cluster else { panic!("not managed") };
    assert_eq!((managed.members, managed.mongod.as_deref()), (1, Some("7.0")));
    for kept in
        ["# Shows something.\nduration = \"10m\" # long\n", "[[workload]] # first", "\"200/s\" # open loop"]
    {
        assert!(changed.text.contains(kept), "{}", changed.text);
    }
    assert_eq!(parse(&changed), Ok(scenario), "the copy in the run directory reads the same");
}

#[test]
fn replaces_whole_tables_and_lists() {
    let (scenario, changed) = set(&["fault=[]", "cluster={ uri = \"mongodb://h\" }"]).unwrap();
    assert!(scenario.faults.is_empty());
    assert!(matches!(scenario.cluster, Cluster::Attached(_)), "{}", changed.text);
    assert_eq!(parse(&changed), Ok(scenario));
}

#[test]
fn reaches_into_inline_lists() {
    let text = "duration = \"1m\"\nworkload = [{ name = \"w\", op = \"read\" }]\n";
    let (scenario, _) = read_text(source(text), &["workload.w.workers=3".into()]).unwrap();
    assert_eq!(scenario.workloads[0].workers, 3);
}

#[test]
fn problems_point_at_the_override() {
    let said = |overrides: &[&str]| set(overrides).unwrap_err().to_string();
    assert_eq!(
        said(&["duration=10x"]),
        r#"--set duration=10x: "duration": "10x" is not a duration (unknown time unit "x"); write for example "90s", "10m" or "2h 30m""#
    );
    assert!(said(&["workload.readers.wrokers=2"]).starts_with(
        r#"--set workload.readers.wrokers=2: unknown key "wrokers" in [[workload]]; did you mean "workers"?"#
    ));
    assert!(said(&["limits.p99.nobody=1s"]).starts_with("--set limits.p99.nobody=1s: "));
    // The override is fine alone; what it breaks is in the file, at its line there.
    assert!(
        said(&["seed=1", "duration=4m"])
            .starts_with(r#"scenarios/x.toml:18:9: "first" in [[fault]]: nothing would ever happen at 5m"#)
    );
}

#[test]
fn overrides_that_lead_nowhere() {
    for (text, message) in [
        ("duration", "an override has no \"=\""),
        ("=5", "the part before \"=\" is no key path"),
        ("workload.reeders.rate=1/s", "there is no \"workload.reeders\"; did you mean \"workload.readers\"?"),
        ("fault.3.every=1m", "there is no \"fault.3\": the scenario has 1, from 0"),
        ("workload.readers=1", "\"workload.1\" is a whole table; set one of its keys"),
        ("duration.minutes=1", "\"duration\" is one value and has no keys; set it as a whole"),
    ] {
        let problems = set(&[text, "cluster.members=9"]).unwrap_err();
        let [second, first] = problems.list() else { panic!("{problems}") };
        let (problem, other) = if first.key.is_empty() { (first, second) } else { (second, first) };
        assert_eq!((problem.message.as_str(), &problem.place), (message, &Place::Set(text.into())));
        assert_eq!(other.place, Place::Set("cluster.members=9".into()));
    }
}

#[test]
fn the_largest_seed() {
    let change = ["cluster.members=1".to_owned()];
    let with = |seed: &str| source(&TEXT.replace("duration = ", &format!("seed = {seed}\nduration = ")));
    let (scenario, _) = read_text(with("\"18446744073709551615\""), &change).unwrap();
    assert_eq!(scenario.seed, Some(u64::MAX));
    assert_eq!(set(&["seed=18446744073709551615"]).unwrap().0.seed, Some(u64::MAX));
    for overrides in [&change[..], &[]] {
        let problems = read_text(with("18446744073709551615"), overrides).unwrap_err();
        let said = problems.to_string();
        assert!(said.starts_with("scenarios/x.toml:2:8: ") && said.ends_with("in quotes"), "{said}");
    }
}
