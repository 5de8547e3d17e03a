//! A strict reader of TOML tables: every key must be known, every problem is collected, and reading
//! goes on after each of them.

use std::cell::RefCell;

use toml::de::{DeTable, DeValue};

use super::path::KeyPath;
use super::words::{Names, Unknown};

/// Why a value is refused. The message fits after `"every" in [[fault]]: `.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<Unknown> for Refusal {
    fn from(unknown: Unknown) -> Self {
        Self::new(unknown.message).hint(unknown.hint)
    }
}

/// Whether a problem points at the key or at its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Key,
    Value,
}

/// A problem before its place in the file is looked up.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: KeyPath,
    pub(super) at: At,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// Every problem so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: RefCell<Vec<Entry>>,
    bad: RefCell<Vec<KeyPath>>,
}

impl Log {
    /// Books a problem with a key: its name, or that it is there at all.
    pub(super) fn key(&self, path: &KeyPath, message: impl Into<String>, hint: Option<String>) {
        self.add(Entry { path: path.clone(), at: At::Key, message: message.into(), hint });
    }

    /// Books a problem with a value, under the name of its key.
    pub(super) fn value(&self, path: &KeyPath, refusal: Refusal) {
        let message = format!("{}: {}", path.described(), refusal.message);
        self.add(Entry { path: path.clone(), at: At::Value, message, hint: refusal.hint });
    }

    /// Books a problem that follows from several values, at the first of them, unless one of them
    /// is in the log already: then it may follow only from that.
    pub(super) fn across(&self, paths: &[&KeyPath], refusal: Refusal) {
        let sound = !paths.iter().any(|path| self.is_bad(path));
        if let (true, Some(first)) = (sound, paths.first()) {
            self.value(first, refusal);
        }
    }

    /// Whether something at this place, above or below it was refused.
    pub(super) fn is_bad(&self, path: &KeyPath) -> bool {
        self.bad.borrow().iter().any(|bad| bad.is_within(path) || path.is_within(bad))
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries.into_inner()
    }

    fn add(&self, entry: Entry) {
        self.mark_bad(entry.path.clone());
        self.entries.borrow_mut().push(entry);
    }

    /// Nothing may be concluded from what stands here.
    fn mark_bad(&self, path: KeyPath) {
        self.bad.borrow_mut().push(path);
    }
}

/// A value, where it stands, and the log for its problems.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    pub(super) path: KeyPath,
    pub(super) value: &'a DeValue<'a>,
    log: &'a Log,
}

impl<'a> Node<'a> {
    /// Reads it; a refusal is booked.
    pub(super) fn read<T>(&self, read: impl FnOnce(&DeValue<'_>) -> Result<T, Refusal>) -> Option<T> {
        read(self.value).map_err(|refusal| self.refuse(refusal)).ok()
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        self.log.value(&self.path, refusal);
    }

    /// As a table with these keys.
    pub(super) fn table(&self, keys: &Names<'_>) -> Option<Table<'a>> {
        let fields = self.fields()?;
        Some(Table::open(self.path.clone(), fields, keys, self.log))
    }

    /// As a table whose keys the user chooses.
    pub(super) fn entries(&self) -> Vec<(&'a str, Node<'a>)> {
        let fields = self.fields().into_iter().flatten();
        fields
            .map(|(key, value)| (key.get_ref().as_ref(), self.child(key.get_ref(), value.get_ref())))
            .collect()
    }

    /// As a list.
    pub(super) fn items(&self) -> Vec<Node<'a>> {
        let Some(items) = self.value.as_array() else {
            self.refuse(Refusal::new(format!("must be a list, not {}", kind(self.value))));
            return Vec::new();
        };
        items.iter().enumerate().map(|(index, item)| self.child(index, item.get_ref())).collect()
    }

    /// As one name, with or without parameters: `"read"` or `{ read = {} }`.
    pub(super) fn choice(&self, what: &str) -> Option<(&'a str, Option<Node<'a>>)> {
        if let Some(name) = self.value.as_str() {
            return Some((name, None));
        }
        let mut entries = self.entries();
        match (entries.pop(), entries.is_empty()) {
            (Some((name, parameters)), true) => return Some((name, Some(parameters))),
            (Some(_), false) => self.refuse(Refusal::new(format!("names more than one {what}"))),
            (None, _) if self.value.is_table() => self.refuse(Refusal::new(format!("names no {what}"))),
            (None, _) => {}
        }
        None
    }

    fn child(&self, key: impl std::fmt::Display, value: &'a DeValue<'a>) -> Self {
        Self { path: self.path.child(key), value, log: self.log }
    }

    fn fields(&self) -> Option<&'a DeTable<'a>> {
        let table = self.value.as_table();
        if table.is_none() {
            self.refuse(Refusal::new(format!("must be a table, not {}", kind(self.value))));
        }
        table
    }
}

/// A table whose keys were checked.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    pub(super) path: KeyPath,
    fields: &'a DeTable<'a>,
    log: &'a Log,
}

impl<'a> Table<'a> {
    /// Books every key that is not among the names.
    pub(super) fn open(path: KeyPath, fields: &'a DeTable<'a>, keys: &Names<'_>, log: &'a Log) -> Self {
        let place = match path.section() {
            section if section.is_empty() => section,
            section => format!(" in {section}"),
        };
        for key in fields.keys().map(|key| key.get_ref()).filter(|key| !keys.now.contains(&key.as_ref())) {
            let unknown = keys.unknown(key, &place);
            log.key(&path.child(key), unknown.message, Some(unknown.hint));
            if let Some(meant) = unknown.meant.filter(|meant| !fields.contains_key(meant.as_str())) {
                log.mark_bad(path.child(meant));
            }
        }
        Self { path, fields, log }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of a key, if it is there.
    pub(super) fn node(&self, key: &str) -> Option<Node<'a>> {
        let value = self.fields.get(key)?.get_ref();
        Some(Node { path: self.path.child(key), value, log: self.log })
    }

    /// The elements of a list; none when it is not there.
    pub(super) fn nodes(&self, key: &str) -> Vec<Node<'a>> {
        self.node(key).map(|node| node.items()).unwrap_or_default()
    }

    /// Reads a key that may be left out.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        self.node(key)?.read(read)
    }

    /// Reads a key that has a default; `None`: it is there and was refused.
    pub(super) fn optional_or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        match self.node(key) {
            Some(node) => node.read(read),
            None => Some(default),
        }
    }

    /// Reads a key that must be there. `hint` says what to write.
    pub(super) fn required<T>(
        &self,
        key: &str,
        hint: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        if !self.fields.contains_key(key) {
            self.missing(key, hint);
        }
        self.optional(key, read)
    }

    /// Books that a key is missing, unless it is there under a misspelt name.
    pub(super) fn missing(&self, key: &str, hint: &str) {
        let path = self.path.child(key);
        if !self.log.is_bad(&path) {
            self.log.key(&path, format!("{} is missing", path.described()), Some(hint.into()));
        }
    }
}

/// A value as people call it, for "must be a table, not ...". Texts are not repeated.
pub(super) fn kind(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "a text".into(),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
