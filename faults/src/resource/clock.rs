//! The clock library: a server that was started with it can be given another time.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Compiled with this crate; empty when there was no C compiler.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));
const LIBRARY_FILE: &str = "mongosoak-clock.so";
const OFFSET_FILE: &str = "mongosoak-clock-offset";
/// Names the file with the offset; the library reads it.
const VARIABLE: &str = "MONGOSOAK_CLOCK";

/// Why no server can be started with it; `None`: it can.
#[must_use]
pub fn missing() -> Option<String> {
    LIBRARY
        .is_empty()
        .then(|| "this program was built without a C compiler, so without its clock library".into())
}

/// Puts the library into a folder, with an offset of zero. What is returned belongs into the environment of the
/// server; nothing when the library is [`missing`].
///
/// # Errors
/// When a file cannot be written.
pub fn install(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    if LIBRARY.is_empty() {
        return Ok(BTreeMap::new());
    }
    let folder = folder.canonicalize()?;
    let (library, offset) = (folder.join(LIBRARY_FILE), folder.join(OFFSET_FILE));
    std::fs::write(&library, LIBRARY)?;
    std::fs::write(&offset, 0_i64.to_ne_bytes())?;
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    Ok(BTreeMap::from([("LD_PRELOAD".into(), text(library)), (VARIABLE.into(), text(offset))]))
}

/// The file that shifts the clock of a process; `None`: it was not started with the library.
#[must_use]
pub fn offset_file(pid: i32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut pairs = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let file = pairs.find_map(|pair| Some(PathBuf::from(pair.strip_prefix(VARIABLE)?.strip_prefix('=')?)))?;
    let mapped = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    (mapped.contains(LIBRARY_FILE) && is_ours(&file)).then_some(file)
}

/// Whether a file is an offset of ours, by its name.
#[must_use]
pub fn is_ours(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == OFFSET_FILE)
}

/// The offset now, in nanoseconds.
///
/// # Errors
/// When the file cannot be read.
pub fn offset(file: &Path) -> io::Result<i64> {
    let mut bytes = [0; 8];
    OpenOptions::new().read(true).open(file)?.read_exact_at(&mut bytes, 0)?;
    Ok(i64::from_ne_bytes(bytes))
}

/// Sets the offset, at once for every process that has the file mapped.
///
/// # Errors
/// When the file cannot be written.
pub fn set_offset(file: &Path, nanoseconds: i64) -> io::Result<()> {
    // In place and in one piece: it is mapped.
    OpenOptions::new().write(true).open(file)?.write_all_at(&nanoseconds.to_ne_bytes(), 0)
}
