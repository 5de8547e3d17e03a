//! Refusals table by table: cluster, dataset, workloads, faults, limits.

use super::*;

#[test]
fn clusters() {
    let cluster = |keys: &str| text("", &format!("[cluster]\n{keys}"));
    refused(
        &cluster("topology = «\"replicaset\""),
        r#""topology" in [cluster]: unknown topology "replicaset""#,
        "did you mean \"replica-set\"?",
    );
    refused(&cluster("members = «8"), r#""members" in [cluster]: 8 is out of range"#, "from 1 to 7");
    refused(&cluster("members = «0"), r#""members" in [cluster]: 0 is out of range"#, "from 1 to 7");
    refused(
        &cluster("topology = \"standalone\"\nmembers = «3"),
        r#""members" in [cluster]: a standalone has one member, not 3"#,
        "replica-set",
    );
    refused(
        &cluster("oplog = «\"512MiB\""),
        r#""oplog" in [cluster]: an oplog below 990MiB is too small"#,
        "990MiB",
    );
    refused(
        &cluster("cache = «\"128MiB\""),
        r#""cache" in [cluster]: mongod takes no cache below 256MiB"#,
        "256MiB",
    );
    refused(&cluster("cache = «\"512\""), r#""cache" in [cluster]: "512" is not a size (no unit)"#, "512MiB");
    refused(
        &cluster("election_timeout = «\"0s\""),
        r#""election_timeout" in [cluster]: must be longer than zero"#,
        "",
    );
    refused(
        &cluster("parameters = { a = «[1] }"),
        r#""a" in [cluster.parameters]: must be a text, a number or true or false, not a list"#,
        "",
    );
    refused(
        &cluster("uri = \"mongodb://h\"\nmembers = «3"),
        r#""members" in [cluster]: is for a cluster that we start, but "uri" names one that runs already"#,
        "one of the two",
    );
}

#[test]
fn what_our_own_client_cannot_do() {
    refused(
        &text("", "engine = «\"wire\"\n[cluster]\nuri = \"mongodb://me:pw@h\""),
        r#""engine" in [[workload]]: engine "wire" has no authentication yet"#,
        "write engine = \"driver\"",
    );
    good(&text("", "engine = \"wire\"\n[cluster]\nuri = \"mongodb://h/?replicaSet=rs0\""));
    good(&text("", "engine = \"driver\"\n[cluster]\nuri = \"mongodb://me:pw@h\""));
}

#[test]
fn what_is_spread_needs_shards() {
    let sharded = |keys: &str| text("", &format!("[cluster]\ntopology = \"sharded\"\n{keys}"));
    good(&sharded("shards = 3\nmembers = 1\n[dataset]\nshard_key = \"ranged\""));
    refused(
        &text("", "[cluster]\nshards = «2"),
        r#""shards" in [cluster]: only a sharded cluster has shards"#,
        "topology = \"sharded\"",
    );
    refused(
        &text("", "[dataset]\nshard_key = «\"hashed\""),
        r#""shard_key" in [dataset]: only a sharded cluster spreads a collection"#,
        "topology = \"sharded\"",
    );
    refused(
        &sharded("members = «7"),
        r#""members" in [cluster]: a shard has at most 5 members here, not 7"#,
        "write fewer",
    );
    refused(&sharded("shards = «5"), r#""shards" in [cluster]: 5 is out of range"#, "4");
    let fault = |target: &str| format!("[[fault]]\ndo = {{ kill = {{ target = {target} }} }}\nat = [\"1s\"]");
    for target in ["config.primary", "shard1.secondary", "mongos", "router", "shard0-2", "config-3"] {
        good(&sharded(&fault(&format!("\"{target}\""))));
    }
    refused(
        &sharded(&fault("«\"shard2.primary\"")),
        r#""target" in do.kill of [[fault]]: unknown replica set "shard2""#,
        "shard0",
    );
    refused(
        &text("", &fault("«\"mongos\"")),
        r#""target" in do.kill of [[fault]]: only a sharded cluster has a mongos"#,
        "topology",
    );
    let chunks = "[[fault]]\ndo = «{ move_chunks = {} }\nat = [\"1s\"]";
    refused(
        &text("", chunks),
        r#""do" in [[fault]]: move_chunks needs a sharded cluster"#,
        "topology = \"sharded\"",
    );
}

#[test]
fn not_yet() {
    let cluster = |keys: &str| text("", &format!("[cluster]\n{keys}"));
    refused(
        &cluster("hooks = «{}"),
        r#""hooks" in [cluster]: are for a deployment of somebody else, and this one is started by us"#,
        "leave them out",
    );
    refused(&cluster("auth = «true"), r#""auth" in [cluster]: true is not in this version yet"#, "false");
    refused(&cluster("tls = «true"), r#""tls" in [cluster]: true is not in this version yet"#, "false");
    refused(
        &text("", "engine = «\"wires\""),
        r#""engine" in [[workload]]: unknown engine "wires""#,
        "did you mean \"wire\"? (valid: driver, wire)",
    );
}

#[test]
fn faults_not_yet() {
    let fault = |keys: &str| text("", &format!("[[fault]]\n{keys}"));
    refused(
        &fault("do = «{ jumbo = { } }\nfirst = \"1m\""),
        r#""do" in [[fault]]: fault kind "jumbo" is not in this version yet"#,
        "kill, stop",
    );
    refused(
        &fault("do = { kill = { target = «\"donor\" } }\nfirst = \"1m\""),
        r#""target" in do.kill of [[fault]]: target "donor" is not in this version yet"#,
        "primary",
    );
    refused(
        &fault("do = \"kill\"\nwhen = «{ migration = \"clone\" }"),
        r#""when" in [[fault]]: moment "migration" is not in this version yet"#,
        "election, checkpoint",
    );
}

#[test]
fn datasets() {
    let dataset = |keys: &str| text("", &format!("[dataset]\n{keys}"));
    refused(
        &dataset("shape = «\"rows\""),
        r#""shape" in [dataset]: unknown shape "rows""#,
        "did you mean \"row\"?",
    );
    refused(
        &dataset("database = «\"admin\""),
        r#""database" in [dataset]: "admin" belongs to the server itself"#,
        "another name",
    );
    refused(&dataset("database = «\"a.b\""), r#""database" in [dataset]: "a.b" is no database name"#, "63");
    refused(
        &dataset("collection = «\"system.users\""),
        r#""collection" in [dataset]: "system.users" is no collection name"#,
        "system.",
    );
    refused(
        &dataset("indexes = [«\"field0\"]"),
        r#""indexes" in [dataset]: unknown field "field0" of the shape"#,
        "long, int, date",
    );
    refused(
        &dataset("shape = \"ycsb\"\nindexes = [«\"field10\"]"),
        r#""indexes" in [dataset]: unknown field "field10" of the shape"#,
        "field9",
    );
    refused(
        &dataset("indexes = [\"int\", «\"int\"]"),
        r#""indexes" in [dataset]: "int" stands here twice"#,
        "once",
    );
}

#[test]
fn workloads() {
    refused(
        &text("", "write_concern = «0"),
        r#""write_concern" in [[workload]]: 0 is refused"#,
        "cannot be known",
    );
    refused(
        &text("", "write_concern = «\"0\""),
        r#""write_concern" in [[workload]]: 0 is refused"#,
        "cannot be known",
    );
    refused(
        &text("", "write_concern = «4"),
        r#""write_concern" in [[workload]]: 4 members cannot acknowledge a write where there are 3"#,
        "majority",
    );
    refused(
        &text("", "write_concern = «\"tagged\""),
        r#""write_concern" in [[workload]]: other names than "majority" are not in this version yet"#,
        "a number of members",
    );
    refused(
        &text("", "read_preference = «\"primry\""),
        r#""read_preference" in [[workload]]: unknown read preference "primry""#,
        "did you mean \"primary\"?",
    );
    refused(
        &text("", "read_preference = «\"secondary\"\n[cluster]\nmembers = 1"),
        r#""read_preference" in [[workload]]: there is no secondary in a cluster of one member"#,
        "primary",
    );
}

#[test]
fn nothing_to_read() {
    let start = "duration = \"1m\"\ndataset = { documents = 0 }\n[[workload]]\nname = \"w\"\nop = ";
    refused(
        &format!("{start}«\"update\"\n"),
        r#""op" in [[workload]]: there is no document to update"#,
        "raise documents",
    );
    refused(
        &format!("{start}«{{ mix = {{ read = 1, update = 1 }} }}\n"),
        r#""op" in [[workload]]: there is no document to read"#,
        "a workload that inserts",
    );
    good(&format!("{start}\"read\"\n[[workload]]\nname = \"v\"\nop = \"insert\"\n"));
    good(&format!("{start}{{ mix = {{ read = 1, insert = 1 }} }}\n"));
}

#[test]
fn faults() {
    let fault = |keys: &str| text("", &format!("[[fault]]\ndo = \"kill\"\n{keys}"));
    refused(
        &fault("first = «\"10m\""),
        r#""first" in [[fault]]: nothing would ever happen at 10m: the measured phase lasts 10m"#,
        "below \"duration\"",
    );
    refused(
        &fault("first = «\"0s\""),
        r#""first" in [[fault]]: nothing would ever happen at 0s: the measured phase lasts 10m"#,
        "above 0s",
    );
    refused(
        &fault("at = «[\"1m\", \"11m\", \"12m\"]"),
        r#""at" in [[fault]]: nothing would ever happen at 11m, 12m: the measured phase lasts 10m"#,
        "below",
    );
    refused(&fault("at = [\"1m\", «\"60s\"]"), r#""at" in [[fault]]: stands here twice"#, "once");
    refused(&fault("at = «[]"), r#""at" in [[fault]]: names no time"#, "at = [");
    refused(
        &fault("first = \"1m\"\nevery = «\"0s\""),
        r#""every" in [[fault]]: must be longer than zero"#,
        "90s",
    );
    refused(
        &fault("first = \"1m\"\nat = «[\"2m\"]"),
        r#""at" in [[fault]]: stands beside "first""#,
        "one of the two",
    );
    refused(
        &fault("at = [\"2m\"]\nevery = «\"1m\""),
        r#""every" in [[fault]]: goes with "first" or "when", not with "at""#,
        "list every time",
    );
    refused(&fault("first = \"1m\"\ntimes = «2"), r#""times" in [[fault]]: needs "every""#, "every = \"5m\"");
    refused(
        &fault("first = \"1m\"\nevery = \"1m\"\ntimes = «0"),
        r#""times" in [[fault]]: 0 is out of range"#,
        "from 1",
    );
    refused(
        &fault("first = \"1m\"\nevery = «\"1ms\""),
        r#""every" in [[fault]]: the scenario comes to more than 10000 faults"#,
        "longer",
    );
    refused(
        &fault("first = \"1m\"\nevery = \"1m\"\n[limits]\nmin_effective_faults = «10"),
        r#""min_effective_faults" in [limits]: 10 can never be reached, 9 are planned"#,
        "plan more",
    );
}

#[test]
fn actions() {
    let fault = |action: &str| text("", &format!("[[fault]]\nfirst = \"1m\"\ndo = {action}"));
    refused(
        &fault("«{ kil = {} }"),
        r#""do" in [[fault]]: unknown fault kind "kil""#,
        "did you mean \"kill\"?",
    );
    refused(&fault("«{ kill = {}, stop = {} }"), r#""do" in [[fault]]: names more than one fault kind"#, "");
    refused(
        &fault("{ kill = { «restart = \"1s\" } }"),
        r#"unknown key "restart" in do.kill of [[fault]]"#,
        "valid: target, restart_after",
    );
    refused(
        &fault("{ kill = { restart_after = «10 } }"),
        r#""restart_after" in do.kill of [[fault]]: must be a duration with its unit, not the number 10"#,
        "10m",
    );
    refused(
        &fault("{ kill = { target = «\"node4\" } }"),
        r#""target" in do.kill of [[fault]]: unknown target "node4""#,
        "did you mean \"node1\"?",
    );
    refused(
        &fault("{ stop = { target = «\"secondary\" } }\n[cluster]\nmembers = 1"),
        r#""target" in do.stop of [[fault]]: there is no secondary in a cluster of one member"#,
        "raise members",
    );
    refused(
        &fault("«{ wipe = {} }\n[cluster]\nuri = \"mongodb://h\""),
        r#""do" in [[fault]]: wipe needs a managed cluster, and this one is not ours"#,
        "uri",
    );
}

#[test]
fn limits() {
    let limits = |keys: &str| text("", &format!("[limits]\n{keys}"));
    refused(
        &limits("p99 = { readers = «\"50ms\" }"),
        r#""readers" in [limits.p99]: unknown workload "readers""#,
        "valid: w",
    );
    refused(
        &limits("error_share = { W = «0.1 }"),
        r#""W" in [limits.error_share]: unknown workload "W""#,
        "did you mean \"w\"?",
    );
    refused(
        &limits("lost_majority_writes = «\"none\""),
        r#""lost_majority_writes" in [limits]: "none" is not a count (not a number)"#,
        "whole",
    );
}
