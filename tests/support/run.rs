//! Runs the real binary in a folder of its own, and reads back what it left there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mongosoak::clock::Clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Longer than any test run; a run that hangs fails its test instead of the whole program.
const LONGEST: Duration = Duration::from_secs(150);
/// In the place of an exit code, for a process that a signal ended.
const KILLED: i32 = -1;
const POLL: Duration = Duration::from_millis(20);
/// Reasons that speak of the machine, not of the tool or its server: other programs took the processors.
const STARVED: [&str; 2] = ["the load generator was saturated", "the tester itself stood still"];
/// The same in one step or probe, or in a note.
const LATE: [&str; 2] =
    ["were sent over 10 ms late although a worker was free", "waited longer for a processor than it ran"];

/// A call of the binary that was not made yet.
pub struct Run {
    folder: TempDir,
    command: Command,
}

impl Run {
    /// `run` of this scenario against this deployment.
    pub fn new(scenario: &str, uri: &str) -> Self {
        let mut run = Self::command("run", scenario);
        let out = run.out();
        run.command.env("MONGOSOAK_URI", uri).arg("--out").arg(out);
        run
    }

    /// Another command on this scenario.
    pub fn command(name: &str, scenario: &str) -> Self {
        let mut run = Self::bare(&[name]);
        let file = run.folder.path().join("scenario.toml");
        std::fs::write(&file, scenario).unwrap();
        run.command.arg(file);
        run
    }

    /// Any call.
    pub fn bare(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mongosoak"));
        command.args(arguments).env_remove("MONGOSOAK_URI").env_remove("MONGOSOAK_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let folder = tempfile::tempdir().unwrap();
        // What a tester that is killed leaves, no other test may find.
        command.env("XDG_STATE_HOME", folder.path().join("state"));
        Self { folder, command }
    }

    /// The run directory to be.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// More arguments.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// A variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        Running { child: self.command.spawn().unwrap(), folder: self.folder }
    }

    /// Starts it and waits for its end.
    pub async fn finish(self) -> Ended {
        self.start().finish().await
    }
}

/// A process that may still run; dropping it kills it.
pub struct Running {
    child: Child,
    folder: TempDir,
}

impl Running {
    /// Waits until a text stands in a file of the run directory.
    pub async fn until(&self, file: &str, text: &str) {
        let path = self.folder.path().join("out").join(file);
        let clock = Clock::start();
        while !std::fs::read_to_string(&path).is_ok_and(|all| all.contains(text)) {
            assert!(clock.now() < LONGEST, "{text:?} never came in {file}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it still runs")).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for its end.
    pub async fn finish(self) -> Ended {
        let output = tokio::time::timeout(LONGEST, self.child.wait_with_output()).await;
        let output = output.expect("the run ends in time").unwrap();
        Ended {
            code: output.status.code().unwrap_or(KILLED),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            folder: self.folder,
        }
    }
}

/// What a call left behind.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    folder: TempDir,
}

/// One row of a CSV file.
pub struct Row(BTreeMap<String, String>);

impl Row {
    /// A cell as it stands there.
    pub fn text(&self, column: &str) -> &str {
        self.0.get(column).unwrap_or_else(|| panic!("no column {column}"))
    }

    /// A cell as a number; `None`: empty.
    pub fn number(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        (!text.is_empty()).then(|| text.parse().unwrap())
    }

    /// A cell that holds a count.
    pub fn count(&self, column: &str) -> u64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column}: {:?}", self.text(column)))
    }
}

impl Ended {
    /// The run directory.
    pub fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Everything that was printed, for messages.
    pub fn printed(&self) -> String {
        format!("exit code {}\n{}{}", self.code, self.stdout, self.stderr)
    }

    /// `report.json`, whose exit code must be that of the process.
    pub fn report(&self) -> Value {
        let path = self.out().join("report.json");
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{e}: {}", self.printed()));
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["verdict"]["exit_code"], self.code, "{}", self.printed());
        report
    }

    /// Whether the tool says of itself that it could not keep up: other programs took the processors. Then
    /// times are those of the machine; counts must be right all the same.
    pub fn starved(&self) -> bool {
        let starved = self.reasons().iter().any(|text| speaks_of_the_machine(text));
        if starved {
            eprintln!("the machine is too busy for exact times; compared are counts only");
        }
        starved
    }

    /// The exit code that the run would have had on a machine that keeps up. That a starved tool says so,
    /// and ends with 4 instead of 0, is right, but not what most tests are about.
    pub fn code_if_not_starved(&self) -> i32 {
        let excused = |text: &String| text.starts_with("note:") || speaks_of_the_machine(text);
        if self.code == 4 && self.reasons().iter().all(excused) { 0 } else { self.code }
    }

    /// All reasons of the verdict.
    pub fn reasons(&self) -> Vec<String> {
        let report = self.report();
        let reasons = report["verdict"]["reasons"].as_array().unwrap();
        reasons.iter().map(|reason| reason["text"].as_str().unwrap().to_owned()).collect()
    }

    /// All rows of a CSV file of the run directory.
    pub fn rows(&self, file: &str) -> Vec<Row> {
        let path = self.out().join(file);
        let mut reader = csv::Reader::from_path(path).unwrap();
        reader.deserialize().map(|row| Row(row.unwrap())).collect()
    }

    /// The events of that name.
    pub fn events(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.out().join("events.jsonl")).unwrap();
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|event| event["event"] == name).collect()
    }

    /// All files of the run directory, also in its folders.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(self.folder.path(), &mut files);
        files
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn speaks_of_the_machine(reason: &str) -> bool {
    STARVED.iter().any(|words| reason.starts_with(words)) || LATE.iter().any(|words| reason.contains(words))
}

/// A number of a report.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}
