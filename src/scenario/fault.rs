//! One `[[fault]]`. Kinds, parameters and defaults come from the catalogue.

use std::time::Duration;

use faults::catalog::{self, Kind};
use faults::process::End;
use toml::de::DeValue;

use super::table::{Node, Refusal, Table};
use super::values::{count_in, duration, positive_duration, text};
use super::words::Names;
use super::{FaultRule, FaultSpec, Target, When};

const FAULT: Names<'_> =
    Names { what: "key", now: &["do", "first", "at", "every", "times"], later: &["random", "when"] };

/// Kinds of the contract that this version does not know.
#[rustfmt::skip]
const KINDS_LATER: &[&str] = &[
    "pause", "crash_loop", "rolling_restart", "kill_all", "majority_loss", "wipe", "restart_with",
    "drop_connections", "refuse", "accept_close", "black_hole", "latency", "bandwidth", "cut_reply",
    "partition", "flap", "connection_storm",
    "stepdown", "freeze", "lag", "reconfig", "remove_member", "small_oplog",
    "fail_command", "failpoint", "set_parameter", "index_build", "compact", "kill_operations",
    "move_chunks", "balancer", "split", "jumbo", "hot_shard", "move_primary", "add_shard", "remove_shard",
    "disk_full", "slow_disk", "stall_disk", "cold_cache", "memory_pressure", "cpu_pressure", "fd_limit",
    "clock_skew",
    "upgrade", "set_compatibility", "hook", "chaos_mesh",
];

/// Parameters of known kinds that this version does not know.
const PARAMETERS_LATER: &[&str] = &["cold"];

/// Words for targets that this version does not know.
const TARGETS_LATER: &[&str] = &["majority", "minority", "clients", "donor", "recipient", "mongos"];

/// Reads it.
pub(super) fn read(node: &Node<'_>) -> FaultRule {
    let Some(table) = node.table(&FAULT) else {
        return FaultRule { spec: stand_in(), when: When::At(Vec::new()) };
    };
    let spec = match table.node("do") {
        Some(node) => action(&node),
        None => {
            table.missing("do", "write for example do = { kill = { target = \"primary\" } }");
            None
        }
    };
    FaultRule { spec: spec.unwrap_or_else(stand_in), when: when(&table).unwrap_or(When::At(Vec::new())) }
}

/// Takes the place of what could not be read.
fn stand_in() -> FaultSpec {
    FaultSpec::Kill(End { target: Target::Primary, restart_after: Duration::ZERO })
}

fn action(node: &Node<'_>) -> Option<FaultSpec> {
    let (name, parameters) = node.choice("fault kind")?;
    let Some(kind) = catalog::kind(name) else {
        let now: Vec<_> = catalog::KINDS.iter().map(|kind| kind.name).collect();
        let names = Names { what: "fault kind", now: &now, later: KINDS_LATER };
        node.refuse(names.unknown(name, "").into());
        return None;
    };
    let keys: Vec<_> = kind.parameters.iter().map(|parameter| parameter.name).collect();
    let keys = Names { what: "key", now: &keys, later: PARAMETERS_LATER };
    let given = match &parameters {
        Some(node) => Some(node.table(&keys)?),
        None => None,
    };
    let parameters = Parameters { kind, given, node };
    let end = |end: Parameters<'_>| {
        Some(End { target: end.read("target", target)?, restart_after: end.read("restart_after", duration)? })
    };
    match kind.name {
        "kill" => end(parameters).map(FaultSpec::Kill),
        "stop" => end(parameters).map(FaultSpec::Stop),
        other => {
            node.refuse(Refusal::new(format!("fault kind {other:?} is not in this version yet")));
            None
        }
    }
}

/// The parameters of one fault: as given, else the defaults of the catalogue.
struct Parameters<'a> {
    kind: &'static Kind,
    given: Option<Table<'a>>,
    node: &'a Node<'a>,
}

impl Parameters<'_> {
    fn read<T>(&self, name: &str, read: impl Fn(&DeValue<'_>) -> Result<T, Refusal>) -> Option<T> {
        if let Some(node) = self.given.as_ref().and_then(|given| given.node(name)) {
            return node.read(read);
        }
        let parameter = self.kind.parameters.iter().find(|parameter| parameter.name == name);
        let Some(default) = parameter.and_then(|parameter| parameter.default) else {
            self.node.refuse(Refusal::new(format!("{} needs {name:?}", self.kind.name)));
            return None;
        };
        read(&DeValue::String(default.into())).map_err(|refusal| self.node.refuse(refusal)).ok()
    }
}

fn target(value: &DeValue<'_>) -> Result<Target, Refusal> {
    let word = text(value)?;
    // `shard0.primary`, `config.primary`: only a sharded cluster has them.
    if TARGETS_LATER.contains(&word.as_str()) || word.ends_with(".primary") {
        let names = Names { what: "target", now: &Target::WORDS, later: &[&word] };
        return Err(names.unknown(&word, "").into());
    }
    word.parse().map_err(Refusal::new)
}

fn when(table: &Table<'_>) -> Option<When> {
    let first = table.optional("first", duration);
    let every = table.optional("every", positive_duration);
    let times = table.optional("times", |value| count_in(value, 1..=u32::MAX));
    let repeats = ["every", "times"].into_iter().find_map(|key| table.node(key));
    match (table.node("at"), table.node("first"), repeats) {
        (Some(at), Some(_), _) => {
            at.refuse(Refusal::new("stands beside \"first\"").hint("keep one of the two"));
            None
        }
        (Some(_), None, Some(repeats)) => {
            repeats.refuse(
                Refusal::new("goes with \"first\", not with \"at\"").hint("list every time in \"at\""),
            );
            None
        }
        (Some(at), None, None) => offsets(&at),
        (None, None, _) => {
            table.missing("first", "say when: first = \"5m\" (with every, times), or at = [\"5m\", \"12m\"]");
            None
        }
        // Once: the distance never counts.
        (None, Some(_), None) => Some(When::Every { first: first?, every: Duration::ZERO, times: Some(1) }),
        (None, Some(_), Some(repeats)) if table.node("every").is_none() => {
            repeats.refuse(Refusal::new("needs \"every\"").hint("add for example every = \"5m\""));
            None
        }
        (None, Some(_), Some(_)) => Some(When::Every { first: first?, every: every?, times }),
    }
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
