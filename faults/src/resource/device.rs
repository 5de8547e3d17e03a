//! On which disk a folder is, and what else is there.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

/// The whole disk that holds a folder, as `MAJOR:MINOR`.
///
/// # Errors
/// When it is on no block device, as a sentence.
pub fn disk_of(folder: &Path) -> Result<String, String> {
    let device = number_of(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let own = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let Ok(own) = own.canonicalize() else {
        return Err(format!("{} is on no disk of its own (memory, or a layered file system)", folder.display()));
    };
    // Limits are for whole disks: a partition's folder lies in that of its disk.
    let disk = if own.join("partition").exists() { own.parent().unwrap_or(&own) } else { &own };
    let number = std::fs::read_to_string(disk.join("dev"));
    number.map(|number| number.trim().to_owned()).map_err(|e| format!("{}: {e}", disk.display()))
}

/// Whether two folders are on the same file system.
///
/// # Errors
/// When one of them cannot be looked at.
pub fn same_file_system(a: &Path, b: &Path) -> std::io::Result<bool> {
    Ok(number_of(a)? == number_of(b)?)
}

/// Whether a file system begins at this folder, so that it holds nothing else.
///
/// # Errors
/// When it cannot be looked at.
pub fn is_mount_point(folder: &Path) -> std::io::Result<bool> {
    same_file_system(folder, &folder.join("..")).map(|same| !same)
}

fn number_of(path: &Path) -> std::io::Result<u64> {
    Ok(std::fs::metadata(path)?.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_its_own_is_told_from_one_that_holds_more() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        assert!(!is_mount_point(Path::new("/proc/self")).unwrap());
        assert!(is_mount_point(Path::new("/nowhere")).is_err());
        let memory = disk_of(Path::new("/proc")).unwrap_err();
        assert!(memory.contains("is on no disk of its own"), "{memory}");
    }
}
