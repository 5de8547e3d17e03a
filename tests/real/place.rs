//! A folder of a test. When the test is over, however it ended, no server whose data lies in it lives on.

use std::path::{Path, PathBuf};

use mongosoak::cluster::{binary, own_disk};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::processes;

pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(TempDir::with_prefix("mongosoak-real-").unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A program that runs `script` at each start of a server and then becomes the real server. The script
    /// sees the server's arguments, and the number of this start (from 1) as `$start`.
    pub async fn wrapped_mongod(&self, script: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let real = binary::find(None).await.unwrap();
        let library = real.library_path.map(|path| format!("export LD_LIBRARY_PATH={}\n", path.display()));
        let (real, library) = (real.path.display(), library.unwrap_or_default());
        let starts = self.path().join("starts");
        let text = format!(
            "#!/bin/sh\n{library}case \"$*\" in *--version*) exec {real} \"$@\";; esac\n\
             echo x >> {starts}\nstart=$(wc -l < {starts})\n{script}\nexec {real} \"$@\"\n",
            starts = starts.display(),
        );
        let path = self.file("mongod-wrapped", &text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in processes::servers(self.path()) {
            processes::signal(pid, Signal::SIGKILL);
        }
        release_disks(self.path());
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("kept for a look: {}", self.path().display());
        }
    }
}

/// A test that failed in the middle has left the disks of its nodes mounted, perhaps frozen.
fn release_disks(dir: &Path) {
    own_disk::thaw_below(dir);
    for disk in own_disk::mounted_below(dir) {
        // Lazily: the processes that were killed a moment ago may not be gone yet.
        let _stays = std::process::Command::new("umount").arg("--lazy").arg(disk).status();
    }
}
