//! The user's state folder: what outlives a command.

use std::path::PathBuf;

/// `$XDG_STATE_HOME/mongosoak`, else `~/.local/state/mongosoak`; `None`: there is no home folder.
#[must_use]
pub fn dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("mongosoak"))
}
