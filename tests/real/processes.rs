//! Processes as the kernel shows them. A process is ours if its data lies in the test's folder.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Servers whose data lies below `dir`.
pub fn servers(dir: &Path) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| data_folder(*pid).is_some_and(|data| Path::new(&data).starts_with(dir))).collect()
}

fn data_folder(pid: i32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"--dbpath")?;
    Some(String::from_utf8_lossy(arguments.next()?).into_owned())
}

/// State letter of a process, `Z` for one that has ended and was not waited for; `None`: there is none.
pub fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the bracket may hold anything.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Sends a signal to a process that this test, or the program under test, started.
pub fn signal(pid: i32, signal: Signal) {
    // Gone already: the test looks at what is left, not at this.
    let _gone = kill(Pid::from_raw(pid), signal);
}
