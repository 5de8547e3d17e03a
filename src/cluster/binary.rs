//! Finds and vets the mongod to start: looks in order, asks it for its version, says which one it took.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Names a mongod when neither the command line nor the scenario does.
pub const ENV: &str = "MONGOSOAK_MONGOD";
/// Longest that `mongod --version` may take (a cold disk, a loaded machine).
const VERSION_DEADLINE: Duration = Duration::from_secs(20);
/// Older servers speak a wire version that the driver refuses.
const OLDEST: Version = Version(4, 4, 0);

/// Version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    /// Whether `6`, `6.0` or `6.0.5` names this version.
    fn fits(self, prefix: &str) -> bool {
        let text = self.to_string();
        text == prefix || text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// A mongod that ran `--version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// What it says it is.
    pub version: Version,
    /// Libraries that came with it (`../lib`), for its process only.
    pub library_path: Option<PathBuf>,
    /// Which rule found it, for people.
    pub found_by: &'static str,
}

/// No usable mongod.
#[derive(Debug, thiserror::Error)]
#[error(
    "no usable mongod{wanted}; looked at:\n{tried}\nInstall one, name it with --mongod PATH or {ENV}, or get one with \
     `scripts/get-mongod{hint}`"
)]
pub struct NotFound {
    wanted: String,
    hint: String,
    tried: String,
}

/// Finds a mongod. `choice` (from `--mongod` or the scenario) is a path when it holds a `/`, else a
/// version prefix, looked for in `MONGOSOAK_MONGOD`, PATH and the cache. `None` takes what
/// `MONGOSOAK_MONGOD` names, and nothing else when that is set; else the first of PATH, or the newest of
/// the cache.
///
/// # Errors
/// Lists every place that was looked at, and what was wrong with it.
pub async fn find(choice: Option<&str>) -> Result<Binary, NotFound> {
    let prefix = choice.filter(|c| !c.contains('/'));
    let mut tried = Vec::new();
    for (found_by, path) in candidates(choice) {
        match vet(&path, found_by).await {
            Ok(binary) if prefix.is_none_or(|p| binary.version.fits(p)) => return Ok(binary),
            Ok(binary) => tried.push(format!("  {} ({found_by}): is {}", path.display(), binary.version)),
            Err(why) => tried.push(format!("  {} ({found_by}): {why}", path.display())),
        }
    }
    if tried.is_empty() {
        let cache = cache_dir().map_or_else(|| "(no home folder)".into(), |d| d.display().to_string());
        tried.push(format!("  {ENV} (not set), PATH (no mongod in it), {cache} (empty)"));
    }
    let wanted = choice.map_or_else(String::new, |c| format!(" for \"{c}\""));
    let hint = prefix.map_or_else(String::new, |p| format!(" {p}"));
    Err(NotFound { wanted, hint, tried: tried.join("\n") })
}

fn candidates(choice: Option<&str>) -> Vec<(&'static str, PathBuf)> {
    if let Some(path) = choice.filter(|c| c.contains('/')) {
        return vec![("as named", PathBuf::from(path))];
    }
    let mut all = Vec::new();
    if let Some(path) = std::env::var_os(ENV).filter(|p| !p.is_empty()) {
        all.push((ENV, PathBuf::from(path)));
        if choice.is_none() {
            // Who names a server does not want to measure another one by mistake.
            return all;
        }
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).map(|dir| dir.join("mongod")).filter(|p| p.exists());
    all.extend(on_path.map(|path| ("PATH", path)));
    all.extend(cached().into_iter().map(|path| ("cache", path)));
    all
}

/// The per-user folder that `scripts/get-mongod` fills: `<version>/bin/mongod`.
#[must_use]
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("mongosoak/mongod"))
}

/// Cached binaries, newest version first.
fn cached() -> Vec<PathBuf> {
    let entries = cache_dir().and_then(|dir| std::fs::read_dir(dir).ok());
    let mut found: Vec<(Option<Version>, PathBuf)> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (parse(&entry.file_name().to_string_lossy()), entry.path().join("bin/mongod")))
        .filter(|(_, path)| path.exists())
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Finds a mongos: the one at the path `choice`, else one on PATH or beside the mongod. `None`: there is none.
///
/// # Errors
/// When what was named is no mongos.
pub async fn find_mongos(choice: Option<&str>, mongod: &Binary) -> Result<Option<Binary>, String> {
    if let Some(path) = choice {
        let found = version_of(Path::new(path), "mongos version v", "as named").await;
        return found.map(Some).map_err(|why| format!("{path} {why}"));
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&on_path).map(|dir| ("PATH", dir.join("mongos")));
    let beside = mongod.path.parent().map(|dir| ("beside the mongod", dir.join("mongos")));
    for (found_by, path) in on_path.chain(beside).filter(|(_, path)| path.exists()) {
        if let Ok(mongos) = version_of(&path, "mongos version v", found_by).await {
            return Ok(Some(mongos));
        }
    }
    Ok(None)
}

async fn vet(path: &Path, found_by: &'static str) -> Result<Binary, String> {
    let found = version_of(path, "db version v", found_by).await?;
    if found.version < OLDEST {
        return Err(format!("is {}; the oldest that works is {OLDEST}", found.version));
    }
    Ok(found)
}

/// Runs `--version`, which prints the version after these words.
async fn version_of(path: &Path, words: &str, found_by: &'static str) -> Result<Binary, String> {
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    let library_path = path.parent().and_then(Path::parent).map(|p| p.join("lib")).filter(|p| p.is_dir());
    let mut command = Command::new(&path);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    if let Some(lib) = &library_path {
        command.env("LD_LIBRARY_PATH", lib);
    }
    let output = tokio::time::timeout(VERSION_DEADLINE, command.output()).await;
    let output = output.map_err(|_| "`--version` did not end".to_string())?.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(version) = text.lines().find_map(|l| l.strip_prefix(words)).and_then(parse) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.lines().next().unwrap_or("it printed no version").to_owned();
        return Err(format!("`--version` failed ({}): {complaint}", output.status));
    };
    Ok(Binary { path, version, library_path, found_by })
}

fn parse(text: &str) -> Option<Version> {
    let core = text.trim().split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(str::parse);
    match (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()) {
        (Ok(a), Ok(b), Ok(c), None) => Some(Version(a, b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_prefix_ends_at_a_dot() {
        let version = Version(6, 0, 27);
        assert!(version.fits("6") && version.fits("6.0") && version.fits("6.0.27"));
        assert!(!version.fits("6.0.2") && !version.fits("60") && !version.fits("5"));
        assert_eq!(parse("6.0.5-rc1"), Some(Version(6, 0, 5)));
        assert_eq!(parse("nonsense"), None);
    }

    #[tokio::test]
    async fn a_missing_or_broken_binary_gets_one_message_with_what_to_do() {
        let error = find(Some("/nowhere/mongod")).await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/mongod (as named): No such file"), "{error}");
        assert!(error.contains("scripts/get-mongod"), "{error}");
        let error = find(Some("/bin/true")).await.unwrap_err().to_string();
        assert!(error.contains("printed no version"), "{error}");
        let error = find(Some("99.9")).await.unwrap_err().to_string();
        assert!(error.contains("scripts/get-mongod 99.9"), "{error}");
    }
}
