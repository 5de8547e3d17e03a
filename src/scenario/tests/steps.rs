//! `[sweep]` and `[find_max]`.

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn sweep(workload: &str, keys: &str) -> String {
    format!("[[workload]]\nname = \"w\"\nop = \"read\"\n{workload}\n[sweep]\nworkload = \"w\"\n{keys}\n")
}

fn search(workload: &str, keys: &str) -> String {
    format!("[[workload]]\nname = \"w\"\nop = \"read\"\n{workload}\n[find_max]\nworkload = \"w\"\n{keys}\n")
}

#[test]
fn a_sweep_gives_the_duration_and_what_its_workload_leaves_out() {
    let scenario = good(&sweep("", "workers = [1, 2, 8]"));
    assert_eq!(scenario.duration, S(90));
    assert_eq!((scenario.workloads[0].workers, scenario.workloads[0].rate_ops_s), (8, None));
    let stepped = scenario.sweep.unwrap();
    assert_eq!(stepped.loads, Loads::Workers(vec![1, 2, 8]));
    assert_eq!((stepped.each, stepped.settle), (S(30), S(5)));
    let scenario =
        good(&sweep("workers = 16", "rate = [\"100/s\", \"1k/s\"]\neach = \"20s\"\nsettle = \"0s\""));
    assert_eq!(scenario.duration, S(40));
    assert_eq!((scenario.workloads[0].workers, scenario.workloads[0].rate_ops_s), (16, Some(100.0)));
    let scenario = good(&sweep("workers = 16\nrate = \"50/s\"", "rate = [\"100/s\", \"1k/s\"]"));
    assert_eq!(scenario.workloads[0].rate_ops_s, Some(50.0), "for the warm-up");
    good(&format!("duration = \"1m\"\n{}", sweep("workers = 64", "workers = [1, 2]")));
}

#[test]
fn sweeps_that_make_no_sense() {
    refused(
        &sweep("", "workers = [1, 2]\nrate = «[\"1/s\", \"2/s\"]"),
        r#""rate" in [sweep]: stands beside "workers""#,
        "one of the two",
    );
    refused(&sweep("", "«wokers = [1]"), r#"unknown key "wokers" in [sweep]"#, "did you mean \"workers\"?");
    refused(&sweep("", "workers = «[4]"), r#""workers" in [sweep]: 1 steps are no sweep"#, "2 to 100");
    refused(&sweep("", "workers = «[4, 2]"), r#""workers" in [sweep]: is not ascending"#, "smallest first");
    refused(&sweep("", "rate = «[\"2/s\", \"2/s\"]"), r#""rate" in [sweep]: is not ascending"#, "once");
    refused(&sweep("", "workers = [1, «0]"), r#""workers" in [sweep]: 0 is out of range"#, "from 1");
    refused(
        &sweep("", "workers = [1, 2]\neach = «\"5s\""),
        r#""each" in [sweep]: nothing of a step is left after 5s of settling"#,
        "longer steps",
    );
    refused(
        &sweep("", "workers = [1, 2]\neach = «\"7500ms\""),
        r#""each" in [sweep]: is no whole number of seconds"#,
        "one row a second",
    );
    refused(
        &sweep("rate = «\"1/s\"", "workers = [1, 2]"),
        r#""rate" in [[workload]]: a sweep over workers needs a closed loop: with a rate, more workers send no more"#,
        "step the rate",
    );
    refused(
        &sweep("workers = «2", "workers = [1, 4]"),
        r#""workers" in [[workload]]: 2 workers cannot do the step of 4 in [sweep]"#,
        "leave it out",
    );
    refused(
        &format!("duration = «\"10m\"\n{}", sweep("", "workers = [1, 2]")),
        r#""duration": the steps of [sweep] last 1m together"#,
        "leave it out",
    );
    refused(
        &sweep("", "workers = [1, 2]").replace("workload = \"w\"", "workload = «\"v\""),
        r#""workload" in [sweep]: unknown workload "v""#,
        "valid: w",
    );
}

#[test]
fn faults_and_sweeps_do_not_go_together() {
    let fault = "[[fault]]\ndo = \"kill\"\nfirst = \"10s\"\n";
    for text in [sweep("", "workers = [1, 2]"), search("", "p99 = \"10ms\"")] {
        let problems = bad(&format!("{text}{fault}"));
        assert_eq!(problems.len(), 1, "{problems:#?}");
        assert!(problems[0].message.contains("a fault would spoil the steps"), "{}", problems[0]);
    }
    let both = sweep("", "workers = [1, 2]") + "[find_max]\nworkload = \"w\"\np99 = \"1ms\"\n";
    assert!(bad(&both).iter().any(|problem| problem.message.contains("stands beside [sweep]")));
}

#[test]
fn a_search_has_defaults_and_needs_its_limit() {
    let scenario = good(&search("workers = 64", "p99 = \"10ms\""));
    assert_eq!(scenario.workloads[0].rate_ops_s, Some(100.0), "it warms up at the lowest rate");
    let found = scenario.find_max.unwrap();
    assert_eq!((found.from_ops_s, found.to_ops_s, found.precision), (100.0, 100_000.0, 0.05));
    assert_eq!((found.each, found.settle, found.p99), (S(10), S(3), Duration::from_millis(10)));
    assert_eq!(scenario.duration, found.longest());
    let missing = bad(&search("", ""));
    assert_eq!(missing[0].message, r#""p99" in [find_max] is missing"#);
    refused(
        &search("", "p99 = \"1ms\"\nfrom = \"2k/s\"\nto = «\"1k/s\""),
        r#""to" in [find_max]: 1000/s is not above the lowest rate, 2000/s"#,
        "a range",
    );
    refused(
        &search("", "p99 = \"1ms\"\nprecision = «5"),
        r#""precision" in [find_max]: 5 is out of range"#,
        "0.01 to 0.5",
    );
    refused(
        &format!("duration = «\"12s\"\n{}", search("", "p99 = \"1ms\"")),
        r#""duration": is too short for one probe of [find_max]"#,
        "leave it out",
    );
}

#[test]
fn a_search_can_be_set_from_the_command_line() {
    let source =
        source(&search("", "p99 = \"10ms\"").replace("[find_max]\nworkload = \"w\"\np99 = \"10ms\"\n", ""));
    let overrides = ["find_max.workload=w", "find_max.p99=10ms", "find_max.from=50/s"].map(str::to_owned);
    let (scenario, _) = super::super::source::read_text(source, &overrides).unwrap();
    assert_eq!(scenario.find_max.unwrap().from_ops_s, 50.0);
}
