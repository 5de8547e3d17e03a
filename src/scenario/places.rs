//! From a path in the tree to a place that the user can open: an override, or a line and column of
//! the file as it is on disk.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::path::KeyPath;
use super::problem::{Place, Problem};
use super::table::{At, Entry};

/// An override that was put into the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// Where it stands.
    pub(super) path: KeyPath,
    /// As given, without secrets.
    pub(super) shown: String,
}

/// Knows where everything stands.
#[derive(Debug)]
pub(super) struct Places<'a> {
    file: PathBuf,
    text: &'a str,
    keys: HashMap<KeyPath, Range<usize>>,
    values: HashMap<KeyPath, Range<usize>>,
    overrides: Vec<Applied>,
}

impl<'a> Places<'a> {
    /// Of a file's tree, before the overrides.
    pub(super) fn new(file: PathBuf, text: &'a str, tree: &DeTable<'_>, overrides: Vec<Applied>) -> Self {
        let mut places = Self { file, text, keys: HashMap::new(), values: HashMap::new(), overrides };
        places.add_table(&KeyPath::default(), tree);
        places
    }

    /// The problem of an entry, at its place.
    pub(super) fn problem(&self, entry: Entry) -> Problem {
        Problem {
            place: self.find(&entry.path, entry.at),
            key: entry.path.to_string(),
            message: entry.message,
            hint: entry.hint,
        }
    }

    /// The place itself, or that of the nearest table around it.
    fn find(&self, path: &KeyPath, at: At) -> Place {
        if let Some(set) = self.overrides.iter().rev().find(|set| path.is_within(&set.path)) {
            return Place::Set(set.shown.clone());
        }
        let spans = if at == At::Key { &self.keys } else { &self.values };
        if let Some(span) = spans.get(path) {
            return at_offset(self.file.clone(), self.text, span.start);
        }
        if let Some(set) = self.overrides.iter().rev().find(|set| set.path.is_within(path)) {
            return Place::Set(set.shown.clone());
        }
        match path.parent().filter(|parent| *parent != KeyPath::default()) {
            Some(parent) => self.find(&parent, At::Value),
            None => Place::File(self.file.clone()),
        }
    }

    fn add_table(&mut self, path: &KeyPath, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = path.child(key.get_ref());
            self.keys.insert(path.clone(), key.span());
            self.add_value(path, value.get_ref(), value.span());
        }
    }

    fn add_value(&mut self, path: KeyPath, value: &DeValue<'_>, span: Range<usize>) {
        match value {
            DeValue::Table(table) => self.add_table(&path, table),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_value(path.child(index), item.get_ref(), item.span());
                }
            }
            _ => {}
        }
        self.values.insert(path, span);
    }
}

/// Line and column of a byte.
pub(super) fn at_offset(path: PathBuf, text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place::At {
        path,
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
