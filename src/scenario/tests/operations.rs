//! `op` and `read_concern` of a workload: what is accepted, what is refused.

use bson::doc;

use super::*;

const INSERT: Op = Op::Insert { batch: 1, ordered: true };

/// A scenario with an index on `int` and this operation.
fn op(op: &str) -> String {
    format!("duration = \"1m\"\n[dataset]\nindexes = [\"int\"]\n[[workload]]\nname = \"w\"\nop = {op}\n")
}

fn mix(text: &str) -> Vec<(Op, f64)> {
    good(&op(text)).workloads.remove(0).mix
}

fn find(limit: u32) -> Op {
    Op::Find { field: "int".into(), limit }
}

#[test]
fn forms_of_an_operation() {
    for (text, expected) in [
        ("{ insert = { batch = 5 } }", Op::Insert { batch: 5, ordered: true }),
        ("{ insert = { batch = 5, ordered = false } }", Op::Insert { batch: 5, ordered: false }),
        ("{ insert = {} }", INSERT),
        ("\"insert\"", INSERT),
        ("\"read\"", Op::Read),
        ("{ read = {} }", Op::Read),
        ("{ find = { field = \"int\" } }", find(10)),
        ("{ find = { field = \"int\", limit = 1 } }", find(1)),
        ("\"scan\"", Op::Scan { length: 100 }),
        ("{ scan = { length = 1e4 } }", Op::Scan { length: 10_000 }),
        ("{ update = {} }", Op::Update),
        ("\"replace\"", Op::Replace),
        ("\"read_modify_write\"", Op::ReadModifyWrite),
        ("\"delete\"", Op::Delete),
        ("\"aggregate\"", Op::Aggregate(Aggregation::Length(100))),
        ("{ aggregate = { length = 7 } }", Op::Aggregate(Aggregation::Length(7))),
    ] {
        assert_eq!(mix(text), [(expected, 1.0)], "{text}");
    }
}

#[test]
fn a_pipeline_is_extended_json() {
    let stages = r#"[{"$match": {"date": {"$lt": {"$date": "2010-01-01T00:00:00Z"}}}}, {"$count": "n"}]"#;
    let date = bson::DateTime::parse_rfc3339_str("2010-01-01T00:00:00Z").unwrap();
    let expected = vec![doc! { "$match": { "date": { "$lt": date } } }, doc! { "$count": "n" }];
    let read = mix(&format!("{{ aggregate = {{ pipeline = '{stages}' }} }}"));
    assert_eq!(read, [(Op::Aggregate(Aggregation::Pipeline(expected)), 1.0)]);
}

#[test]
fn a_mix_takes_every_kind_with_or_without_parameters() {
    assert_eq!(mix("{ mix = { update = 1, read = 0.5 } }"), [(Op::Read, 0.5), (Op::Update, 1.0)]);
    let all = "{ mix = { aggregate = 9, delete = 8, read_modify_write = 7, replace = 6, update = 5, \
               scan = { weight = 4, length = 20 }, find = { weight = 3, field = \"int\" }, read = 2, \
               insert = { weight = 1, batch = 10 } } }";
    let expected = [
        Op::Insert { batch: 10, ordered: true },
        Op::Read,
        find(10),
        Op::Scan { length: 20 },
        Op::Update,
        Op::Replace,
        Op::ReadModifyWrite,
        Op::Delete,
        Op::Aggregate(Aggregation::Length(100)),
    ];
    let weights = (1..=9).map(f64::from);
    assert_eq!(mix(all), expected.into_iter().zip(weights).collect::<Vec<_>>());
    let words = "insert 1, read 2, find 3, scan 4, update 5, replace 6, read_modify_write 7, delete 8, \
                 aggregate 9";
    assert_eq!(crate::report::mix_in_words(&mix(all)), words);
}

#[test]
fn names_and_shapes_of_operations() {
    refused(&op("{ read = { «batch = 1 } }"), r#"unknown key "batch" in op.read of [[workload]]"#, "");
    refused(
        &op("{ scan = { «lenght = 1 } }"),
        r#"unknown key "lenght" in op.scan of [[workload]]"#,
        "length",
    );
    refused(&op("«{ read = {}, update = {} }"), r#""op" in [[workload]]: names more than one operation"#, "");
    refused(&op("«{}"), r#""op" in [[workload]]: names no operation"#, "");
    refused(
        &op("«\"scann\""),
        r#""op" in [[workload]]: unknown operation "scann""#,
        "did you mean \"scan\"?",
    );
    refused(&op("«\"mix\""), r#""op" in [[workload]]: a mix needs its parts"#, "read = 95");
    refused(&op("«{ mix = {} }"), r#""op" in [[workload]]: a mix needs its parts"#, "read = 95");
    refused(
        &op("{ mix = { «raed = 1 } }"),
        r#"unknown operation "raed" in op.mix of [[workload]]"#,
        "did you mean \"read\"?",
    );
    refused(&op("{ mix = { «mix = 1 } }"), r#"unknown operation "mix" in op.mix of [[workload]]"#, "valid: ");
}

#[test]
fn parameters_of_operations() {
    for batch in ["0", "100_001"] {
        let message =
            format!(r#""batch" in op.insert of [[workload]]: {} is out of range"#, batch.replace('_', ""));
        refused(&op(&format!("{{ insert = {{ batch = «{batch} }} }}")), &message, "from 1 to 100000");
    }
    refused(
        &op("{ insert = { ordered = «\"yes\" } }"),
        r#""ordered" in op.insert of [[workload]]: must be true or false, not a text"#,
        "",
    );
    refused(
        &op("{ scan = { length = «0 } }"),
        r#""length" in op.scan of [[workload]]: 0 is out of range"#,
        "from 1 to 10000",
    );
    refused(&op("«\"find\""), r#""op" in [[workload]]: find needs its field"#, "field = \"int\"");
    refused(
        &op("{ find = «{ limit = 5 } }"),
        r#""field" in op.find of [[workload]] is missing"#,
        "field = \"int\"",
    );
    refused(
        &op("«{ find = { field = \"long\" } }"),
        r#""op" in [[workload]]: find asks for "long", which has no index"#,
        "indexes = [\"long\"]",
    );
    refused(
        &op("{ mix = { read = «0, update = 1 } }"),
        r#""read" in op.mix of [[workload]]: 0 is out of range"#,
        "above zero",
    );
    refused(
        &op("{ mix = { read = 1, scan = «{ length = 5 } } }"),
        r#""weight" in op.mix.scan of [[workload]] is missing"#,
        "weight = 5",
    );
    let both = bad(&op("{ mix = { read = 0, scan = { weight = 0, length = 0 } } }"));
    assert_eq!(both.len(), 3, "all problems at once: {both:#?}");
}

#[test]
fn pipelines() {
    let refuse = |stages: &str, why: &str, hint: &str| {
        let message = format!("\"pipeline\" in op.aggregate of [[workload]]: {why}");
        refused(&op(&format!("{{ aggregate = {{ pipeline = «'{stages}' }} }}")), &message, hint);
    };
    refuse("[]", "must be a list of stages", "in single quotes");
    refuse(r#"{"$count": "n"}"#, "must be a list of stages", "in single quotes");
    refuse(r#"[{"count": "n"}]"#, r#"{ "count": "n" } is no stage"#, "in single quotes");
    refuse(r#"[{"$match": {}}, {"$out": "x"}]"#, "$out is refused", "must not write");
    refuse(r#"[{"$merge": "x"}]"#, "$merge is refused", "must not write");
    refuse(r#"[{"$changeStream": {}}]"#, "$changeStream is refused", "must end");
    refuse("[{", "is no JSON: EOF while parsing an object at line 1 column 2", "in single quotes");
    refused(
        &op(r#"{ aggregate = { length = «5, pipeline = '[{"$count": "n"}]' } }"#),
        r#""length" in op.aggregate of [[workload]]: stands beside "pipeline""#,
        "one of the two",
    );
}

#[test]
fn read_concerns() {
    let workload = |keys: &str| text("", keys);
    for (word, expected) in [
        ("local", ReadConcern::Local),
        ("available", ReadConcern::Available),
        ("majority", ReadConcern::Majority),
        ("linearizable", ReadConcern::Linearizable),
    ] {
        let scenario = good(&workload(&format!("read_concern = \"{word}\"")));
        assert_eq!(scenario.workloads[0].read_concern, expected);
    }
    refused(
        &workload("read_concern = «\"snapshot\""),
        r#""read_concern" in [[workload]]: unknown read concern "snapshot""#,
        "local, available, majority, linearizable",
    );
    refused(
        &workload("read_concern = «\"linearizable\"\nread_preference = \"nearest\""),
        r#""read_concern" in [[workload]]: only the primary answers linearizable reads"#,
        "read_preference = \"primary\"",
    );
}

#[test]
fn the_wire_engine_takes_one_document_at_a_time() {
    good(&format!("{}engine = \"wire\"\n", op("{ mix = { insert = 1, replace = 1, delete = 1 } }")));
    for (many, kind) in
        [("\"scan\"", "scan"), ("\"aggregate\"", "aggregate"), ("{ mix = { read = 1, scan = 1 } }", "scan")]
    {
        refused(
            &format!("{}engine = «\"wire\"\n", op(many)),
            &format!(r#""engine" in [[workload]]: engine "wire" has no {kind}"#),
            "driver",
        );
    }
}
