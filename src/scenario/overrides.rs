//! `--set key.path=value`: changes the text of a scenario before it is read, comments kept.

use toml_edit::{DocumentMut, InlineTable, Item, Key, TableLike, Value};

use super::path::KeyPath;
use super::places::Applied;
use super::problem::{Place, Problem};
use super::quantity::is_secret;
use super::words::closest;

/// Puts each override into the document. Those that cannot be applied come back as problems.
pub(super) fn apply(document: &mut DocumentMut, overrides: &[String]) -> (Vec<Applied>, Vec<Problem>) {
    let mut applied = Vec::new();
    let mut problems = Vec::new();
    for text in overrides {
        match apply_one(document, text) {
            Ok(path) => applied.push(Applied { path, shown: shown(text) }),
            Err(message) => problems.push(Problem {
                place: Place::Set(shown(text)),
                key: String::new(),
                message,
                hint: Some(
                    "write --set key.path=value, as duration=10m or workload.readers.rate=200/s".into(),
                ),
            }),
        }
    }
    (applied, problems)
}

/// The override as given, but its value is hidden when it may be a connection string.
fn shown(text: &str) -> String {
    match text.split_once('=') {
        Some((key, _)) if !is_secret(key) && (is_secret(text) || text.contains("uri")) => {
            format!("{key}=[hidden]")
        }
        _ if is_secret(text) => "[hidden]".into(),
        _ => text.to_owned(),
    }
}

fn apply_one(document: &mut DocumentMut, text: &str) -> Result<KeyPath, String> {
    let (key, value) = text.split_once('=').ok_or("an override has no \"=\"")?;
    let keys = Key::parse(key.trim()).map_err(|_| "the part before \"=\" is no key path")?;
    let value = value.trim();
    // `10m` is no TOML, but nobody wants to type quotes inside of quotes.
    let value = value.parse().unwrap_or_else(|_| Value::from(value));
    set(document.as_table_mut(), &keys, value, KeyPath::default())
}

/// Puts a value into a table, and says where it came to stand.
fn set(table: &mut dyn TableLike, keys: &[Key], value: Value, at: KeyPath) -> Result<KeyPath, String> {
    let Some((key, rest)) = keys.split_first() else {
        return Err("the part before \"=\" is no key path".into());
    };
    let at = at.child(key.get());
    if rest.is_empty() {
        put(table, key.get(), value);
        return Ok(at);
    }
    let item = table.entry(key.get()).or_insert_with(|| Item::Value(InlineTable::new().into()));
    as_headed_list(item);
    if let Some(list) = item.as_array_of_tables_mut() {
        return set_in_list(list, rest, value, &at);
    }
    match item.as_table_like_mut() {
        Some(table) => set(table, rest, value, at),
        None => Err(format!("\"{at}\" is one value and has no keys; set it as a whole")),
    }
}

fn set_in_list(
    list: &mut toml_edit::ArrayOfTables,
    keys: &[Key],
    value: Value,
    at: &KeyPath,
) -> Result<KeyPath, String> {
    let Some((which, rest)) = keys.split_first() else {
        return Err(format!("name one of \"{at}\""));
    };
    let index = index_of(list, which.get(), at)?;
    let at = at.child(index);
    if rest.is_empty() {
        return Err(format!("\"{at}\" is a whole table; set one of its keys"));
    }
    match list.get_mut(index) {
        Some(table) => set(table, rest, value, at),
        None => Err(format!("there is no \"{at}\"")),
    }
}

/// By the table's name, or else by its number.
fn index_of(list: &toml_edit::ArrayOfTables, which: &str, at: &KeyPath) -> Result<usize, String> {
    let names: Vec<_> =
        list.iter().map(|table| table.get("name").and_then(Item::as_str).unwrap_or_default()).collect();
    if let Some(index) = names.iter().position(|name| *name == which) {
        return Ok(index);
    }
    match which.parse::<usize>() {
        Ok(index) if index < names.len() => Ok(index),
        Ok(index) => Err(format!("there is no \"{at}.{index}\": the scenario has {}, from 0", names.len())),
        Err(_) => match closest(which, names.iter().copied()) {
            Some(name) => Err(format!("there is no \"{at}.{which}\"; did you mean \"{at}.{name}\"?")),
            None => Err(format!("there is no \"{at}.{which}\"")),
        },
    }
}

/// Replaces or adds a value. Comments beside the old one stay.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(item) => {
            if let Some(old) = item.as_value() {
                *value.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => {
            table.insert(key, Item::Value(value));
        }
    }
}

/// `fault = [{ ... }]` means the same as `[[fault]]`.
fn as_headed_list(item: &mut Item) {
    let tables = item.as_array().is_some_and(|list| list.iter().all(Value::is_inline_table));
    if tables {
        *item = match std::mem::take(item).into_array_of_tables() {
            Ok(list) => Item::ArrayOfTables(list),
            Err(item) => item,
        };
    }
}
