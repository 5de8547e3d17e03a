//! One `[[workload]]`.

use std::time::Duration;

use toml::de::DeValue;

use super::table::{Node, Refusal, kind};
use super::values::{count_in, plain_name, positive_duration, rate, word};
use super::words::Names;
use super::{Distribution, Op, ReadConcern, ReadPreference, Workload, WriteConcern, distribution, op};

const WORKLOAD: Names<'_> = Names {
    what: "key",
    now: &[
        "name",
        "workers",
        "rate",
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
/// Reads it.
pub(super) fn read(node: &Node<'_>) -> Workload {
    let mut workload = Workload {
        name: String::new(),
        workers: 1,
        rate_ops_s: None,
        mix: vec![(Op::Read, 1.0)],
        write_concern: WriteConcern::Majority,
        read_concern: ReadConcern::Local,
        distribution: Distribution::Uniform,
        read_preference: ReadPreference::Primary,
        deadline: DEFAULT_DEADLINE,
    };
    let Some(table) = node.table(&WORKLOAD) else { return workload };
    table.optional("engine", engine);
    workload.name = table.required("name", "give each workload its own name", plain_name).unwrap_or_default();
    workload.rate_ops_s = table.optional("rate", rate);
    fill(&mut workload.workers, table.optional("workers", |value| count_in(value, 1..=u32::MAX)));
    fill(&mut workload.write_concern, table.optional("write_concern", write_concern));
    fill(&mut workload.read_concern, table.optional("read_concern", read_concern));
    fill(&mut workload.distribution, table.node("distribution").and_then(|node| distribution::read(&node)));
    fill(&mut workload.read_preference, table.optional("read_preference", read_preference));
    fill(&mut workload.deadline, table.optional("deadline", positive_duration));
    match table.node("op") {
        Some(node) => fill(&mut workload.mix, op::read(&node)),
        None => table.missing("op", "write for example op = { insert = { batch = 1 } } or op = \"read\""),
    }
    workload
}

fn fill<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn engine(value: &DeValue<'_>) -> Result<(), Refusal> {
    word(value, &[("driver", ())], &Names { what: "engine", now: &["driver"], later: &["wire"] })
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
