//! Key choice: what is accepted, what is refused.

use super::*;

#[test]
fn every_distribution() {
    for (written, expected) in [
        ("\"uniform\"", Distribution::Uniform),
        ("\"zipfian\"", Distribution::Zipfian { exponent: 0.99, scrambled: true }),
        ("{ zipfian = 7 }", Distribution::Zipfian { exponent: 7.0, scrambled: true }),
        (
            "{ zipfian = { exponent = 1.0, scrambled = false } }",
            Distribution::Zipfian { exponent: 1.0, scrambled: false },
        ),
        ("\"latest\"", Distribution::Latest { exponent: 0.99 }),
        ("{ latest = 0.5 }", Distribution::Latest { exponent: 0.5 }),
        ("{ latest = { exponent = 2 } }", Distribution::Latest { exponent: 2.0 }),
        ("\"hotspot\"", Distribution::Hotspot { keys: 0.2, operations: 0.8, scrambled: true }),
        (
            "{ hotspot = { keys = 0.01, operations = 0.9, scrambled = false } }",
            Distribution::Hotspot { keys: 0.01, operations: 0.9, scrambled: false },
        ),
        ("\"exponential\"", Distribution::Exponential { percentile: 95.0, keys: 6.0 / 7.0 }),
        ("{ exponential = { keys = 0.5 } }", Distribution::Exponential { percentile: 95.0, keys: 0.5 }),
        ("\"sequential\"", Distribution::Sequential),
    ] {
        let scenario = good(&text("", &format!("distribution = {written}")));
        assert_eq!(scenario.workloads[0].distribution, expected, "{written}");
    }
}

#[test]
fn wrong_parameters_are_refused_at_their_place() {
    refused(
        &text("", "distribution = { sequential = «{} }"),
        r#""sequential" in distribution of [[workload]]: sequential has no parameters"#,
        "write \"sequential\"",
    );
    refused(
        &text("", "distribution = { zipfian = «\"hot\" }"),
        r#""zipfian" in distribution of [[workload]]: must be a number, not a text"#,
        "0.99",
    );
    refused(
        &text("", "distribution = { hotspot = «0.2 }"),
        r#""hotspot" in distribution of [[workload]]: must be a table, not the number 0.2"#,
        "",
    );
    refused(
        &text("", "distribution = «\"lates\""),
        r#""distribution" in [[workload]]: unknown distribution "lates""#,
        "did you mean \"latest\"?",
    );
    refused(
        &text("", "distribution = { zipfian = «0 }"),
        r#""zipfian" in distribution of [[workload]]: 0 is out of range"#,
        "0.99",
    );
    refused(
        &text("", "distribution = { hotspot = { keys = «1.5 } }"),
        r#""keys" in distribution.hotspot of [[workload]]: 1.5 is out of range"#,
        "share of the keys",
    );
    refused(
        &text("", "distribution = { exponential = { percentile = «100 } }"),
        r#""percentile" in distribution.exponential of [[workload]]: 100 is out of range"#,
        "below 100",
    );
    refused(
        &text("", "distribution = { latest = { «scrambled = true } }"),
        r#"unknown key "scrambled" in distribution.latest of [[workload]]"#,
        "valid: exponent",
    );
}
