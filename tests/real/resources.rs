//! What the tests of resources share: documents, and a server as the kernel shows it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use faults::Deployment;
use faults::catalog::Need;

use super::set::{LONG, Set};

pub const GIB: u64 = 1 << 30;
/// Long enough to see that nothing comes.
pub const SOON: Duration = Duration::from_secs(3);
const DOCUMENT_BYTES: u32 = 64 << 10;

/// Whether this test may do what only root may.
pub fn root() -> bool {
    Need::Root.missing().is_none()
}

/// Who leads, when all is well.
pub async fn leader(set: &Set) -> String {
    set.healthy().await.primary().unwrap().name.clone()
}

/// Documents that cannot be compressed.
pub fn documents(count: u32) -> Vec<Document> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let bytes =
        |random: &mut dyn FnMut() -> [u8; 8]| (0..DOCUMENT_BYTES / 8).flat_map(|_| random()).collect();
    let one = |_| doc! { "x": Binary { subtype: BinarySubtype::Generic, bytes: bytes(&mut random) } };
    (0..count).map(one).collect()
}

/// An insert of that many documents.
pub fn insert(count: u32, concern: Document) -> Document {
    doc! { "insert": "docs", "documents": documents(count), "writeConcern": concern }
}

/// Documents on every node, and on its disk.
pub async fn fill(set: &Set) {
    let primary = leader(set).await;
    let all = insert(128, doc! { "w": 3, "j": true });
    set.cluster.command(&primary, "soak", &all, LONG).await.unwrap();
    for node in ["node1", "node2", "node3"] {
        set.ask(node, doc! { "fsync": 1 }).await;
    }
}

/// Bytes that a process has had read from disk.
pub fn read_bytes(pid: i32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap().parse().unwrap()
}

/// The control groups of a process, as the kernel lists them.
pub fn groups(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
}

/// The server is in no group of ours any more, and the group is gone.
pub async fn is_free(set: &Set, node: &str, group: &Path) {
    let pid = set.cluster.pid(node).await.unwrap();
    assert!(!groups(pid).contains("mongosoak"), "{}", groups(pid));
    assert!(!group.exists());
    set.assert_clean().await;
}

/// The group that a fault has made.
pub fn group(evidence: &faults::Evidence) -> PathBuf {
    evidence["group"].as_str().unwrap().into()
}

/// Who leads while another is broken.
pub async fn leader_of(set: &Set) -> String {
    set.cluster.view().await.primary().unwrap().name.clone()
}
