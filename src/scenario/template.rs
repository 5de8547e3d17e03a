//! Documents of one's own: a TOML file whose values are constants, placeholders, or tables of these.
//!
//! Read as strictly as the scenario, with places in the template file. A table with one key that names a
//! placeholder is that placeholder; every other table is an embedded document.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::content::{Content, Field, MOST_DOCUMENT_BYTES, document_bytes};
use super::path::KeyPath;
use super::placeholder;
use super::places::Places;
use super::problem::Problem;
use super::quantity::quoted;
use super::source::{Source, syntax};
use super::table::{Log, Node, Refusal, ordered};

/// `_id` and `v`, which every document has besides.
const OUR_FIELDS_BYTES: u64 = 20;

/// A template file.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// As written in the scenario.
    pub file: String,
    /// Its text.
    pub text: String,
    /// At least one.
    pub fields: Vec<Field>,
}

/// Reads the file, which lies beside the scenario. Its problems come with their places in it.
pub(super) fn read(node: &Node<'_>, file: &str, scenario: &Source) -> Option<Template> {
    let path = scenario.path.parent().unwrap_or(Path::new("")).join(file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read the template {}: {error}", path.display());
            node.refuse(Refusal::new(message).hint("write its path from the folder of the scenario on"));
            return None;
        }
    };
    let source = Source { path, text };
    match fields(&source) {
        Ok(fields) => Some(Template { file: file.into(), text: source.text, fields }),
        Err(problems) => {
            node.elsewhere(problems);
            None
        }
    }
}

/// The fields of a template, or all its problems.
fn fields(source: &Source) -> Result<Vec<Field>, Vec<Problem>> {
    let tree =
        DeTable::parse(&source.text).map_err(|error| vec![syntax(source, error.message(), error.span())])?;
    let log = Log::default();
    let fields = document(ordered(&KeyPath::default(), tree.get_ref(), &log), &log);
    if let Some(fields) = &fields {
        check_size(fields, &log);
    }
    let places = Places::new(source.path.clone(), &source.text, tree.get_ref(), Vec::new());
    let problems: Vec<_> = log.into_entries().into_iter().map(|entry| places.problem(entry)).collect();
    fields.filter(|_| problems.is_empty()).ok_or(problems)
}

fn check_size(fields: &[Field], log: &Log) {
    let bytes = document_bytes(fields).most.saturating_add(OUR_FIELDS_BYTES);
    let root = KeyPath::default();
    if fields.is_empty() {
        let refusal = Refusal::new("there is no field").hint("write for example: city = { string = 12 }");
        log.whole(&root, refusal);
    } else if bytes > MOST_DOCUMENT_BYTES {
        let message = format!("a document may come to {bytes} bytes, and a server takes 16 MiB at most");
        log.whole(&root, Refusal::new(message).hint("write shorter strings or arrays"));
    }
}

/// A document's fields in the order of the file.
pub(super) fn document(entries: Vec<(&str, Node<'_>)>, log: &Log) -> Option<Vec<Field>> {
    let read = |(name, node): (&str, Node<'_>)| {
        if let Err((message, hint)) = check_name(name, node.path.parent() == Some(KeyPath::default())) {
            log.key(&node.path, message, Some(hint.into()));
            return None;
        }
        Some(Field { name: name.into(), content: content(&node, log)? })
    };
    // All of them are read, so that all problems are seen.
    entries.into_iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

fn check_name(name: &str, at_top: bool) -> Result<(), (String, &'static str)> {
    match name {
        "_id" | "v" if at_top => {
            let ours = if name == "_id" { "the key" } else { "the version" };
            Err((format!("{name:?} is set by mongosoak: {ours} of the document"), "leave it out"))
        }
        _ if name.is_empty() || name.starts_with('$') || name.contains(['.', '\0']) => Err((
            format!("{} is no name for a field", quoted(name)),
            "it must not be empty, begin with \"$\" nor hold \".\"; an embedded document is a table",
        )),
        _ => Ok(()),
    }
}

/// What a value stands for.
pub(super) fn content(node: &Node<'_>, log: &Log) -> Option<Content> {
    match node.value {
        DeValue::Table(table) => {
            let entries = ordered(&node.path, table, log);
            match entries.as_slice() {
                [(name, parameters)] => match placeholder::read(name, parameters, log) {
                    placeholder::Read::Content(content) => content,
                    placeholder::Read::None => document(entries, log).map(Content::Document),
                },
                _ => document(entries, log).map(Content::Document),
            }
        }
        DeValue::Array(_) => {
            let items: Vec<_> = node.items().iter().map(|item| content(item, log)).collect();
            items.into_iter().collect::<Option<_>>().map(Content::List)
        }
        _ => node.read(placeholder::constant).map(Content::Constant),
    }
}
