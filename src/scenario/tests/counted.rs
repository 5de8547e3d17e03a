//! `operations`, and what it does not go with.

use super::*;

const FAULT: &str = "[[fault]]\ndo = \"kill\"\nfirst = \"10s\"\n";

fn two(first: &str, second: &str) -> String {
    text("", &format!("{first}\n[[workload]]\nname = \"v\"\nop = \"read\"\n{second}"))
}

#[test]
fn one_workload_or_all_of_them_may_have_a_number_of_operations() {
    assert_eq!(good(&text("", "operations = 2000")).workloads[0].operations, Some(2000));
    good(&two("operations = 5", "operations = 6"));
    good(&two("", ""));
    good(&text("", "operations = 5\n[limits]\np99 = { w = \"1s\" }\nerror_share = { w = 0.1 }"));
}

#[test]
fn a_workload_must_not_go_on_when_another_is_done() {
    let message =
        r#""operations" in [[workload]]: "v" has no such number, and would go on when this one is done"#;
    refused(&two("operations = «5", ""), message, "every workload one, or none");
    refused(&two("", "operations = «5"), &message.replace("\"v\"", "\"w\""), "every workload");
}

#[test]
fn the_workload_that_is_stepped_has_no_end_of_its_own() {
    let stepped = |rest: &str, table: &str| {
        format!("[[workload]]\nname = \"w\"\nop = \"read\"\n{rest}\n[{table}]\nworkload = \"w\"\n")
    };
    refused(
        &(stepped("operations = «5", "sweep") + "workers = [1, 2]\n"),
        r#""operations" in [[workload]]: [sweep] steps this workload, which could be done before the last step"#,
        "leave it out",
    );
    refused(
        &(stepped("operations = «5", "find_max") + "p99 = \"10ms\"\n"),
        r#""operations" in [[workload]]: [find_max] steps this workload, which could be done before the last step"#,
        "leave it out",
    );
}

#[test]
fn nothing_that_is_judged_by_silence_goes_with_a_number_of_operations() {
    refused(
        &text("", &format!("operations = «5\n{FAULT}")),
        r#""operations" in [[workload]]: with faults, a workload that is done would look like one that does not recover"#,
        "\"duration\"",
    );
    for limit in ["hard_outage", "longest_gap", "sustained_recovery"] {
        refused(
            &text("", &format!("operations = «5\n[limits]\n{limit} = \"5s\"")),
            &format!(
                "\"operations\" in [[workload]]: with the limit {limit}, a workload that is done would look like an outage"
            ),
            "leave it out",
        );
        good(&text("", &format!("[limits]\n{limit} = \"5s\"")));
    }
}
