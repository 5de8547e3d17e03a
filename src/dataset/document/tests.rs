use bson::{Bson, Document, doc};
use proptest::prelude::*;

use super::*;
use crate::scenario::Template;
use crate::scenario::content::{Constant, Content, Field};

/// The built-in shapes.
fn shapes() -> [Shape; 4] {
    [Shape::Row, Shape::RowRepetitive, Shape::Ycsb, Shape::YcsbFields { fields: 3, length: 7 }]
}

fn template(fields: Vec<Field>) -> Shape {
    Shape::Template(Arc::new(Template { file: "x.toml".into(), text: String::new(), fields }))
}

fn field(name: &str, content: Content) -> Field {
    Field { name: name.into(), content }
}

/// One field of each kind.
fn every_kind() -> Shape {
    let text = |min, max, repeat| Content::Text { min, max, repeat };
    let item = Content::Document(vec![
        field("sku", text(3, 9, None)),
        field("n", Content::Int32 { min: 1, max: 5 }),
    ]);
    template(vec![
        field("constant", Content::Constant(Constant::Text("käse".into()))),
        field("number", Content::Constant(Constant::Int32(-1))),
        field("since", Content::Constant(Constant::Date(86_400_000))),
        field("sequence", Content::Sequence { start: -5, step: 10 }),
        field("small", Content::Int32 { min: -3, max: 3 }),
        field("large", Content::Int64 { min: 0, max: 10_000_000_000 }),
        field("any", Content::Int64 { min: i64::MIN, max: i64::MAX }),
        field("half", Content::Double { min: -0.5, max: 0.5 }),
        field("date", Content::Date { from_ms: 0, to_ms: 1_000 }),
        field("fixed", text(11, 11, None)),
        field("again", text(100, 100, Some(7))),
        field("free", text(0, 20, Some(3))),
        field("flag", Content::Bool),
        field("oid", Content::ObjectId),
        field("same", Content::Pick(vec![Constant::Text("new".into()), Constant::Text("old".into())])),
        field(
            "mixed",
            Content::Pick(vec![Constant::Text("text".into()), Constant::Int32(5), Constant::Bool(true)]),
        ),
        field("inner", Content::Document(vec![field("a", Content::Bool), field("b", item.clone())])),
        field("list", Content::List(vec![Content::Constant(Constant::Double(1.5)), Content::Bool])),
        field("items", Content::Array { of: Box::new(item), min: 0, max: 12 }),
        field("pair", Content::Array { of: Box::new(Content::Bool), min: 2, max: 2 }),
    ])
}

fn decoded(shape: &Shape, key: u64, version: u32) -> Document {
    Document::try_from(&*Documents::new(shape, 7).document(key, version)).unwrap()
}

/// Contents of every kind, nested a few levels deep.
fn contents() -> impl Strategy<Value = Content> {
    let constant = prop_oneof![
        "[a-zé]{0,9}".prop_map(Constant::Text),
        any::<i32>().prop_map(Constant::Int32),
        any::<i64>().prop_map(Constant::Int64),
        any::<bool>().prop_map(Constant::Bool),
        (-1e9..1e9).prop_map(Constant::Double),
    ];
    let ends = |a: i64, b: i64| (a.min(b), a.max(b));
    let leaf =
        prop_oneof![
            constant.clone().prop_map(Content::Constant),
            prop::collection::vec(constant, 1..5).prop_map(Content::Pick),
            (any::<i64>(), any::<i64>()).prop_map(|(start, step)| Content::Sequence { start, step }),
            (any::<i64>(), any::<i64>()).prop_map(move |(a, b)| {
                let (min, max) = ends(a, b);
                Content::Int64 { min, max }
            }),
            (any::<i32>(), any::<i32>()).prop_map(|(a, b)| Content::Int32 { min: a.min(b), max: a.max(b) }),
            (0_u32..40, 0_u32..40, prop::option::of(1_u32..9))
                .prop_map(|(min, more, repeat)| Content::Text { min, max: min + more, repeat }),
            (0_u32..40, prop::option::of(1_u32..9)).prop_map(|(length, repeat)| Content::Text {
                min: length,
                max: length,
                repeat
            }),
            Just(Content::Bool),
            Just(Content::ObjectId),
            Just(Content::Double { min: -1.0, max: 1e300 }),
            Just(Content::Date { from_ms: -5, to_ms: 5 }),
        ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|contents| Content::Document(named(contents))),
            prop::collection::vec(inner.clone(), 0..5).prop_map(Content::List),
            (inner.clone(), 0_u32..4, 0_u32..13).prop_map(|(of, min, more)| Content::Array {
                of: Box::new(of),
                min,
                max: min + more
            }),
            (inner, 0_u32..13).prop_map(|(of, n)| Content::Array { of: Box::new(of), min: n, max: n }),
        ]
    })
}

fn named(contents: Vec<Content>) -> Vec<Field> {
    (0..).zip(contents).map(|(number, content)| field(&format!("f{number}"), content)).collect()
}

/// Templates whose last field is random, so that a wrong key or version shows.
fn templates() -> impl Strategy<Value = Shape> {
    prop::collection::vec(contents(), 0..6).prop_map(|mut contents| {
        contents.push(Content::Int64 { min: i64::MIN, max: i64::MAX });
        template(named(contents))
    })
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn row(key: u64, version: u32) -> Document {
    Document::try_from(&*Documents::new(Shape::Row, 7).document(key, version)).unwrap()
}

#[test]
fn a_document_never_changes_between_versions_of_the_tool() {
    let row = Documents::new(Shape::Row, 42).document(4_294_967_309, 3);
    let golden = [
        &b"\x90\x01\0\0\x12_id\0\x0d\0\0\0\x01\0\0\0\x10v\0\x03\0\0\0"[..],
        b"\x12long\0\x5c\x7f/\xe0\xb4f\xb41\x10int\0{R\x01<\x09date\0\x96\xe1\xe6_-\x01\0\0",
        b"\x01double\0\x22-\xf7Ev\xdc\xe5?\x02string\0\x36\x01\0\0F`mJ6;kKe4hm><Dk^",
    ];
    assert_eq!(row.as_bytes()[..106], golden.concat());
    assert_eq!(fnv1a(row.as_bytes()), 0x6765_a1e6_040a_1b4a);
    let golden = |shape| fnv1a(Documents::new(shape, 42).document(4_294_967_309, 3).as_bytes());
    assert_eq!(golden(Shape::Ycsb), 0x50fc_20cd_8fc4_b298);
    let others = [Shape::RowRepetitive, Shape::YcsbFields { fields: 3, length: 7 }, every_kind()];
    let hashes = [2_735_781_210_520_855_121, 18_268_514_412_963_982_097, 1_735_759_480_680_900_949];
    assert_eq!(others.map(golden), hashes);
}

#[test]
fn every_placeholder_gives_what_it_promises() {
    let shape = every_kind();
    let mut lengths = std::collections::BTreeSet::new();
    for key in 0..200 {
        let d = decoded(&shape, key, 1);
        assert_eq!((d.get_str("constant").unwrap(), d.get_i32("number").unwrap()), ("käse", -1));
        assert_eq!(d.get_datetime("since").unwrap().timestamp_millis(), 86_400_000);
        assert_eq!(d.get_i64("sequence").unwrap(), key as i64 * 10 - 5);
        assert!((-3..=3).contains(&d.get_i32("small").unwrap()));
        assert!((0..=10_000_000_000).contains(&d.get_i64("large").unwrap()));
        assert!((-0.5..0.5).contains(&d.get_f64("half").unwrap()));
        assert!((0..1_000).contains(&d.get_datetime("date").unwrap().timestamp_millis()));
        assert_eq!(d.get_str("fixed").unwrap().len(), 11);
        let again = d.get_str("again").unwrap();
        assert_eq!((again.len(), again[..93].to_owned()), (100, again[7..].to_owned()));
        let free = d.get_str("free").unwrap();
        assert!(free.len() <= 20 && free.bytes().zip(free.bytes().skip(3)).all(|(a, b)| a == b));
        assert!(d.get_bool("flag").is_ok() && d.get_object_id("oid").is_ok());
        assert!(["new", "old"].contains(&d.get_str("same").unwrap()));
        let mixed = [Bson::from("text"), Bson::from(5), Bson::from(true)];
        assert!(mixed.contains(d.get("mixed").unwrap()));
        let inner = d.get_document("inner").unwrap();
        assert!((3..=9).contains(&inner.get_document("b").unwrap().get_str("sku").unwrap().len()));
        assert_eq!(d.get_array("list").unwrap()[0], Bson::from(1.5));
        assert_eq!(d.get_array("pair").unwrap().len(), 2);
        let items = d.get_array("items").unwrap();
        lengths.insert(items.len());
        assert!(items.iter().all(|item| item.as_document().unwrap().get_i32("n").is_ok()));
    }
    assert_eq!(lengths, (0..=12).collect());
}

#[test]
fn the_ends_of_a_range_are_reached_and_a_text_differs_from_key_to_key() {
    let shape = every_kind();
    let smalls: std::collections::BTreeSet<_> =
        (0..200).map(|key| decoded(&shape, key, 0).get_i32("small").unwrap()).collect();
    assert_eq!(smalls, (-3..=3).collect());
    let texts: std::collections::BTreeSet<_> = (0..200)
        .map(|key| decoded(&Shape::RowRepetitive, key, 0).get_str("string").unwrap().to_owned())
        .collect();
    assert_eq!(texts.len(), 200);
}

#[test]
fn the_mean_length_is_that_of_many_documents() {
    let documents = Documents::new(every_kind(), 7);
    let total: usize = (0..2_000).map(|key| documents.document(key, 0).as_bytes().len()).sum();
    let mean = total as f64 / 2_000.0;
    assert!((mean / documents.len_bytes() as f64 - 1.0).abs() < 0.01, "{mean} {}", documents.len_bytes());
}

#[test]
fn a_wrong_byte_deep_inside_is_named_by_its_path() {
    let documents = Documents::new(every_kind(), 7);
    let wrong = |change: fn(&mut Document)| {
        let key = (0..)
            .find(|key| !decoded(&every_kind(), *key, 1).get_array("items").unwrap().is_empty())
            .unwrap();
        let mut document = decoded(&every_kind(), key, 1);
        change(&mut document);
        match documents.check(&raw(&document)).unwrap_err() {
            ContentError::Differs { field, .. } => field,
            error => panic!("{error}"),
        }
    };
    assert_eq!(wrong(|d| drop(d.get_document_mut("inner").unwrap().insert("a", 5))), "inner.a");
    assert_eq!(
        wrong(|d| {
            let b = d.get_document_mut("inner").unwrap().get_document_mut("b").unwrap();
            b.insert("n", 77);
        }),
        "inner.b.n"
    );
    assert_eq!(
        wrong(|d| drop(d.get_array_mut("items").unwrap()[0].as_document_mut().unwrap().insert("n", 77))),
        "items.0.n"
    );
    assert_eq!(wrong(|d| drop(d.insert("again", "short"))), "again");
    assert_eq!(wrong(|d| drop(d.remove("pair"))), "pair");
    assert_eq!(wrong(|d| drop(d.insert("more", 1))), "end");
}

#[test]
fn documents_have_the_promised_fields_and_lengths() {
    let row = row(17, 2);
    let names: Vec<&str> = row.keys().map(String::as_str).collect();
    assert_eq!(names, ["_id", "v", "long", "int", "date", "double", "string"]);
    assert_eq!((row.get_i64("_id").unwrap(), row.get_i32("v").unwrap()), (17, 2));
    let year = row.get_datetime("date").unwrap().try_to_rfc3339_string().unwrap();
    assert!(("2000".."2030").contains(&&year[..4]), "{year}");
    assert!((0.0..1.0).contains(&row.get_f64("double").unwrap()));
    assert!(row.get_str("string").unwrap().bytes().all(|byte| byte.is_ascii_graphic()));

    let ycsb = Documents::new(Shape::Ycsb, 7);
    let document = Document::try_from(&*ycsb.document(17, 2)).unwrap();
    assert_eq!(document.len(), 12);
    assert_eq!(document.get_str("field9").unwrap().len(), 100);
    assert_eq!((raw(&row).as_bytes().len(), ycsb.len_bytes()), (400, 1_155));
}

#[test]
fn each_planted_defect_is_found_in_its_field() {
    let documents = Documents::new(Shape::Row, 7);
    let field = |change: fn(&mut Document)| {
        let mut document = row(5, 1);
        change(&mut document);
        match documents.check(&raw(&document)).unwrap_err() {
            ContentError::Differs { key: 5, field, .. } => field,
            error => panic!("{error}"),
        }
    };
    assert_eq!(field(|d| drop(d.insert("int", 1))), "int");
    assert_eq!(field(|d| drop(d.insert("int", 1_i64))), "int");
    assert_eq!(field(|d| drop(d.insert("string", "short"))), "string");
    assert_eq!(field(|d| drop(d.insert("double", -0.5))), "double");
    assert_eq!(field(|d| drop(d.remove("date"))), "date");
    assert_eq!(field(|d| drop(d.remove("string"))), "string");
    assert_eq!(field(|d| drop(d.insert("more", 1))), "end");
    assert_eq!(field(|d| drop(d.insert("v", 2))), "long");
    assert_eq!(field(|d| d.remove("_id").map_or((), |id| drop(d.insert("_id", id)))), "_id");
}

#[test]
fn a_document_without_key_or_version_is_said_to_be_so() {
    let documents = Documents::new(Shape::Row, 7);
    let check = |document: Document| documents.check(&raw(&document)).unwrap_err();
    assert!(matches!(check(doc! { "v": 1 }), ContentError::NoKey(_)));
    assert!(matches!(check(doc! { "_id": "a", "v": 1 }), ContentError::NoKey(_)));
    assert!(matches!(check(doc! { "_id": 3_i64 }), ContentError::NoVersion { key: 3, .. }));
}

/// A document passes as it was written, and with any of its bytes changed it does not.
fn one_byte_decides(
    documents: &Documents,
    (key, version): (u64, u32),
    (at, change): (prop::sample::Index, u8),
) -> Result<(), TestCaseError> {
    let mut bytes = documents.document(key, version).into_bytes();
    prop_assert_eq!(documents.check(RawDocument::from_bytes(&bytes).unwrap()), Ok((key, version)));
    let at = at.index(bytes.len());
    bytes[at] ^= change;
    if let Ok(raw) = RawDocument::from_bytes(&bytes) {
        prop_assert!(documents.check(raw).is_err());
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_passes_and_any_changed_byte_does_not(
        key: u64, version: u32, at: prop::sample::Index, change in 1_u8..,
    ) {
        for shape in shapes() {
            let documents = Documents::new(shape, 1);
            one_byte_decides(&documents, (key, version), (at, change))?;
        }
    }

    #[test]
    fn an_update_leads_from_any_version_to_exactly_the_next(key: u64, from: u32, to: u32) {
        for shape in shapes() {
            let documents = Documents::new(shape, 1);
            let update = documents.update(key, to);
            let mut update = Document::try_from(RawDocument::from_bytes(&update).unwrap()).unwrap();
            let Some(Bson::Document(fields)) = update.remove("$set") else { panic!("no $set") };
            prop_assert!(update.is_empty());
            let mut document = Document::try_from(&*documents.document(key, from)).unwrap();
            document.extend(fields);
            prop_assert_eq!(documents.check(&raw(&document)), Ok((key, to)));
        }
    }

    #[test]
    fn a_template_is_checked_byte_by_byte_whatever_it_holds(
        shape in templates(), key: u64, version: u32, at: prop::sample::Index, change in 1_u8..,
    ) {
        let documents = Documents::new(&shape, 1);
        let bytes = documents.document(key, version).into_bytes();
        prop_assert!(bytes.len() <= documents.most_bytes());
        Document::try_from(RawDocument::from_bytes(&bytes).unwrap()).unwrap();
        one_byte_decides(&documents, (key, version), (at, change))?;
    }

    #[test]
    fn a_fixed_layout_gives_the_same_bytes_as_the_tree(shape in templates(), key: u64, version: u32) {
        let parts = Part::of(&shape.fields());
        if let Some(fixed) = Fixed::new(&parts) {
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            fixed.write(1, key, version, &mut fast);
            Layout::Tree(parts).write(1, key, version, &mut slow);
            prop_assert_eq!(fast, slow);
        }
    }

    #[test]
    fn an_update_leads_a_template_from_any_version_to_exactly_the_next(
        shape in templates(), key: u64, from: u32, to: u32,
    ) {
        let documents = Documents::new(&shape, 1);
        let update = documents.update(key, to);
        let mut update = Document::try_from(RawDocument::from_bytes(&update).unwrap()).unwrap();
        let Some(Bson::Document(fields)) = update.remove("$set") else { panic!("no $set") };
        let mut document = Document::try_from(&*documents.document(key, from)).unwrap();
        document.extend(fields);
        prop_assert_eq!(documents.check(&raw(&document)), Ok((key, to)));
    }
}
