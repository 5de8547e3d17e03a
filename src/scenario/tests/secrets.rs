//! A password in a connection string reaches neither a problem, nor `Debug`, nor the run directory.

use super::super::source::read_text;
use super::*;

const START: &str = "duration = \"1m\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n[cluster]\n";

#[test]
fn not_in_a_scenario() {
    let text = format!("{START}uri = \"mongodb://me:hunter2@h1,h2/?replicaSet=rs0\"\n");
    let scenario = good(&text);
    let Cluster::Attached(attached) = &scenario.cluster else { panic!("not attached") };
    assert!(attached.uri.reveal().contains("hunter2"));
    assert!(!format!("{scenario:?} {}", attached.uri).contains("hunter2"));
    assert!(!format!("{:?}", source(&text)).contains("hunter2"));
}

#[test]
fn not_in_a_problem() {
    for line in [
        "uri = \"mongodb://me:hun@ter2@h\"",
        "uri = \"mongodb://me:hunter2@h/?w=0\"",
        "uri = \"mongodb://me:hunter2@h/?socketTimeoutMS=1\"",
        "uri = \"mongodb://me:hunter2@h:port\"",
        "uri = \"me:hunter2@h\"",
        "uri = [\"mongodb://me:hunter2@h\"]",
        "url = \"mongodb://me:hunter2@h\"",
        "topology = \"mongodb://me:hunter2@h\"",
        "cache = \"mongodb://me:hunter2@h\"",
        "members = \"mongodb://me:hunter2@h\"",
        "uri = \"mongodb://me:hunter2@h\" x",
    ] {
        let problems = parse(&source(&format!("{START}{line}\n"))).unwrap_err();
        assert!(!format!("{problems} {problems:?}").contains("ter2"), "{problems}");
    }
}

#[test]
fn not_in_an_override() {
    for text in [
        "cluster.uri=mongodb://me:hun@ter2@h",
        "cluster={ uri = \"mongodb://me:hunter2@h/?w=0\" }",
        "cluster.uri=me:hunter2@h",
        "mongodb://me:hunter2@h",
        "mongodb://me:hunter2@h/?w=0",
        "name=mongodb://me:hunter2@h",
    ] {
        let problems = read_text(source(&format!("{START}members = 3\n")), &[text.into()]).unwrap_err();
        assert!(!format!("{problems} {problems:?}").contains("ter2"), "{problems}");
        assert!(problems.to_string().contains("[hidden]"), "{problems}");
    }
}

#[test]
fn not_in_the_public_text() {
    let text = format!(
        "# old: mongodb://me:hunter2@h0/x@y\n{START}uri = 'mongodb://me:hunter2@h1:1,h2/?a=hunter2' # mail: a@b\n\
         # uri = \"mongodb://me:hunter2@h3\"\n"
    );
    let public = Source { text, ..source("") }.public_text();
    assert!(!public.contains("hunter2"), "{public}");
    assert!(public.contains("uri = \"mongodb://h1:1,h2/\" # mail: a@b"), "{public}");
    assert!(matches!(good(&public).cluster, Cluster::Attached(_)));
}

#[test]
fn a_wrong_option_names_itself() {
    refused(
        &format!("{START}uri = «\"mongodb://me:hunter2@h/?w=0\"\n"),
        r#""uri" in [cluster]: w=0 is refused"#,
        "cannot be known",
    );
    refused(
        &format!("{START}uri = «\"mongodb://me:hun/ter2@h\"\n"),
        r#""uri" in [cluster]: the password holds a character that needs a code"#,
        "@ is %40",
    );
}
