//! The user's own commands for servers on other machines: `[cluster] hooks`.

use std::process::Stdio;
use std::time::Duration;

use faults::FaultError;

use crate::scenario::Hooks;

/// A remote shell, a remote service manager.
const DEADLINE: Duration = Duration::from_secs(120);
/// Most of what a failed command printed.
const PRINTED_MAX: usize = 400;

/// What a placeholder stands for.
pub struct Facts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is.
    pub host: &'a str,
    /// On which port.
    pub port: u16,
}

/// The hook for a signal; `None`: there is none.
pub fn of_signal(hooks: &Hooks, signal: i32) -> Option<(&'static str, &str)> {
    let (name, command) = match signal {
        9 => ("kill", &hooks.kill),
        15 => ("stop", &hooks.stop),
        19 => ("pause", &hooks.pause),
        18 => ("resume", &hooks.resume),
        _ => return None,
    };
    command.as_deref().map(|command| (name, command))
}

/// Runs one and waits for its end.
///
/// # Errors
/// When it cannot be run, fails or takes too long; with the end of what it printed.
pub async fn run(hook: &str, command: &str, facts: &Facts<'_>) -> Result<(), FaultError> {
    let Facts { name, host, port } = facts;
    let failed = |why: String| FaultError::Failed {
        doing: "run the user's command for",
        node: (*name).into(),
        why: format!("hook {hook:?}: {why}"),
    };
    let text = command.replace("{name}", name).replace("{host}", host).replace("{port}", &port.to_string());
    let mut shell = tokio::process::Command::new("sh");
    shell.arg("-c").arg(&text).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(DEADLINE, shell.output()).await;
    let output = ended.map_err(|_| failed(format!("no end within {DEADLINE:?}")))?;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    let tail: String = printed.trim().chars().rev().take(PRINTED_MAX).collect();
    let tail: String = tail.chars().rev().collect();
    Err(failed(format!("{}: {tail}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn placeholders_are_filled_and_a_failure_says_what_was_printed() {
        let facts = Facts { name: "a:1", host: "a", port: 1 };
        run("kill", "test {host}-{port}-{name} = a-1-a:1", &facts).await.unwrap();
        let failed = run("kill", "echo no such service >&2; exit 3", &facts).await.unwrap_err().to_string();
        assert!(failed.contains("exit status: 3") && failed.contains("no such service"), "{failed}");
    }
}
