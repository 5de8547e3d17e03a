//! Each refusal: its place, its words, and what it tells the user to do.

use super::*;

#[test]
fn five_at_once() {
    let text = "duration = \"10x\"\n\n[dataset]\ndocuments = 1.5\n\n[[workload]]\nname = \"w\"\nop = \"raed\"\n\
                wrokers = 4\n\n[[fault]]\ndo = { kill = {} }\nfirst = \"5m\"\nevry = \"5m\"\n";
    let problems = parse(&source(text)).unwrap_err();
    assert_eq!(
        problems.to_string().lines().collect::<Vec<_>>(),
        [
            r#"scenarios/x.toml:1:12: "duration": "10x" is not a duration (unknown time unit "x"); write for example "90s", "10m" or "2h 30m""#,
            r#"scenarios/x.toml:4:13: "documents" in [dataset]: "1.5" is not a count (not whole); write a whole number: 1_000_000, "1e6" or "100M""#,
            r#"scenarios/x.toml:8:6: "op" in [[workload]]: unknown operation "raed"; did you mean "read"? (valid: insert, read, find, scan, update, replace, read_modify_write, delete, aggregate, mix)"#,
            r#"scenarios/x.toml:9:1: unknown key "wrokers" in [[workload]]; did you mean "workers"? (valid: name, workers, rate, after_outage, op, operations, write_concern, read_concern, distribution, read_preference, deadline, engine)"#,
            r#"scenarios/x.toml:14:1: unknown key "evry" in [[fault]]; did you mean "every"? (valid: do, mix, first, at, every, times, random, when, after, wait, majority)"#,
        ]
    );
    assert_eq!(problems.list()[4].key, "fault.0.evry");
}

#[test]
fn no_toml() {
    let problems = bad("duration = \"10m\"\nname = \n");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!((problems[0].line(), problems[0].column()), (Some(2), Some(8)));
    assert!(problems[0].message.starts_with("not valid TOML: "), "{problems:?}");
    let problems = bad("name = \"a\"\nname = \"b\"\n");
    assert_eq!(
        (problems[0].line(), problems[0].message.as_str()),
        (Some(2), "not valid TOML: duplicate key")
    );
}

#[test]
fn unreadable_file() {
    let problems = read(std::path::Path::new("does/not/exist.toml"), &[]).unwrap_err();
    assert!(problems.to_string().starts_with("does/not/exist.toml: cannot read the scenario: No such file"));
}

#[test]
fn missing_keys() {
    let said = |text: &str| bad(text).iter().map(Problem::to_string).collect::<Vec<_>>();
    assert_eq!(
        said(""),
        [
            r#"scenarios/x.toml: "duration" is missing; write for example duration = "10m""#,
            r#"scenarios/x.toml: "workload": there is none; add at least one [[workload]]"#,
        ]
    );
    // One mistake, one problem: the misspelt key is not missing too.
    assert_eq!(said("duraton = \"1m\"\n[[workloads]]\nname = \"w\"\nop = \"read\"\n").len(), 2);
    refused(
        "duration = \"1m\"\n«[[workload]]\nop = \"read\"\n",
        r#""name" in [[workload]] is missing"#,
        "own name",
    );
    refused(
        "duration = \"1m\"\n«[[workload]]\nname = \"w\"\n",
        r#""op" in [[workload]] is missing"#,
        "op = \"read\"",
    );
    refused(&text("", "«[[fault]]\nfirst = \"1m\"\n"), r#""do" in [[fault]] is missing"#, "kill");
    refused(&text("", "«[[fault]]\ndo = \"kill\"\n"), r#""first" in [[fault]] is missing"#, "at = [");
}

#[test]
fn names() {
    refused(&text("name = «\"a/b\"", ""), r#""name": "a/b" is no plain name"#, "at most 64 letters");
    refused(&text("name = «\"..\"", ""), r#""name": ".." is no plain name"#, "at most 64 letters");
    refused(&text("name = «\"\"", ""), r#""name": must not be empty"#, "");
    refused(&text("name = «2024", ""), r#""name": must be a text in quotes, not the number 2024"#, "");
    let mut source = source(&text("", ""));
    source.path = "my scenario.toml".into();
    let problems = parse(&source).unwrap_err();
    assert!(problems.to_string().contains("is no plain name; set name = "), "{problems}");
    refused(
        &text("", "[[workload]]\nname = «\"w\"\nop = \"update\""),
        r#""name" in [[workload]]: "w" is the name of another workload"#,
        "own name",
    );
}

#[test]
fn numbers() {
    refused(&text("seed = «-1", ""), r#""seed": "-1" is not a count (negative)"#, "whole number");
    refused(&text("seed = «1e30", ""), r#""seed": "1e30" is not a count (too large)"#, "whole number");
    refused(
        &text("warmup = «90", ""),
        r#""warmup": must be a duration with its unit, not the number 90"#,
        "90s",
    );
    refused(&text("", "workers = «0"), r#""workers" in [[workload]]: 0 is out of range"#, "from 1 to");
    refused(
        &text("", "workers = «5_000_000_000"),
        r#""workers" in [[workload]]: 5000000000 is out of range"#,
        "",
    );
    refused(
        &text("", "rate = «500"),
        r#""rate" in [[workload]]: must be a rate with its time, not the number 500"#,
        "500/s",
    );
    refused(
        &text("", "rate = «\"0/s\""),
        r#""rate" in [[workload]]: "0/s" is not a rate (no operation would ever start)"#,
        "500/s",
    );
    refused(
        &text("", "rate = «\"-1/s\""),
        r#""rate" in [[workload]]: "-1/s" is not a rate (negative)"#,
        "500/s",
    );
    refused(
        &text("", "deadline = «\"0s\""),
        r#""deadline" in [[workload]]: must be longer than zero"#,
        "90s",
    );
    refused(
        "duration = «\"0s\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n",
        r#""duration": must be longer than zero"#,
        "90s",
    );
    refused(
        &text("", "[measures]\nsustained_throughput = «1.5"),
        r#""sustained_throughput" in [measures]: 1.5 is out of range"#,
        "up to 1",
    );
    refused(
        &text("", "[measures]\nsustained_p99_factor = «0.5"),
        r#""sustained_p99_factor" in [measures]: 0.5 is out of range"#,
        "1 or more",
    );
    refused(
        &text("", "[limits]\nerror_share = { w = «nan }"),
        r#""w" in [limits.error_share]: NaN is out of range"#,
        "0 to 1",
    );
}

#[test]
fn kinds_of_values() {
    refused(&text("cluster = «3", ""), r#""cluster": must be a table, not the number 3"#, "");
    refused(&text("fault = «\"kill\"", ""), r#""fault": must be a list, not a text"#, "");
    refused(
        &text("", "[dataset]\nindexes = [\"int\", «5]"),
        r#""indexes" in [dataset]: must be a text in quotes, not the number 5"#,
        "",
    );
}

#[test]
fn what_rests_on_a_refused_value_is_not_judged() {
    // The fault may well be inside of the duration that was meant.
    refused(
        "duration = «\"1o0m\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n[[fault]]\ndo = \"kill\"\nfirst = \"20m\"\n",
        r#""duration": "1o0m" is not a duration (unknown time unit "o")"#,
        "90s",
    );
}
