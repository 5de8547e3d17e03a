//! A disk of its own for each node: an image in its folder, mounted where its data lies. So a node's disk can be
//! filled or frozen without anything else being hit. Needs root, and the tools of util-linux and e2fsprogs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::ClusterError;

const IMAGE: &str = "disk.img";
const DATA: &str = "db";
/// An image of some gigabytes is made and mounted within a second.
const DEADLINE: Duration = Duration::from_secs(60);
/// The last files of a process that was killed are closed a moment after its end.
const UNMOUNT_TRIES: u32 = 50;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);

/// Makes the disk of a node, if it is to have one, and mounts it; one that an earlier run has made is mounted as it
/// is, because the data is there.
///
/// # Errors
/// What is missing, or what the tools said.
pub async fn attach(node_dir: &Path, bytes: Option<u64>) -> Result<(), ClusterError> {
    let (image, data) = (node_dir.join(IMAGE), node_dir.join(DATA));
    let failed = |why: String| ClusterError::OwnDisk { path: image.clone(), why };
    let bytes = match bytes {
        None if !image.exists() => return Ok(()),
        bytes => bytes.unwrap_or_default(),
    };
    if !nix::unistd::geteuid().is_root() {
        return Err(failed("mounting needs root; run as root, or leave out `disk`".into()));
    }
    std::fs::create_dir_all(&data).map_err(|e| ClusterError::folder(&data, &e))?;
    if !image.exists() {
        let hidden = std::fs::read_dir(&data).is_ok_and(|mut files| files.next().is_some());
        if hidden {
            return Err(failed(
                "there is data already, without a disk of its own; name another folder".into(),
            ));
        }
        // Finished under another name: a start that is cut off leaves no half image behind.
        let fresh = node_dir.join(format!("{IMAGE}.new"));
        make(&fresh, bytes).await.map_err(failed)?;
        std::fs::rename(&fresh, &image).map_err(|e| failed(e.to_string()))?;
    }
    run("mount", &["-o", "loop", &text(&image), &text(&data)]).await.map_err(failed)
}

/// The space is taken now: a disk that runs full because another one did would be no finding.
async fn make(image: &Path, bytes: u64) -> Result<(), String> {
    let _none = std::fs::remove_file(image);
    run("fallocate", &["--length", &bytes.to_string(), &text(image)]).await?;
    run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(image)]).await
}

/// Lets writes to the disks below a folder go on, so that whoever waits for one can end.
pub fn thaw_below(dir: &Path) {
    for data in mounted_below(dir) {
        // What is not frozen, or gone by now, need not be thawed.
        let _not_frozen = faults::resource::thaw(&data);
    }
}

/// Unmounts every disk below a folder, also of an earlier tester that was killed. Their nodes must have ended.
///
/// # Errors
/// Which one stays mounted, and why.
pub async fn detach_below(dir: &Path) -> Result<(), ClusterError> {
    thaw_below(dir);
    for data in mounted_below(dir) {
        let mut tries_left = UNMOUNT_TRIES;
        while let Err(why) = run("umount", &[&text(&data)]).await {
            tries_left -= 1;
            if tries_left == 0 {
                return Err(ClusterError::OwnDisk { path: data, why });
            }
            tokio::time::sleep(UNMOUNT_PAUSE).await;
        }
    }
    Ok(())
}

/// Data folders below a folder on which one of our images is mounted.
#[must_use]
pub fn mounted_below(dir: &Path) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // A run directory may hold only a link to the data.
    dir.canonicalize().map(|dir| ours(&mounts, &dir)).unwrap_or_default()
}

fn ours(mounts: &str, dir: &Path) -> Vec<PathBuf> {
    let at = |line: &str| Some(PathBuf::from(unescaped(line.split(' ').nth(4)?)));
    let is_ours =
        |path: &PathBuf| path.starts_with(dir) && path.ends_with(DATA) && path.with_file_name(IMAGE).exists();
    mounts.lines().filter_map(at).filter(is_ours).collect()
}

/// The kernel writes a space in a path as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Runs a tool to its end.
async fn run(tool: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = tokio::process::Command::new(tool);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(DEADLINE, command.output()).await;
    let output = ended.map_err(|_| format!("{tool} did not end within {} s", DEADLINE.as_secs()))?;
    let output = output.map_err(|e| format!("run {tool}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{tool}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_of_ours_below_the_folder_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a run");
        for node in ["node1", "node2"] {
            std::fs::create_dir_all(root.join(node).join(DATA)).unwrap();
        }
        std::fs::write(root.join("node1").join(IMAGE), "").unwrap();
        let line = |path: &Path| {
            format!("42 27 7:0 / {} rw - ext4 /dev/loop0 rw\n", text(path).replace(' ', "\\040"))
        };
        let mounts: String = [root.join("node1/db"), root.join("node2/db"), "/elsewhere/db".into()]
            .iter()
            .map(|path| line(path))
            .collect();
        assert_eq!(ours(&mounts, &root), [root.join("node1/db")]);
        assert!(ours(&mounts, Path::new("/another")).is_empty());
    }
}
