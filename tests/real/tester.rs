//! The program under test as a child process.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use mongosoak::clock::Clock;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::process::{Child, Command};

use super::place::Place;
use super::processes;
use super::run_dir::{RunDir, run_dir};
use super::wait_for;

/// From the request to stop to the end of everything; the promise of the program.
pub const STOP_WITHIN: Duration = Duration::from_secs(15);

/// A command line of the program, with nothing of our environment in it that it would listen to.
pub fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongosoak"));
    command.args(arguments).env_remove("MONGOSOAK_URI").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What became of a program that ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

/// Runs a command to its end.
pub async fn output(mut command: Command, deadline: Duration) -> Ended {
    let clock = Clock::start();
    let output = tokio::time::timeout(deadline, command.output()).await;
    let output = output.unwrap_or_else(|_| panic!("did not end within {deadline:?}")).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let took = clock.now();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), took }
}

/// A run under way. Dropped, it is killed, and its servers with it.
pub struct Tester {
    child: Child,
    pub dir: RunDir,
    folder: PathBuf,
}

impl Tester {
    /// `mongosoak run` of this scenario.
    pub fn run(place: &Place, scenario: &str) -> Self {
        Self::run_with(place, scenario, &[])
    }

    /// The same, with more arguments.
    pub fn run_with(place: &Place, scenario: &str, more: &[&str]) -> Self {
        let file = place.file("scenario.toml", scenario);
        let dir = run_dir(place.path());
        let mut command = program(&["run", file.to_str().unwrap(), "--out", dir.0.to_str().unwrap()]);
        // To files: a pipe that nobody reads would stop the program.
        let log = |name: &str| std::fs::File::create(place.path().join(name)).unwrap();
        // What a tester that is killed leaves, no other test may find.
        command.env("XDG_STATE_HOME", place.path().join("state"));
        let child = command.args(more).stdout(log("stdout")).stderr(log("stderr")).spawn().unwrap();
        Self { child, dir, folder: place.path().into() }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("it was not waited for")).unwrap()
    }

    /// Waits for the beginning of a phase.
    pub async fn phase(&self, phase: &str, deadline: Duration) {
        wait_for(&format!("phase {phase}"), deadline, || self.dir.reached(phase).then_some(())).await;
    }

    /// Waits for the first event of that name.
    pub async fn event(&self, name: &str, deadline: Duration) -> Value {
        wait_for(name, deadline, || self.dir.events_named(name).into_iter().next()).await
    }

    pub fn signal(&self, signal: Signal) {
        processes::signal(self.pid(), signal);
    }

    /// Waits for its end.
    pub async fn end(mut self, deadline: Duration) -> Ended {
        let clock = Clock::start();
        let status = tokio::time::timeout(deadline, self.child.wait()).await;
        let took = clock.now();
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap();
        let (stdout, stderr) = (read("stdout"), read("stderr"));
        let Ok(status) = status else {
            panic!("did not end within {deadline:?}\n{stdout}\n{stderr}");
        };
        Ended { code: status.unwrap().code(), stdout, stderr, took }
    }
}
