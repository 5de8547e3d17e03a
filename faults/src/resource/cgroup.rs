//! Control groups, versions 1 and 2: one group for one server, made for a fault and removed with it. Knows files
//! and folders only; nothing of faults.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// A group is left only when its last process has left the kernel.
const LEAVE_TRIES: u32 = 30;
const LEAVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
/// Begins the name of every group of ours.
const OURS: &str = "mongosoak-";

/// What a group can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Block devices.
    Io,
    /// Memory.
    Memory,
    /// Processors.
    Cpu,
}

impl Controller {
    const fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Io, Version::One) => "blkio",
            (Self::Io, Version::Two) => "io",
            (Self::Memory, _) => "memory",
            (Self::Cpu, _) => "cpu",
        }
    }
}

/// Version of the control groups of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// The hierarchy of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version: decides how the files are called.
    pub version: Version,
    controller: Controller,
    /// Where it is mounted.
    mount: PathBuf,
    /// Which group is mounted there; `/` unless this is a container with a part of its own.
    part: PathBuf,
}

impl Hierarchy {
    /// The hierarchy of this controller, if groups can be made in it.
    ///
    /// # Errors
    /// What is missing, as a sentence.
    pub fn find(controller: Controller) -> Result<Self, String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
        let found = Self::among(&mounts, controller)?;
        access(&found.mount, AccessFlags::W_OK)
            .map_err(|e| format!("{}: {e}; run as root", found.mount.display()))?;
        Ok(found)
    }

    /// The hierarchy of this controller in a `mountinfo`.
    fn among(mounts: &str, controller: Controller) -> Result<Self, String> {
        let all: Vec<_> = mounts.lines().filter_map(Mount::read).collect();
        let one = controller.name(Version::One);
        let first = all.iter().find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == one));
        if let Some(mount) = first {
            return Ok(mount.hierarchy(Version::One, controller));
        }
        let two = controller.name(Version::Two);
        let offers = |mount: &Mount<'_>| {
            let offered = std::fs::read_to_string(Path::new(mount.at).join("cgroup.controllers"));
            offered.is_ok_and(|offered| offered.split_whitespace().any(|name| name == two))
        };
        let second = all.iter().find(|m| m.kind == "cgroup2" && offers(m));
        second.map(|mount| mount.hierarchy(Version::Two, controller)).ok_or_else(|| {
            format!("no control group of this machine has the controller {two:?} (nor {one:?} of version 1)")
        })
    }

    /// The folder of the group in which a process is.
    #[must_use]
    pub fn group_of(&self, pid: i32) -> Option<PathBuf> {
        self.group_in(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
    }

    fn group_in(&self, listed: &str) -> Option<PathBuf> {
        let wanted = self.controller.name(self.version);
        let path = listed.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let ours = match self.version {
                Version::One => controllers.split(',').any(|name| name == wanted),
                Version::Two => controllers.is_empty(),
            };
            ours.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(&self.part).ok()?;
        Some(if below.as_os_str().is_empty() { self.mount.clone() } else { self.mount.join(below) })
    }

    /// The group for one server, which need not exist.
    #[must_use]
    pub fn group(&self, pid: i32, start_ticks: u64) -> Group {
        Group(self.mount.join(format!("{OURS}{pid}-{start_ticks}")))
    }

    /// Makes a group, so that its controller can be used in it.
    ///
    /// # Errors
    /// What the system said.
    pub fn create(&self, group: &Group) -> io::Result<()> {
        if self.version == Version::Two {
            let name = self.controller.name(self.version);
            let control = self.mount.join("cgroup.subtree_control");
            // It stays switched on: others may have begun to use it meanwhile, and it costs nothing.
            if !std::fs::read_to_string(&control)?.split_whitespace().any(|on| on == name) {
                std::fs::write(&control, format!("+{name}"))?;
            }
        }
        match std::fs::create_dir(&group.0) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

/// One line of `mountinfo`.
struct Mount<'a> {
    part: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (part, at) = (place.next()?, place.next()?);
        let mut what = what.split(' ');
        let (kind, _, options) = (what.next()?, what.next()?, what.next()?);
        Some(Self { part, at, kind, options })
    }

    fn hierarchy(&self, version: Version, controller: Controller) -> Hierarchy {
        Hierarchy { version, controller, mount: self.at.into(), part: self.part.into() }
    }
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(PathBuf);

impl Group {
    /// The group in this folder, if its name is one that we give.
    #[must_use]
    pub fn ours(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        name.starts_with(OURS).then(|| Self(folder.into()))
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Reads one of its files.
    ///
    /// # Errors
    /// What the system said.
    pub fn read(&self, file: &str) -> io::Result<String> {
        Ok(std::fs::read_to_string(self.0.join(file))?.trim().to_owned())
    }

    /// Writes one of its files.
    ///
    /// # Errors
    /// What the system said, with the file's name.
    pub fn write(&self, file: &str, value: &str) -> io::Result<()> {
        let path = self.0.join(file);
        std::fs::write(&path, value)
            .map_err(|e| io::Error::new(e.kind(), format!("write {value:?} to {}: {e}", path.display())))
    }

    /// The number behind a name in one of its files: `nr_throttled 12`.
    #[must_use]
    pub fn count(&self, file: &str, name: &str) -> Option<u64> {
        let text = self.read(file).ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// Moves a process with all its threads into it.
    ///
    /// # Errors
    /// What the system said.
    pub fn take(&self, pid: i32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Whether a process is in it.
    #[must_use]
    pub fn holds(&self, pid: i32) -> bool {
        self.read("cgroup.procs").is_ok_and(|all| all.lines().any(|line| line == pid.to_string()))
    }

    /// Moves everything that is in it to where it was before, and removes it. Nothing to do when it is gone.
    ///
    /// # Errors
    /// What the system said.
    pub async fn dissolve(&self, former: &Path) -> io::Result<()> {
        let mut tries_left = LEAVE_TRIES;
        loop {
            if !self.0.exists() {
                return Ok(());
            }
            for process in self.read("cgroup.procs")?.lines() {
                // One that is ending cannot be moved, and need not be.
                let _ending = std::fs::write(former.join("cgroup.procs"), process);
            }
            tries_left -= 1;
            match std::fs::remove_dir(&self.0) {
                Err(_) if tries_left > 0 => tokio::time::sleep(LEAVE_PAUSE).await,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of version 2, with a folder in the place of its hierarchy.
    fn version_two(dir: &Path) -> Hierarchy {
        std::fs::write(dir.join("cgroup.controllers"), "cpu io memory\n").unwrap();
        std::fs::write(dir.join("cgroup.subtree_control"), "memory\n").unwrap();
        let mounts = format!("30 24 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", dir.display());
        Hierarchy::among(&mounts, Controller::Io).unwrap()
    }

    #[test]
    fn version_one_is_taken_by_the_options_of_its_mount() {
        let mounts = "36 32 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      37 32 0:34 /docker/x /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio\n";
        let cpu = Hierarchy::among(mounts, Controller::Cpu).unwrap();
        assert_eq!((cpu.version, cpu.mount.to_str()), (Version::One, Some("/sys/fs/cgroup/cpu,cpuacct")));
        let listed = "9:name=systemd:/\n7:blkio:/docker/x/y\n2:cpu,cpuacct:/\n0::/\n";
        assert_eq!(cpu.group_in(listed).unwrap(), Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        let io = Hierarchy::among(mounts, Controller::Io).unwrap();
        assert_eq!(io.group_in(listed).unwrap(), Path::new("/sys/fs/cgroup/blkio/y"));
        let none = Hierarchy::among(mounts, Controller::Memory).unwrap_err();
        assert!(none.contains("no control group of this machine has the controller \"memory\""), "{none}");
    }

    #[tokio::test]
    async fn version_two_switches_its_controller_on_and_keeps_all_in_one_hierarchy() {
        let dir = tempfile::tempdir().unwrap();
        let two = version_two(dir.path());
        assert_eq!(two.group_in("0::/system.slice/a.service\n").unwrap(), dir.path().join("system.slice/a.service"));
        let group = two.group(47, 11);
        two.create(&group).unwrap();
        two.create(&group).unwrap();
        assert_eq!(group.folder(), dir.path().join("mongosoak-47-11"));
        assert_eq!(std::fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap(), "+io");
        group.write("io.max", "8:0 riops=80").unwrap();
        assert_eq!(group.read("io.max").unwrap(), "8:0 riops=80");
        group.write("cpu.stat", "nr_periods 7\nnr_throttled 3\n").unwrap();
        assert_eq!(group.count("cpu.stat", "nr_throttled"), Some(3));
        group.take(47).unwrap();
        assert!(group.holds(47) && !group.holds(4));
        assert_eq!(Group::ours(group.folder()), Some(group));
        assert_eq!(Group::ours(dir.path()), None);
    }

    #[tokio::test]
    async fn what_is_in_a_group_goes_back_to_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let two = version_two(dir.path());
        let (group, former) = (two.group(47, 11), dir.path().join("former"));
        two.create(&group).unwrap();
        std::fs::create_dir(&former).unwrap();
        group.take(47).unwrap();
        // A plain folder goes only when it is empty; the kernel's does with its files.
        let leaves = async {
            while !former.join("cgroup.procs").exists() {
                tokio::task::yield_now().await;
            }
            std::fs::remove_file(group.folder().join("cgroup.procs")).unwrap();
            std::fs::write(group.folder().join("cgroup.procs"), "").unwrap();
            std::fs::remove_dir_all(group.folder()).unwrap();
        };
        let (dissolved, ()) = tokio::join!(group.dissolve(&former), leaves);
        dissolved.unwrap();
        assert_eq!(std::fs::read_to_string(former.join("cgroup.procs")).unwrap(), "47");
        group.dissolve(&former).await.unwrap();
    }
}
