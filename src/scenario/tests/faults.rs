//! When faults happen, which ones, and how they get on with each other: what is accepted and what is not.

use serde_json::{Value, json};

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn rule(keys: &str) -> FaultRule {
    good(&text("", &format!("[[fault]]\n{keys}"))).faults.remove(0)
}

fn fault(keys: &str) -> String {
    text("", &format!("[[fault]]\n{keys}"))
}

#[test]
fn a_mix_has_weights() {
    let rule = rule(
        "mix = [{ do = { kill = { target = \"secondary\" } }, weight = 3 }, { do = \"pause\" }]\nfirst = \"1m\"",
    );
    let kill = FaultSpec::new("kill", &json!({ "target": "secondary" })).unwrap();
    let pause = FaultSpec::new("pause", &Value::Null).unwrap();
    assert_eq!(rule.choices, [Choice { spec: kill, weight: 3 }, Choice { spec: pause, weight: 1 }]);
    assert_eq!(rule.wait, FaultRule::WAIT);
    refused(
        &fault("mix = «[{ do = \"kill\" }]\nfirst = \"1m\""),
        r#""mix" in [[fault]]: needs two faults or more"#,
        "weight = 3",
    );
    refused(
        &fault("do = \"kill\"\nmix = «[{ do = \"kill\" }, { do = \"pause\" }]\nfirst = \"1m\""),
        r#""mix" in [[fault]]: stands beside "do""#,
        "one of the two",
    );
    refused(
        &fault("mix = [{ do = \"kill\" }, { do = \"pause\", weight = «0 }]\nfirst = \"1m\""),
        r#""weight" in mix.1 of [[fault]]: 0 is out of range"#,
        "1",
    );
    refused(
        &fault("mix = [{ do = \"kill\" }, { do = «\"kil\" }]\nfirst = \"1m\""),
        r#""do" in mix.1 of [[fault]]: unknown fault kind "kil""#,
        "did you mean \"kill\"?",
    );
}

#[test]
fn random_times_have_a_mean() {
    let all = rule("do = \"kill\"\nrandom = { mean = \"30s\", from = \"1m\", until = \"9m\" }\ntimes = 4");
    let (mean, from, until) = (S(30), S(60), Some(S(540)));
    assert_eq!(all.when, When::Random { mean, from, until, times: Some(4) });
    let least = rule("do = \"kill\"\nrandom = { mean = \"30s\" }");
    assert_eq!(least.when, When::Random { mean, from: S(0), until: None, times: None });
    refused(
        &fault("do = \"kill\"\nrandom = «{ from = \"1m\" }"),
        r#""mean" in random of [[fault]] is missing"#,
        "mean = \"5m\"",
    );
    refused(
        &fault("do = \"kill\"\nrandom = «{ mean = \"1m\", from = \"10m\" }"),
        r#""random" in [[fault]]: no time is left between 10m and 10m"#,
        "below \"duration\"",
    );
    refused(
        &fault("do = \"kill\"\nrandom = { mean = \"1m\" }\nevery = «\"1m\""),
        r#""every" in [[fault]]: goes with "first" or "when", not with "random""#,
        "leave it out",
    );
    refused(
        &fault("do = \"kill\"\nrandom = «{ mean = \"1ms\" }"),
        r#""random" in [[fault]]: the scenario comes to more than 10000 faults"#,
        "",
    );
}

#[test]
fn moments_trigger() {
    for cue in Cue::ALL {
        let rule =
            rule(&format!("do = \"kill\"\nwhen = \"{cue}\"\nafter = \"1m\"\nevery = \"2m\"\ntimes = 3"));
        assert_eq!(rule.when, When::Cued { cue, after: S(60), every: S(120), times: 3 });
        // Its moment would be over.
        assert_eq!(rule.wait, Duration::ZERO);
    }
    let least = rule("do = \"kill\"\nwhen = \"steady\"");
    assert_eq!(least.when, When::Cued { cue: Cue::Steady, after: S(0), every: S(0), times: 1 });
    refused(
        &fault("do = \"kill\"\nwhen = «\"elction\""),
        r#""when" in [[fault]]: unknown moment "elction""#,
        "did you mean \"election\"?",
    );
    refused(
        &fault("do = \"kill\"\nwhen = «{ election = \"over\" }"),
        r#""when" in [[fault]]: takes no parameters"#,
        "when = \"election\"",
    );
    refused(
        &fault("do = \"kill\"\nwhen = \"election\"\nfirst = «\"1m\""),
        r#""first" in [[fault]]: stands beside "when""#,
        "one of the two",
    );
    refused(
        &fault("do = \"kill\"\nwhen = \"election\"\nafter = «\"10m\""),
        r#""after" in [[fault]]: nothing would ever happen at 10m: the measured phase lasts 10m"#,
        "below",
    );
    refused(
        &fault("do = \"kill\"\nat = [\"1m\"]\nafter = «\"1m\""),
        r#""after" in [[fault]]: goes with "when", not with "at""#,
        "list every time",
    );
}

#[test]
fn the_majority_is_kept_unless_the_rule_says_otherwise() {
    assert_eq!(rule("do = \"kill\"\nat = [\"1m\"]").majority, Majority::Kept);
    let lost = rule(
        "do = { kill = { target = \"node1,node2\" } }\nat = [\"1m\"]\nmajority = \"may_be_lost\"\nwait = \"5s\"",
    );
    assert_eq!((lost.majority, lost.wait), (Majority::MayBeLost, S(5)));
    refused(
        &fault("do = { kill = { target = «\"node1,node2\" } }\nat = [\"1m\"]"),
        r#""target" in do.kill of [[fault]]: 2 of 3 members down at once leave no majority"#,
        "majority = \"may_be_lost\"",
    );
    refused(
        &fault("do = \"kill\"\nat = [\"1m\"]\nmajority = «\"lost\""),
        r#""majority" in [[fault]]: unknown word "lost""#,
        "may_be_lost",
    );
    // What only slows takes nobody away, and some kinds are meant to take the majority away.
    rule(
        "do = { set_parameter = { target = \"node1,node2\", name = \"ttlMonitorEnabled\", value = false } }\nat = [\"1m\"]",
    );
    rule("do = \"majority_loss\"\nat = [\"1m\"]");
    rule("do = { kill = { target = \"all\" } }\nat = [\"1m\"]");
}

#[test]
fn both_sides_of_a_partition_are_known() {
    rule("do = { partition = { from = \"node1,clients\", to = \"node2,node3\" } }\nfirst = \"1m\"");
    rule("do = { black_hole = { target = \"clients\" } }\nfirst = \"1m\"");
    refused(
        &fault("do = { partition = { to = «\"node9\" } }\nfirst = \"1m\""),
        r#""to" in do.partition of [[fault]]: unknown target "node9""#,
        "did you mean \"node1\"?",
    );
    refused(
        &fault("do = «{ partition = { from = \"node1\", to = \"node1\" } }\nfirst = \"1m\""),
        r#""do" in [[fault]]: to: is the same side as "from""#,
        "",
    );
    refused(
        &fault("do = «{ kill = { target = \"clients\" } }\nfirst = \"1m\""),
        r#""do" in [[fault]]: target: clients are hit by faults of the network only"#,
        "",
    );
}

#[test]
fn what_the_faults_need_is_started_with_the_cluster() {
    let cluster = |faults: &str| match good(&text("", faults)).cluster {
        Cluster::Managed(managed) => managed,
        Cluster::Attached(_) => panic!("not ours"),
    };
    assert!(!cluster("").proxies);
    let needs = cluster("[[fault]]\nmix = [{ do = \"kill\" }, { do = \"partition\" }]\nfirst = \"1m\"");
    assert!(needs.proxies && !needs.test_commands && !needs.clock_library);
}
