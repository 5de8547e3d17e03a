//! `rate` and `after_outage`.

use std::time::Duration;

use super::*;

fn workload(lines: &str) -> Workload {
    good(&text("", lines)).workloads.remove(0)
}

#[test]
fn a_rate_may_be_a_text_or_change() {
    assert_eq!(workload("rate = \"30/m\"").rate_ops_s, Some(0.5));
    let ramp = workload(r#"rate = { ramp = { from = "100/s", to = "5k/s", over = "10m" } }"#);
    let over = Duration::from_secs(600);
    assert_eq!(ramp.schedule, Some(Schedule::Ramp { from: 100.0, to: 5_000.0, over }));
    assert_eq!(ramp.rate_ops_s, Some(100.0), "the warm-up runs at the first value");
    let steps = workload(r#"rate = { steps = { rates = ["100/s", "500/s"], each = "1m" } }"#);
    let (rates, each) = (vec![100.0, 500.0], Duration::from_secs(60));
    assert_eq!(steps.schedule, Some(Schedule::Steps { rates, each }));
    let sine = workload(r#"rate = { sine = { mean = "500/s", amplitude = "300/s", period = "10m" } }"#);
    assert_eq!(sine.schedule, Some(Schedule::Sine { mean: 500.0, amplitude: 300.0, period: over }));
}

#[test]
fn a_rate_that_cannot_be_is_refused_where_it_stands() {
    for (lines, message, hint) in [
        (
            r#"rate = { ramp = { from = "100/s", «two = "5k/s", to = "1/s", over = "10m" } }"#,
            "unknown key \"two\" in rate.ramp of [[workload]]",
            "from, to, over",
        ),
        (r#"rate = { «wave = { mean = "1/s" } }"#, "", "ramp, steps, sine, profile"),
        (
            r#"rate = { sine = «{ mean = "10/s", amplitude = "11/s", period = "1m" } }"#,
            "\"sine\" in rate of [[workload]]: the rate would fall below zero",
            "at most the mean",
        ),
        (
            r#"rate = { steps = { rates = «[], each = "1m" } }"#,
            "\"rates\" in rate.steps of [[workload]]: must not be empty",
            "rates = [",
        ),
        (r#"rate = { ramp = { from = "100/s", to = «"0/s", over = "10m" } }"#, "", ""),
        (
            "after_outage = «\"burst\"",
            "\"after_outage\" in [[workload]]: without a rate nothing waits: \
             each worker sends when the answer before has come",
            "write a rate",
        ),
        (
            "rate = \"1/s\"\nafter_outage = «\"bursts\"",
            "\"after_outage\" in [[workload]]: unknown way to go on \"bursts\"",
            "did you mean \"burst\"?",
        ),
    ] {
        if message.is_empty() {
            assert_eq!(bad(&text("", &lines.replace('«', ""))).len(), 1, "{lines}");
        } else {
            refused(&text("", lines), message, hint);
        }
    }
}

#[test]
fn a_profile_is_read_beside_the_scenario_and_copied_with_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("days")).unwrap();
    std::fs::write(dir.path().join("days/day.csv"), "time,rate\n00:00,100\n24:00,300\n").unwrap();
    let text = text("", "rate = { profile = \"days/day.csv\" } # as ever");
    let source = Source { path: dir.path().join("x.toml"), text };
    let scenario = parse(&source).unwrap();
    let Some(Schedule::Profile(profile)) = &scenario.workloads[0].schedule else { panic!() };
    assert_eq!(profile.points, [(0.0, 100.0), (86_400.0, 300.0)]);

    let run = tempfile::tempdir().unwrap();
    let copy = Source { path: run.path().join("scenario.toml"), text: source.public_text() };
    assert!(copy.text.contains("rate = { profile = \"profile-w.csv\" } # as ever"), "{}", copy.text);
    std::fs::write(run.path().join(Profile::copied_as("w")), &profile.text).unwrap();
    let Some(Schedule::Profile(again)) = &parse(&copy).unwrap().workloads[0].schedule else { panic!() };
    assert_eq!(again.points, profile.points);
}

#[test]
fn every_problem_of_a_profile_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("day.csv"), "time,rate\n0,100\n60,many\n50\n").unwrap();
    let text = text("", "rate = { profile = \"day.csv\" }");
    let problems = parse(&Source { path: dir.path().join("x.toml"), text }).unwrap_err();
    let shown = problems.to_string();
    assert!(shown.contains("day.csv, line 3:") && shown.contains("day.csv, line 4:"), "{shown}");
}

#[test]
fn a_profile_that_is_not_there_is_refused() {
    let problems = bad(&text("", "rate = { profile = \"nowhere.csv\" }"));
    assert!(problems[0].message.contains("cannot read \"nowhere.csv\""), "{}", problems[0]);
}

#[test]
fn nothing_else_changes_while_the_rate_is_searched() {
    let search = "\n[find_max]\nworkload = \"w\"\np99 = \"50ms\"";
    let fine = text("", &format!("rate = \"10/s\"{search}"));
    let messages = |text: &str| parse(&source(text)).err().map(|all| all.to_string()).unwrap_or_default();
    let spoils = |line: &str| messages(&fine.replace("rate = \"10/s\"", line));
    assert!(
        spoils("rate = { sine = { mean = \"9/s\", amplitude = \"1/s\", period = \"1m\" } }")
            .contains("spoil the steps")
    );
    assert!(spoils("rate = \"10/s\"\nafter_outage = \"burst\"").contains("in the next"));
    assert!(!messages(&fine).contains("rate"), "{}", messages(&fine));
}
