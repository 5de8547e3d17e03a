//! What each property comes to in a scenario.

use std::fmt::Write;

use super::super::problem::Problems;
use super::super::shape::Shape;
use super::super::values::check_plain_name;
use super::super::{Distribution, Source, uri};
use super::{Reader, Translated};

/// A run that only its operations, or the user, end.
const NO_END: &str = "365d";
/// Documents that one scan returns at most here.
const MOST_SCANNED: u64 = 10_000;
/// Of YCSB's core workload, in the order of a mix.
const PROPORTIONS: [(&str, &str, f64); 5] = [
    ("insertproportion", "insert", 0.0),
    ("readproportion", "read", 0.95),
    ("scanproportion", "scan", 0.0),
    ("updateproportion", "update", 0.05),
    ("readmodifywriteproportion", "read_modify_write", 0.0),
];
/// They say how YCSB starts and prints.
const WITHOUT_EFFECT: [&str; 6] =
    ["db", "dotransactions", "label", "measurementtype", "exporter", "status.interval"];

/// The whole scenario.
pub(super) fn scenario(mut reader: Reader<'_>) -> Result<Translated, Problems> {
    let mut notes = Vec::new();
    core_workload_only(&mut reader);
    let cluster = cluster(&mut reader);
    let dataset = dataset(&mut reader, &cluster, &mut notes);
    let workload = workload(&mut reader, &cluster, &mut notes);
    let duration = match reader.count("maxexecutiontime", 0) {
        0 => NO_END.to_owned(),
        seconds => format!("{seconds}s"),
    };
    small_print(&mut reader, &mut notes);
    reader.asked.extend(WITHOUT_EFFECT);
    let ignored = reader.ignored();
    if !ignored.is_empty() {
        notes.push(format!("ignored: {}", ignored.join(", ")));
    }
    if !reader.problems.is_empty() {
        return Err(Problems::new(reader.problems));
    }
    let name = name(&reader);
    let text = format!(
        "# YCSB properties of {name}, as a scenario of mongosoak.\nname = {name:?}\nduration = \
         {duration:?}\nwarmup = \"0s\"\n\n{}\n{dataset}\n{workload}",
        cluster.text
    );
    Ok(Translated { source: Source { path: reader.path.into(), text }, notes })
}

/// The file's name as far as it is a plain one.
fn name(reader: &Reader<'_>) -> String {
    let stem = reader.path.file_name().unwrap_or_default().to_string_lossy();
    let plain: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    if check_plain_name(&plain).is_ok() { plain } else { "ycsb".into() }
}

fn core_workload_only(reader: &mut Reader<'_>) {
    let class = reader.text("workload").unwrap_or("CoreWorkload").to_owned();
    if class.rsplit('.').next() != Some("CoreWorkload") {
        reader.refuse(
            "workload",
            format!("{class} is not the core workload"),
            "only CoreWorkload is known here",
        );
    }
}

/// What a connection string decides.
struct Cluster {
    text: String,
    database: String,
    write_concern: String,
}

fn cluster(reader: &mut Reader<'_>) -> Cluster {
    let mut cluster = Cluster {
        text: "[cluster]\ntopology = \"standalone\"\n".into(),
        database: "ycsb".into(),
        write_concern: "1".into(),
    };
    if let Some(url) = reader.text("mongodb.url").map(str::to_owned) {
        match uri::check(&url) {
            // No message repeats any of it.
            Err(refusal) => {
                let hint = refusal.hint.unwrap_or_default();
                reader.refuse("mongodb.url", format!("mongodb.url: {}", refusal.message), &hint);
            }
            Ok(()) => from_url(&mut cluster, &url),
        }
    }
    if let Some(database) = reader.text("mongodb.database") {
        cluster.database = database.to_owned();
    }
    if ["admin", "local", "config"].contains(&cluster.database.as_str()) {
        let message = format!("the database {:?} belongs to the server itself", cluster.database);
        reader.refuse("mongodb.url", message, "name another one, as mongodb://host:27017/ycsb");
    }
    if cluster.write_concern == "0" {
        let why = "w=0 is refused: the outcome of a write that nobody acknowledges cannot be known";
        reader.refuse("mongodb.url", why, "write w=1 or w=majority");
    }
    cluster
}

fn from_url(cluster: &mut Cluster, url: &str) {
    cluster.text = format!("[cluster]\nuri = {}\n", toml_text(url));
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some((_, database)) = place.rsplit_once('/').filter(|(_, database)| !database.is_empty()) {
        cluster.database = database.to_owned();
    }
    for (name, value) in options.split('&').filter_map(|option| option.split_once('=')) {
        if name.eq_ignore_ascii_case("w") {
            let number = value.parse::<u32>().is_ok();
            cluster.write_concern = if number { value.to_owned() } else { toml_text(value) };
        }
    }
}

fn dataset(reader: &mut Reader<'_>, cluster: &Cluster, notes: &mut Vec<String>) -> String {
    if reader.text("recordcount").is_none() {
        reader.refuse("recordcount", "recordcount is missing", "write for example -p recordcount=1000000");
    }
    let records = reader.count("recordcount", 1);
    let inserted = reader.count("insertcount", records);
    let start = reader.count("insertstart", 0);
    if (inserted, start) != (records, 0) {
        notes.push(format!("insertstart and insertcount: all {records} records are loaded, from 0 on"));
    }
    let fields = reader.number("fieldcount", 10, |n| *n >= 1, "write a number of fields from 1 on");
    let length = reader.number("fieldlength", 100, |_| true, "write a number of bytes");
    let shape = match Shape::ycsb(fields, length) {
        Some(Shape::YcsbFields { fields, length }) => {
            format!("{{ ycsb = {{ fields = {fields}, length = {length} }} }}")
        }
        Some(_) => "\"ycsb\"".into(),
        None => {
            let message = format!("{fields} fields of {length} bytes are more than the 16 MiB of a document");
            let given = ["fieldlength", "fieldcount"].into_iter().find(|name| reader.text(name).is_some());
            reader.refuse(
                given.unwrap_or("fieldlength"),
                message,
                "write fewer fields (at most 10000), or shorter ones",
            );
            String::new()
        }
    };
    let table = reader.text("table").unwrap_or("usertable").to_owned();
    let collection = reader.text("collection").map_or(table, str::to_owned);
    format!(
        "[dataset]\nshape = {shape}\ndocuments = {records}\ndatabase = {}\ncollection = {}\n",
        toml_text(&cluster.database),
        toml_text(&collection)
    )
}

fn workload(reader: &mut Reader<'_>, cluster: &Cluster, notes: &mut Vec<String>) -> String {
    let named = ["threads", "threadcount"].into_iter().find(|name| reader.properties.contains_key(*name));
    let workers =
        reader.number(named.unwrap_or("threadcount"), 1_u32, |n| *n >= 1, "write a number from 1 on");
    reader.asked.extend(["threads", "threadcount"]);
    let mut text = format!("[[workload]]\nname = \"ycsb\"\nworkers = {workers}\n");
    let mut line = |key: &str, value: &str| {
        let _infallible = writeln!(text, "{key} = {value}");
    };
    let target =
        reader.number("target", 0.0_f64, |x| x.is_finite() && *x >= 0.0, "write operations per second");
    if target > 0.0 {
        line("rate", &toml_text(&format!("{target}/s")));
        notes.push("target: latencies count from the intended start of an operation".into());
    }
    line("op", &operations(reader));
    let operations = reader.count("operationcount", 0);
    if operations > 0 {
        line("operations", &operations.to_string());
    } else if reader.text("maxexecutiontime").is_none_or(|text| text == "0") {
        notes.push("neither operationcount nor maxexecutiontime: it runs until you stop it".into());
    }
    line("write_concern", &cluster.write_concern);
    line("distribution", &distribution(reader));
    text
}

/// One kind of operation, or a mix of them.
fn operations(reader: &mut Reader<'_>) -> String {
    let parts = PROPORTIONS.map(|(property, op, default)| (op, reader.proportion(property, default)));
    let length = reader.number(
        "maxscanlength",
        1_000_u64,
        |n| (1..=MOST_SCANNED).contains(n),
        "write a number from 1 to 10000",
    );
    let parts: Vec<_> = parts.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
    let written = |(op, weight): &(&str, f64)| match *op {
        "scan" => format!("scan = {{ weight = {weight}, length = {length} }}"),
        op => format!("{op} = {weight}"),
    };
    match parts.as_slice() {
        [] => {
            reader.refuse("readproportion", "all proportions are 0", "write for example readproportion=0.5");
            String::new()
        }
        [("scan", _)] => format!("{{ scan = {{ length = {length} }} }}"),
        [(op, _)] => toml_text(op),
        parts => format!("{{ mix = {{ {} }} }}", parts.iter().map(written).collect::<Vec<_>>().join(", ")),
    }
}

fn distribution(reader: &mut Reader<'_>) -> String {
    let name = reader.text("requestdistribution").unwrap_or("uniform").to_owned();
    let keys = reader.share("hotspotdatafraction", 0.2);
    let operations = reader.share("hotspotopnfraction", 0.8);
    let percentile = reader.number(
        "exponential.percentile",
        95.0_f64,
        |x| 0.0 < *x && *x < 100.0,
        "write a percentage above 0, below 100",
    );
    let fraction = reader.share("exponential.frac", 0.857_142_857_1);
    match Distribution::named(&name) {
        Some(Distribution::Hotspot { .. }) if keys > 0.0 => {
            format!("{{ hotspot = {{ keys = {keys}, operations = {operations} }} }}")
        }
        Some(Distribution::Exponential { .. }) if fraction > 0.0 => {
            format!("{{ exponential = {{ percentile = {percentile}, keys = {fraction} }} }}")
        }
        Some(Distribution::Hotspot { .. } | Distribution::Exponential { .. }) => {
            reader.refuse("requestdistribution", "a share of 0 keys is no share", "write a number above 0");
            String::new()
        }
        Some(_) => toml_text(&name),
        None => {
            let valid = "write uniform, zipfian, latest, hotspot, exponential or sequential";
            reader.refuse("requestdistribution", format!("requestdistribution cannot be {name:?}"), valid);
            String::new()
        }
    }
}

/// Properties that change little, and are not honoured exactly.
fn small_print(reader: &mut Reader<'_>, notes: &mut Vec<String>) {
    let mut differs = |name: &'static str, usual: &str, note: &str| {
        if reader.text(name).is_some_and(|text| !text.eq_ignore_ascii_case(usual)) {
            notes.push(format!("{name}: {note}"));
        }
    };
    differs("fieldlengthdistribution", "constant", "all fields have the full fieldlength");
    differs("scanlengthdistribution", "uniform", "the lengths of scans are even, from 1 to maxscanlength");
    differs("minscanlength", "1", "the lengths of scans are even, from 1 to maxscanlength");
    differs("insertorder", "ordered", "keys are the numbers from 0 on, inserted in order");
    differs("fieldnameprefix", "field", "fields are called field0, field1 and so on");
    differs("dataintegrity", "true", "every document that is read is compared, always");
    differs("readallfields", "true", "a read asks for the whole document");
    for name in ["mongodb.batchsize", "batchsize"] {
        differs(name, "1", "the load is in batches of its own; inserts of the run go one by one");
    }
    let updates = ["updateproportion", "readmodifywriteproportion"];
    let updates = updates.map(|name| reader.text(name).and_then(|text| text.parse::<f64>().ok()));
    let any = updates.iter().flatten().any(|weight| *weight > 0.0) || updates[0].is_none();
    if !reader.switch("writeallfields", false) && any {
        notes.push("writeallfields: an update sets all fields, not one".into());
    }
    reader.asked.insert("workload");
}

fn toml_text(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}
