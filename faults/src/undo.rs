//! The durable undo journal: what is broken right now and how to put it back.
//!
//! One JSON object a line, appended and synced **before** the fault it belongs to is injected, and
//! once more when the fault was lifted. A killed tester leaves a journal from which the open
//! entries can be read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What lifting must do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Start the node's process again.
    Start {
        /// The node.
        node: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Open { id: u64, fault: String, action: Action },
    Close { id: u64 },
}

/// An entry that was written and not yet closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in this journal.
    pub id: u64,
    /// Id of the planned fault.
    pub fault: String,
    /// What lifting must do.
    pub action: Action,
}

/// The journal of one run; the only writer of its file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next: u64,
}

impl Journal {
    /// Opens or makes the journal at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened or holds something else.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let next = if path.exists() { read(path)?.0 } else { 0 };
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { path: path.into(), file, next })
    }

    /// Notes an action, synced to disk when this returns. Call before injecting.
    ///
    /// # Errors
    /// When it cannot be written: then the fault must not be injected.
    pub fn note(&mut self, fault: &str, action: &Action) -> std::io::Result<u64> {
        let id = self.next;
        self.next += 1;
        self.append(&Line::Open { id, fault: fault.into(), action: action.clone() })?;
        Ok(id)
    }

    /// Notes that an entry was undone.
    ///
    /// # Errors
    /// When it cannot be written; the entry then stays open, which is safe.
    pub fn close(&mut self, id: u64) -> std::io::Result<()> {
        self.append(&Line::Close { id })
    }

    /// What is still open, newest first: the order in which to undo it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open_entries(&self) -> std::io::Result<Vec<Entry>> {
        Ok(read(&self.path)?.1)
    }

    fn append(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// Next free id and the open entries, newest first. A torn last line (a killed writer) is no entry:
/// its fault was not injected yet.
fn read(path: &Path) -> std::io::Result<(u64, Vec<Entry>)> {
    let mut open: Vec<Entry> = Vec::new();
    let mut next = 0;
    for line in BufReader::new(File::open(path)?).lines() {
        match serde_json::from_str(&line?) {
            Ok(Line::Open { id, fault, action }) => {
                next = next.max(id + 1);
                open.push(Entry { id, fault, action });
            }
            Ok(Line::Close { id }) => open.retain(|e| e.id != id),
            Err(_) => break,
        }
    }
    open.reverse();
    Ok((next, open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(node: &str) -> Action {
        Action::Start { node: node.into() }
    }

    #[test]
    fn open_entries_are_newest_first_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let a = journal.note("f1", &start("node1")).unwrap();
        let b = journal.note("f2", &start("node2")).unwrap();
        let c = journal.note("f3", &start("node3")).unwrap();
        journal.close(b).unwrap();
        let mut again = Journal::open(&path).unwrap();
        let open: Vec<_> = again.open_entries().unwrap().iter().map(|e| e.id).collect();
        assert_eq!(open, [c, a]);
        assert_eq!(again.note("f4", &start("node1")).unwrap(), 3);
    }

    #[test]
    fn a_torn_tail_is_no_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.note("f1", &start("node1")).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"open\":{\"id\":1,")
            .unwrap();
        assert_eq!(journal.open_entries().unwrap().len(), 1);
    }
}
