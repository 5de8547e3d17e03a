//! When a rule injects: one of `at`, `first`, `random` and `when`, with the keys that go with it.

use std::time::Duration;

use toml::de::DeValue;

use crate::scenario::table::{Node, Refusal, Table};
use crate::scenario::values::{count_in, duration, positive_duration, text};
use crate::scenario::words::Names;
use crate::scenario::{Cue, When};

const RANDOM: Names<'_> = Names { what: "key", now: &["mean", "from", "until"], later: &[] };
const CUES: Names<'_> = Names {
    what: "moment",
    now: &["election", "checkpoint", "initial_sync", "index_build", "steady"],
    later: &["migration"],
};

/// The ways to say when, each with the keys that go with it.
const WAYS: [(&str, &[&str]); 4] = [
    ("at", &[]),
    ("first", &["every", "times"]),
    ("random", &["times"]),
    ("when", &["after", "every", "times"]),
];

/// Reads it; `None`: it was refused.
pub(super) fn read(table: &Table<'_>) -> Option<When> {
    let mut ways = WAYS.into_iter().filter_map(|(way, goes)| Some((way, goes, table.node(way)?)));
    let Some((way, goes, node)) = ways.next() else {
        let hint = "say when: first = \"5m\" (with every, times), at = [\"5m\", \"12m\"], random = { mean = \"5m\" } \
                    or when = \"election\"";
        table.missing("first", hint);
        return None;
    };
    if let Some((other, ..)) = ways.next() {
        node.refuse(Refusal::new(format!("stands beside {other:?}")).hint("keep one of the two"));
        return None;
    }
    let stray = ["every", "times", "after"].into_iter().filter(|key| !goes.contains(key));
    if let Some((key, stray)) = stray.filter_map(|key| Some((key, table.node(key)?))).next() {
        stray.refuse(goes_with(key, way));
        return None;
    }
    match way {
        "at" => offsets(&node),
        "first" => repeated(table, &node),
        "random" => random(table, &node),
        _ => cued(table, &node),
    }
}

/// A key beside the wrong way to say when.
fn goes_with(key: &str, way: &str) -> Refusal {
    let right: Vec<_> = WAYS.iter().filter(|(_, goes)| goes.contains(&key)).map(|(way, _)| *way).collect();
    let right = right.iter().map(|way| format!("{way:?}")).collect::<Vec<_>>().join(" or ");
    let hint = match way {
        "at" => "list every time in \"at\"",
        _ => "leave it out",
    };
    Refusal::new(format!("goes with {right}, not with {way:?}")).hint(hint)
}

fn times(value: &DeValue<'_>) -> Result<u32, Refusal> {
    count_in(value, 1..=u32::MAX)
}

fn repeated(table: &Table<'_>, first: &Node<'_>) -> Option<When> {
    let first = first.read(duration);
    match (table.node("every"), table.node("times")) {
        // Once: the distance never counts.
        (None, None) => Some(When::Every { first: first?, every: Duration::ZERO, times: Some(1) }),
        (None, Some(repeats)) => {
            repeats.refuse(Refusal::new("needs \"every\"").hint("add for example every = \"5m\""));
            None
        }
        (Some(every), given) => {
            let (every, read) = (every.read(positive_duration), given.as_ref().map(|node| node.read(times)));
            Some(When::Every {
                first: first?,
                every: every?,
                times: read.map_or(Some(None), |t| t.map(Some))?,
            })
        }
    }
}

fn random(table: &Table<'_>, node: &Node<'_>) -> Option<When> {
    let keys = node.table(&RANDOM)?;
    let mean = keys.required("mean", "write for example random = { mean = \"5m\" }", positive_duration);
    let from = keys.optional_or("from", Duration::ZERO, duration);
    let until = keys.optional_or("until", None, |value| positive_duration(value).map(Some));
    let times = table.optional_or("times", None, |value| times(value).map(Some));
    Some(When::Random { mean: mean?, from: from?, until: until?, times: times? })
}

fn cued(table: &Table<'_>, node: &Node<'_>) -> Option<When> {
    let cue = cue(node);
    let after = table.optional_or("after", Duration::ZERO, duration);
    let every = table.optional_or("every", Duration::ZERO, duration);
    let times = table.optional_or("times", 1, times);
    Some(When::Cued { cue: cue?, after: after?, every: every?, times: times? })
}

/// `"election"`; a migration, which has phases, is to come as `{ migration = "clone" }`.
fn cue(node: &Node<'_>) -> Option<Cue> {
    let (name, parameters) = node.choice("moment")?;
    if let (Some(cue), None) = (Cue::ALL.into_iter().find(|cue| cue.word() == name), &parameters) {
        return Some(cue);
    }
    if !node.value.is_str() && CUES.now.contains(&name) {
        node.refuse(Refusal::new("takes no parameters").hint(format!("write when = {name:?}")));
    } else if node.value.is_str() || node.value.is_table() {
        node.refuse(CUES.unknown(name, "").into());
    } else {
        node.read(|value| text(value).map(drop))?;
    }
    None
}

/// In any order in the file, ascending in the scenario.
fn offsets(at: &Node<'_>) -> Option<When> {
    let mut offsets = Vec::new();
    let items = at.items();
    if items.is_empty() && at.value.is_array() {
        at.refuse(Refusal::new("names no time").hint("write for example at = [\"5m\", \"12m\"]"));
    }
    for item in &items {
        if let Some(offset) = item.read(duration) {
            if offsets.contains(&offset) {
                item.refuse(Refusal::new("stands here twice").hint("one rule injects once at a time"));
            }
            offsets.push(offset);
        }
    }
    offsets.sort_unstable();
    Some(When::At(offsets))
}
