//! Which folders have a journal that may be open: a link for each in the user's state folder, so that the next start
//! finds what a killed tester left.

use std::io;
use std::path::{Path, PathBuf};

use crate::state;

/// One link.
#[derive(Debug)]
pub struct Registration(PathBuf);

impl Registration {
    /// Nothing of it is left to be undone.
    pub fn done(self) {
        // A link that stays leads to a journal in which nothing is open: no harm.
        let _stays = std::fs::remove_file(self.0);
    }
}

fn folder() -> Option<PathBuf> {
    Some(state::dir()?.join("open"))
}

/// Makes it known that faults will be injected from this folder. Without a state folder, only `heal` will know.
///
/// # Errors
/// When the link cannot be made.
pub fn register(dir: &Path) -> io::Result<()> {
    let Some(folder) = folder() else { return Ok(()) };
    std::fs::create_dir_all(&folder)?;
    let dir = std::path::absolute(dir)?;
    let name = format!("{}-{:016x}", std::process::id(), crate::entropy::draw());
    let link = folder.join(name);
    std::os::unix::fs::symlink(dir, link)
}

/// Nothing of this folder is left to be undone: the next start need not look at it.
pub fn forget(dir: &Path) {
    let real = dir.canonicalize();
    let same = |other: &Path| real.as_ref().is_ok_and(|dir| other.canonicalize().is_ok_and(|o| o == *dir));
    leftovers().into_iter().filter(|(_, other)| same(other)).for_each(|(link, _)| link.done());
}

/// All folders that are registered, those of living testers included.
#[must_use]
pub fn leftovers() -> Vec<(Registration, PathBuf)> {
    let Some(entries) = folder().and_then(|folder| std::fs::read_dir(folder).ok()) else { return Vec::new() };
    let one = |entry: std::fs::DirEntry| {
        let dir = std::fs::read_link(entry.path()).ok()?;
        Some((Registration(entry.path()), dir))
    };
    entries.flatten().filter_map(one).collect()
}
