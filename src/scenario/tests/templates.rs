//! Documents of one's own: what is accepted, what is refused, and where.

use std::fs;

use super::content::{Constant, Content, Field};
use super::*;

const SCENARIO: &str =
    "duration = \"1m\"\n[dataset]\nshape = \"my.toml\"\n[[workload]]\nname = \"w\"\nop = \"read\"\n";

/// Reads a scenario beside a template.
fn read_beside(template: &str, scenario: &str) -> Result<(Scenario, Source), Problems> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), template).unwrap();
    fs::write(dir.path().join("x.toml"), scenario).unwrap();
    read(&dir.path().join("x.toml"), &[])
}

fn fields(template: &str) -> Vec<Field> {
    let (scenario, _) =
        read_beside(template, SCENARIO).unwrap_or_else(|problems| panic!("{problems}\n{template}"));
    scenario.dataset.shape.fields()
}

/// What a single field comes to.
fn one(content: &str) -> Content {
    let mut fields = fields(&format!("x = {content}"));
    fields.remove(0).content
}

fn problems(template: &str) -> Vec<String> {
    let problems = read_beside(template, SCENARIO).expect_err(template);
    let place = |problem: &Problem| match &problem.place {
        Place::At { path, line, column } => {
            format!("{}:{line}:{column}", path.file_name().unwrap_or_default().display())
        }
        Place::File(path) => path.file_name().unwrap_or_default().display().to_string(),
        Place::Set(text) | Place::Parameter(text) => text.clone(),
    };
    problems.list().iter().map(|p| format!("{}: {}", place(p), p.message)).collect()
}

#[test]
fn every_placeholder_is_read() {
    let text = |min, max, repeat| Content::Text { min, max, repeat };
    for (written, expected) in [
        ("\"a text\"", Content::Constant(Constant::Text("a text".into()))),
        ("5", Content::Constant(Constant::Int32(5))),
        ("-3_000_000_000", Content::Constant(Constant::Int64(-3_000_000_000))),
        ("0x10", Content::Constant(Constant::Int32(16))),
        ("1.5", Content::Constant(Constant::Double(1.5))),
        ("true", Content::Constant(Constant::Bool(true))),
        ("1970-01-02", Content::Constant(Constant::Date(86_400_000))),
        ("1970-01-01T01:00:00.5+01:00", Content::Constant(Constant::Date(500))),
        ("1970-01-01 00:00:01", Content::Constant(Constant::Date(1_000))),
        ("{ sequence = {} }", Content::Sequence { start: 0, step: 1 }),
        ("{ sequence = { start = -5, step = 10 } }", Content::Sequence { start: -5, step: 10 }),
        ("{ int = {} }", Content::Int32 { min: i32::MIN, max: i32::MAX }),
        ("{ int = { min = 1, max = \"1M\" } }", Content::Int32 { min: 1, max: 1_000_000 }),
        ("{ int = { min = 0, max = 2147483648 } }", Content::Int64 { min: 0, max: 2_147_483_648 }),
        ("{ long = { max = 9 } }", Content::Int64 { min: i64::MIN, max: 9 }),
        ("{ double = {} }", Content::Double { min: 0.0, max: 1.0 }),
        ("{ double = { min = -1, max = 2.5 } }", Content::Double { min: -1.0, max: 2.5 }),
        ("{ date = {} }", Content::Date { from_ms: 946_684_800_000, to_ms: 1_893_456_000_000 }),
        (
            "{ date = { from = 1970-01-01, to = 1970-01-02 } }",
            Content::Date { from_ms: 0, to_ms: 86_400_000 },
        ),
        ("{ string = 20 }", text(20, 20, None)),
        ("{ string = { length = 20, repeat = 4 } }", text(20, 20, Some(4))),
        ("{ string = { min = 2, max = 20 } }", text(2, 20, None)),
        ("{ string = { max = 20, repeat = 20 } }", text(0, 20, None)),
        ("{ bool = {} }", Content::Bool),
        ("{ object_id = {} }", Content::ObjectId),
        (
            "{ pick = [\"a\", 1, true] }",
            Content::Pick(vec![Constant::Text("a".into()), Constant::Int32(1), Constant::Bool(true)]),
        ),
        ("{}", Content::Document(Vec::new())),
        ("[{ bool = {} }, 1]", Content::List(vec![Content::Bool, Content::Constant(Constant::Int32(1))])),
        (
            "{ array = { of = { bool = {} }, length = 3 } }",
            Content::Array { of: Box::new(Content::Bool), min: 3, max: 3 },
        ),
        (
            "{ array = { of = { bool = {} }, length = { min = 1, max = 3 } } }",
            Content::Array { of: Box::new(Content::Bool), min: 1, max: 3 },
        ),
        (
            "{ document = { date = { bool = {} } } }",
            Content::Document(vec![Field { name: "date".into(), content: Content::Bool }]),
        ),
    ] {
        assert_eq!(one(written), expected, "{written}");
    }
}

#[test]
fn fields_keep_the_order_of_the_file() {
    let fields = fields(
        "zebra = { bool = {} }\nant = 1\nmoth.wing = 2\n[cat]\nwhisker = 1\nclaw = { int = {} }\n[cat.tail]\nb = 1\na = 2\n",
    );
    let names: Vec<_> = content::paths(&fields);
    assert_eq!(
        names,
        [
            "zebra",
            "ant",
            "moth",
            "moth.wing",
            "cat",
            "cat.whisker",
            "cat.claw",
            "cat.tail",
            "cat.tail.b",
            "cat.tail.a"
        ]
    );
}

#[test]
fn every_problem_of_a_template_is_listed_with_its_place_in_it() {
    let template = "_id = 1\n\
        age = { int = { min = 5, max = 4 } }\n\
        city = { strng = 12 }\n\
        \"a.b\" = 1\n\
        when = { date = { from = \"2024-01-01\" } }\n\
        list = { array = { of = { string = { length = 3, max = 4 } } } }\n\
        one = { pick = [] }\n\
        deep = { x = { y = [1, { bool = 1 }] } }\n\
        at = 12:00:00\n\
        flag = { bool = { chance = 1 } }\n\
        [inner]\n\
        \"$set\" = 1\n\
        _id = 1\n";
    assert_eq!(
        problems(template),
        [
            "my.toml:1:1: \"_id\" is set by mongosoak: the key of the document",
            "my.toml:2:15: \"int\" in [age]: \"min\" is above \"max\"",
            "my.toml:3:10: unknown placeholder \"strng\"",
            "my.toml:4:1: \"a.b\" is no name for a field",
            "my.toml:5:26: \"from\" in [when.date]: must be a date, not a text",
            "my.toml:6:18: \"length\" in [list.array] is missing",
            "my.toml:6:36: \"string\" in [list.array.of]: the length is not clear",
            "my.toml:7:16: \"pick\" in [one]: 0 choices",
            "my.toml:8:33: \"bool\" in [deep.x.y.1]: must be a table, not the number 1",
            "my.toml:9:6: \"at\": is a time without a date",
            "my.toml:10:19: unknown key \"chance\" in [flag.bool]",
            "my.toml:12:1: \"$set\" is no name for a field",
        ]
    );
}

#[test]
fn a_document_that_no_server_takes_and_an_empty_one_are_refused() {
    assert_eq!(problems("# nothing\n"), ["my.toml: there is no field"]);
    let large = "x = { array = { of = { string = { max = \"1M\" } }, length = { min = 1, max = 20 } } }";
    assert_eq!(
        problems(large),
        ["my.toml: a document may come to 20000203 bytes, and a server takes 16 MiB at most"]
    );
    assert_eq!(problems("x = [1\n").len(), 1, "not TOML");
}

#[test]
fn a_template_that_cannot_be_read_is_refused_in_the_scenario() {
    refused(
        &text("", "[dataset]\nshape = «\"my/shape.toml\""),
        "\"shape\" in [dataset]: cannot read the template scenarios/my/shape.toml: No such file or directory (os \
         error 2)",
        "from the folder of the scenario on",
    );
}

#[test]
fn indexes_are_checked_against_the_paths_of_the_template() {
    let template = "a = 1\nlist = { array = { of = { sku = { int = {} }, n = 1 }, length = 2 } }\n[inner]\nb = { bool = {} }\n";
    let with = |indexes: &str| SCENARIO.replace("my.toml\"", &format!("my.toml\"\nindexes = {indexes}"));
    let (scenario, _) = read_beside(template, &with("[\"inner.b\", \"list.sku\", \"a\"]")).unwrap();
    assert_eq!(scenario.dataset.indexes, ["inner.b", "list.sku", "a"]);
    let problems = read_beside(template, &with("[\"inner.c\"]")).unwrap_err();
    let [problem] = problems.list() else { panic!("{problems}") };
    assert_eq!((problem.line(), problem.column()), (Some(4), Some(12)));
    assert_eq!(problem.message, "\"indexes\" in [dataset]: unknown field \"inner.c\" of the shape");
    assert!(problem.hint.as_ref().unwrap().contains("did you mean \"inner.b\"?"), "{problem}");
    // With an unreadable template nothing can be said about the indexes.
    let problems = read_beside("x = {", &with("[\"inner.c\"]")).unwrap_err();
    assert_eq!(problems.list().len(), 1, "{problems}");
}

#[test]
fn built_in_shapes_have_parameters() {
    let shape = |written: &str| good(&text("", &format!("[dataset]\nshape = {written}"))).dataset.shape;
    assert_eq!(shape("\"row\""), Shape::Row);
    assert_eq!(shape("{ row = { text = \"random\" } }"), Shape::Row);
    assert_eq!(shape("{ row = { text = \"repetitive\" } }"), Shape::RowRepetitive);
    assert_eq!(shape("{ ycsb = {} }"), Shape::Ycsb);
    assert_eq!(
        shape("{ ycsb = { fields = 2, length = 1000 } }"),
        Shape::YcsbFields { fields: 2, length: 1_000 }
    );
    refused(
        &text("", "[dataset]\nshape = { ycsb = «{ fields = 10000, length = 2000 } }"),
        "\"ycsb\" in [dataset.shape]: a document would be larger than the 16 MiB that a server takes",
        "fewer fields",
    );
    refused(
        &text("", "[dataset]\nshape = { row = { text = «\"dull\" } }"),
        "\"text\" in [dataset.shape.row]: unknown text \"dull\"",
        "random, repetitive",
    );
    refused(
        &text("", "[dataset]\nshape = «\"rows\""),
        "\"shape\" in [dataset]: unknown shape \"rows\"",
        "or a file as \"orders.toml\"",
    );
}

#[test]
fn a_run_directory_gets_a_copy_that_reads_as_the_same_documents() {
    let template = "a = { int = {} } # mine\n";
    let scenario = SCENARIO.replace("my.toml", "./my.toml");
    let (scenario, read_from) = read_beside(template, &scenario).unwrap();
    let Shape::Template(read_template) = &scenario.dataset.shape else { panic!("no template") };
    assert_eq!((read_template.file.as_str(), read_template.text.as_str()), ("./my.toml", template));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("scenario.toml"), read_from.public_text()).unwrap();
    fs::write(dir.path().join(TEMPLATE_COPY), &read_template.text).unwrap();
    let (again, _) = read(&dir.path().join("scenario.toml"), &[]).unwrap();
    assert_eq!(again.dataset.shape.fields(), scenario.dataset.shape.fields());
    // A built-in shape stays, and so does what it stands beside.
    let plain = source("[dataset]\nshape = \"row\" # mine\n[cluster]\nuri = \"mongodb://u:p@h\"\n");
    assert_eq!(plain.public_text(), "[dataset]\nshape = \"row\" # mine\n[cluster]\nuri = \"mongodb://h/\"\n");
    let both = source("[cluster]\nuri = \"mongodb://u:p@h\"\n[dataset]\nshape = \"a/b.toml\"\n");
    assert_eq!(
        both.public_text(),
        "[cluster]\nuri = \"mongodb://h/\"\n[dataset]\nshape = \"dataset.toml\"\n"
    );
}
