//! One `[[workload]]`.

use std::path::Path;
use std::time::Duration;

use toml::de::DeValue;

use super::rate::{self, AfterOutage};
use super::table::{Node, Refusal, Table, kind};
use super::values::{count_in, plain_name, positive_duration, word};
use super::words::Names;
use super::{
    Distribution, Engine, Op, ReadConcern, ReadPreference, Workload, WriteConcern, distribution, op,
};

const WORKLOAD: Names<'_> = Names {
    what: "key",
    now: &[
        "name",
        "workers",
        "rate",
        "after_outage",
        "op",
        "write_concern",
        "read_concern",
        "distribution",
        "read_preference",
        "deadline",
        "engine",
    ],
    later: &[],
};

/// Why `w: 0` is no write concern for a tester.
pub(super) const UNACKNOWLEDGED: &str =
    "the outcome of a write that nobody acknowledges cannot be known, so nothing could be verified";

const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Reads it; `folder` is that of the scenario.
pub(super) fn read(node: &Node<'_>, folder: &Path) -> Workload {
    let mut workload = Workload {
        name: String::new(),
        workers: 1,
        rate_ops_s: None,
        schedule: None,
        after_outage: AfterOutage::Drop,
        mix: vec![(Op::Read, 1.0)],
        write_concern: WriteConcern::Majority,
        read_concern: ReadConcern::Local,
        distribution: Distribution::Uniform,
        read_preference: ReadPreference::Primary,
        deadline: DEFAULT_DEADLINE,
        engine: Engine::Driver,
    };
    let Some(table) = node.table(&WORKLOAD) else { return workload };
    workload.name = table.required("name", "give each workload its own name", plain_name).unwrap_or_default();
    rate(&table, folder, &mut workload);
    fill(&mut workload.workers, table.optional("workers", |value| count_in(value, 1..=u32::MAX)));
    fill(&mut workload.write_concern, table.optional("write_concern", write_concern));
    fill(&mut workload.read_concern, table.optional("read_concern", read_concern));
    fill(&mut workload.distribution, table.node("distribution").and_then(|node| distribution::read(&node)));
    fill(&mut workload.read_preference, table.optional("read_preference", read_preference));
    fill(&mut workload.deadline, table.optional("deadline", positive_duration));
    fill(&mut workload.engine, table.optional("engine", engine));
    match table.node("op") {
        Some(node) => fill(&mut workload.mix, op::read(&node)),
        None => table.missing("op", "write for example op = { insert = { batch = 1 } } or op = \"read\""),
    }
    workload
}

/// `rate`, and what only a workload with a rate can have.
fn rate(table: &Table<'_>, folder: &Path, workload: &mut Workload) {
    let rate = table.node("rate");
    if let Some((first, schedule)) = rate.as_ref().and_then(|node| rate::read(node, folder)) {
        workload.rate_ops_s = Some(first);
        workload.schedule = schedule;
    }
    let Some(node) = table.node("after_outage") else { return };
    fill(&mut workload.after_outage, node.read(rate::after_outage));
    if rate.is_none() {
        let why = "without a rate nothing waits: each worker sends when the answer before has come";
        node.refuse(Refusal::new(why).hint("leave it out, or write a rate"));
    }
}

fn fill<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn engine(value: &DeValue<'_>) -> Result<Engine, Refusal> {
    const WORDS: [(&str, Engine); 2] = [("driver", Engine::Driver), ("wire", Engine::Wire)];
    word(value, &WORDS, &Names { what: "engine", now: &WORDS.map(|(word, _)| word), later: &[] })
}

fn write_concern(value: &DeValue<'_>) -> Result<WriteConcern, Refusal> {
    const TAKES: &str = "write \"majority\" or a number of members";
    match value {
        DeValue::Integer(number) if number.as_str() == "0" => {
            Err(Refusal::new("0 is refused").hint(UNACKNOWLEDGED))
        }
        DeValue::Integer(_) => {
            // More than 50 members do not exist.
            count_in(value, 1..=50).map(WriteConcern::Nodes)
        }
        DeValue::String(text) => match text.as_ref() {
            "majority" => Ok(WriteConcern::Majority),
            "0" => Err(Refusal::new("0 is refused").hint(UNACKNOWLEDGED)),
            _ => Err(Refusal::new("other names than \"majority\" are not in this version yet").hint(TAKES)),
        },
        other => {
            Err(Refusal::new(format!("must be \"majority\" or a number, not {}", kind(other))).hint(TAKES))
        }
    }
}

fn read_preference(value: &DeValue<'_>) -> Result<ReadPreference, Refusal> {
    const WORDS: [(&str, ReadPreference); 5] = [
        ("primary", ReadPreference::Primary),
        ("primaryPreferred", ReadPreference::PrimaryPreferred),
        ("secondary", ReadPreference::Secondary),
        ("secondaryPreferred", ReadPreference::SecondaryPreferred),
        ("nearest", ReadPreference::Nearest),
    ];
    word(value, &WORDS, &Names { what: "read preference", now: &WORDS.map(|(word, _)| word), later: &[] })
}

fn read_concern(value: &DeValue<'_>) -> Result<ReadConcern, Refusal> {
    const WORDS: [(&str, ReadConcern); 4] = [
        ("local", ReadConcern::Local),
        ("available", ReadConcern::Available),
        ("majority", ReadConcern::Majority),
        ("linearizable", ReadConcern::Linearizable),
    ];
    word(value, &WORDS, &Names { what: "read concern", now: &WORDS.map(|(word, _)| word), later: &[] })
}
