//! The durable undo journal: what is broken right now and how to put it back.
//!
//! One JSON object a line, appended and synced **before** the fault it belongs to is injected, and
//! once more when the fault was lifted. A killed tester leaves a journal from which the open
//! entries can be read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{Memo, Spec};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Open(Entry),
    Close { id: u64 },
}

/// What was about to be done to one node: all that lifting needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number in this journal.
    pub id: u64,
    /// Id of the planned fault.
    pub fault: String,
    /// What is done.
    pub r#do: Spec,
    /// The node in hand.
    pub node: String,
    /// All nodes of this fault.
    pub nodes: Vec<String>,
    /// What the fault wanted to remember.
    pub memo: Memo,
    /// Chance, drawn with the plan.
    pub tie: u64,
}

/// The journal of one run; the only writer of its file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Locked for as long as its process lives: an open entry of a journal that nobody holds is a leftover.
    file: Flock<File>,
    next: u64,
}

impl Journal {
    /// Opens or makes the journal at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened or holds something else; `WouldBlock` when another process works with it.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)?;
        let next = read(path)?.0;
        Ok(Self { path: path.into(), file, next })
    }

    /// Notes what is about to be done, synced to disk when this returns. Call before injecting. The number of
    /// the entry is given here.
    ///
    /// # Errors
    /// When it cannot be written: then the fault must not be injected.
    pub fn note(&mut self, entry: Entry) -> std::io::Result<u64> {
        let id = self.next;
        self.next += 1;
        self.append(&Line::Open(Entry { id, ..entry }))?;
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
        open_entries(&self.path)
    }

    fn append(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}

/// What is open in a journal, whoever holds it; newest first.
///
/// # Errors
/// When the file cannot be read.
pub fn open_entries(path: &Path) -> std::io::Result<Vec<Entry>> {
    Ok(read(path)?.1)
}

/// Next free id and the open entries, newest first. A torn last line (a killed writer) is no entry:
/// its fault was not injected yet.
fn read(path: &Path) -> std::io::Result<(u64, Vec<Entry>)> {
    let mut open: Vec<Entry> = Vec::new();
    let mut next = 0;
    for line in BufReader::new(File::open(path)?).lines() {
        match serde_json::from_str(&line?) {
            Ok(Line::Open(entry)) => {
                next = next.max(entry.id + 1);
                open.push(entry);
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

    fn start(fault: &str, node: &str) -> Entry {
        let kill = Spec::new("kill", &serde_json::json!({ "target": node })).unwrap();
        let memo = crate::facts([("pid", 7.into())]);
        Entry {
            id: 0,
            fault: fault.into(),
            r#do: kill,
            node: node.into(),
            nodes: vec![node.into()],
            memo,
            tie: u64::MAX,
        }
    }

    #[test]
    fn open_entries_are_newest_first_and_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let a = journal.note(start("f1", "node1")).unwrap();
        let b = journal.note(start("f2", "node2")).unwrap();
        let c = journal.note(start("f3", "node3")).unwrap();
        journal.close(b).unwrap();
        // Whoever works with it keeps everybody else away.
        let held = Journal::open(&path).unwrap_err();
        assert_eq!(held.kind(), std::io::ErrorKind::WouldBlock);
        drop(journal);
        let mut again = Journal::open(&path).unwrap();
        let open = again.open_entries().unwrap();
        assert_eq!(open.iter().map(|e| e.id).collect::<Vec<_>>(), [c, a]);
        assert_eq!(open[1], Entry { id: a, ..start("f1", "node1") });
        assert_eq!(again.note(start("f4", "node1")).unwrap(), 3);
    }

    #[test]
    fn a_torn_tail_is_no_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("undo.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.note(start("f1", "node1")).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"open\":{\"id\":1,")
            .unwrap();
        assert_eq!(journal.open_entries().unwrap().len(), 1);
    }
}
