//! `[cluster] hooks`: the user's own commands for servers that no signal of ours reaches.

use serde::{Deserialize, Serialize};

use super::table::Node;
use super::values::text;
use super::words::Names;

const HOOKS: Names<'_> =
    Names { what: "key", now: &["kill", "stop", "pause", "resume", "start"], later: &[] };

/// Shell commands in which `{name}`, `{host}` and `{port}` stand for those of the member. Kept in the run
/// directory as they are: a password does not belong into them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hooks {
    /// Ends the process at once, as SIGKILL.
    pub kill: Option<String>,
    /// Ends it in order, as SIGTERM.
    pub stop: Option<String>,
    /// Freezes it, as SIGSTOP.
    pub pause: Option<String>,
    /// Lets it go on, as SIGCONT.
    pub resume: Option<String>,
    /// Starts it again.
    pub start: Option<String>,
}

impl Hooks {
    /// Whether there is any.
    #[must_use]
    pub const fn any(&self) -> bool {
        self.kill.is_some()
            || self.stop.is_some()
            || self.pause.is_some()
            || self.resume.is_some()
            || self.start.is_some()
    }
}

/// Reads the table.
pub(super) fn read(node: &Node<'_>) -> Hooks {
    let Some(table) = node.table(&HOOKS) else { return Hooks::default() };
    let hook = |name| table.optional(name, text);
    Hooks {
        kill: hook("kill"),
        stop: hook("stop"),
        pause: hook("pause"),
        resume: hook("resume"),
        start: hook("start"),
    }
}
