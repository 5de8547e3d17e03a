//! What of a folder's files the kernel keeps in memory, and how it is made to forget it. Needs no rights beyond
//! those to read the files.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;
use serde_json::json;

use crate::{Evidence, facts};

/// What became of the cached pages of a folder's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Files that were looked at.
    pub files: u64,
    /// Bytes of them in memory before.
    pub before_bytes: u64,
    /// Bytes of them in memory right after.
    pub after_bytes: u64,
}

impl Dropped {
    /// As evidence.
    #[must_use]
    pub fn facts(&self) -> Evidence {
        facts([
            ("files", json!(self.files)),
            ("cached_bytes_before", json!(self.before_bytes)),
            ("cached_bytes_after", json!(self.after_bytes)),
        ])
    }
}

/// Writes out and drops all pages of all files below a folder.
///
/// # Errors
/// When the folder cannot be read, or a file neither read nor dropped.
pub async fn drop_all(folder: &Path) -> io::Result<Dropped> {
    let mut dropped = Dropped::default();
    for path in files(folder)? {
        let Some(file) = open(&path)? else { continue };
        dropped.files += 1;
        dropped.before_bytes += cached_bytes(&file)?;
        // Pages that are not yet on disk cannot be dropped.
        let file = tokio::fs::File::from_std(file);
        file.sync_data().await?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        dropped.after_bytes += cached_bytes(&file.into_std().await)?;
    }
    Ok(dropped)
}

/// Bytes of all files below a folder that are in memory now.
///
/// # Errors
/// When the folder or a file cannot be read.
pub fn cached_below(folder: &Path) -> io::Result<u64> {
    let mut all = 0;
    for path in files(folder)? {
        if let Some(file) = open(&path)? {
            all += cached_bytes(&file)?;
        }
    }
    Ok(all)
}

/// A server removes files at any time: then there is nothing to drop.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !found.is_empty() => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// How much of a file is in memory.
fn cached_bytes(file: &File) -> io::Result<u64> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let Some(length) = NonZeroUsize::new(length) else { return Ok(0) };
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
    let mut pages = vec![0_u8; length.get().div_ceil(page)];
    // SAFETY: a new mapping of our own of an open file, which nobody reads or writes.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length.get(),
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is of this length, and the list has a byte for each of its pages.
    let result = unsafe { libc::mincore(mapped, length.get(), pages.as_mut_ptr()) };
    let asked = if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping that was made above; nothing refers to it.
    unsafe { libc::munmap(mapped, length.get()) };
    asked?;
    let cached = pages.iter().filter(|page| **page & 1 == 1).count();
    Ok((cached * page).min(length.get()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_written_is_in_memory_until_it_is_dropped() {
        // Not in the folder for temporary files: that may be nothing but memory.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/file"), vec![1; 1 << 20]).unwrap();
        std::fs::write(dir.path().join("empty"), b"").unwrap();
        assert_eq!(cached_below(dir.path()).unwrap(), 1 << 20);
        let dropped = drop_all(dir.path()).await.unwrap();
        assert_eq!(dropped, Dropped { files: 2, before_bytes: 1 << 20, after_bytes: 0 });
        assert_eq!(cached_below(dir.path()).unwrap(), 0);
        assert!(drop_all(&dir.path().join("none")).await.is_err());
    }
}
