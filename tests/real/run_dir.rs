//! A run directory, as a user or another program reads it.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A run directory.
#[derive(Clone)]
pub struct RunDir(pub PathBuf);

/// One line of a server's log.
pub struct LogLine {
    /// Wall clock, in seconds since 1970.
    pub at_s: f64,
    /// Its id, which tells the message.
    pub id: i64,
}

impl RunDir {
    /// All events so far. A line that is being written is left out.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join("events.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of that name.
    pub fn events_named(&self, name: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == name).collect()
    }

    /// The one event of that name.
    pub fn event(&self, name: &str) -> Value {
        let mut found = self.events_named(name);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found.remove(0)
    }

    /// Whether this phase has begun.
    pub fn reached(&self, phase: &str) -> bool {
        self.events_named("phase").iter().any(|event| event["phase"] == phase)
    }

    /// `report.json`, or another file of that kind.
    pub fn json(&self, name: &str) -> Value {
        let path = self.0.join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Seconds of the measured phase in `timeline.csv` for one workload, torn last row left out.
    pub fn seconds(&self, workload: &str) -> Vec<u64> {
        let text = std::fs::read_to_string(self.0.join("timeline.csv")).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let cells = whole.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        cells.filter(|row| row[1] == workload).map(|row| row[0].parse().unwrap()).collect()
    }

    /// The lines of a node's log.
    pub fn log(&self, node: &str) -> Vec<LogLine> {
        let text = std::fs::read_to_string(self.node(node).join("mongod.log")).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let at_s = unix_s(line["t"]["$date"].as_str()?);
            Some(LogLine { at_s, id: line["id"].as_i64()? })
        };
        text.lines().filter_map(line).collect()
    }

    /// A node's folder.
    pub fn node(&self, node: &str) -> PathBuf {
        self.0.join("nodes").join(node)
    }
}

/// RFC 3339 as seconds since 1970.
pub fn unix_s(text: &str) -> f64 {
    let at = bson::DateTime::parse_rfc3339_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    at.timestamp_millis() as f64 / 1e3
}

/// Wall clock of an event, in seconds since 1970.
pub fn at_s(event: &Value) -> f64 {
    unix_s(event["at"].as_str().unwrap())
}

/// Whether this log tells of a start on data that was not closed in order.
pub fn tells_of_unclean_shutdown(log: &[LogLine]) -> bool {
    const LOCK_FILE_NOT_EMPTY: i64 = 22_271;
    const RECOVERING_FROM_CHECKPOINT: i64 = 22_302;
    log.iter().any(|line| [LOCK_FILE_NOT_EMPTY, RECOVERING_FROM_CHECKPOINT].contains(&line.id))
}

/// A path that does not exist yet.
pub fn run_dir(below: &Path) -> RunDir {
    RunDir(below.join("run"))
}
