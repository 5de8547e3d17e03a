//! A cluster of `cluster start`, whose processes are nobody's children here: as a deployment of somebody else.

use std::path::PathBuf;

use bson::{Document, doc};
use serde_json::Value;
use tokio::process::Command;
use wire::{CommandError, Connection};

use super::place::Place;
use super::tester::{Ended, output, program};
use super::{PATIENCE, processes, wait_for};

pub struct Playground {
    pub place: Place,
    folder: PathBuf,
    /// Its members as they were at the start: name, port, pid.
    pub nodes: Vec<(String, u16, i32)>,
}

impl Playground {
    /// Starts one with so many members (0: a standalone), in the place itself.
    pub async fn start(members: u8) -> Self {
        let place = Place::new();
        let folder = place.path().join("play");
        Self::start_in(place, folder, members).await
    }

    /// The same in a folder of the test's choice.
    pub async fn start_in(place: Place, folder: PathBuf, members: u8) -> Self {
        let dir = folder.to_str().unwrap().to_owned();
        let members = members.to_string();
        let arguments =
            ["cluster", "start", "--dir", &dir, "--members", &members, "--election-timeout", "5s"];
        let started = output(program(&arguments), 2 * PATIENCE).await;
        assert_eq!(started.code, Some(0), "{started:?}");
        let text = std::fs::read_to_string(folder.join("cluster.json")).unwrap();
        let described: Value = serde_json::from_str(&text).unwrap();
        let nodes = described["nodes"].as_array().unwrap().iter().map(|node| {
            let number = |key: &str| node[key].as_i64().unwrap();
            let name = node["name"].as_str().unwrap().to_owned();
            (name, u16::try_from(number("port")).unwrap(), i32::try_from(number("pid")).unwrap())
        });
        Self { nodes: nodes.collect(), place, folder }
    }

    /// `mongosoak fault` on it.
    pub fn fault(&self, arguments: &[&str]) -> Command {
        let cluster = self.folder.to_str().unwrap();
        let mut command = program(&["fault"]);
        command.args(arguments).args(["--cluster", cluster]).env("XDG_STATE_HOME", self.state());
        command
    }

    /// The same, to its end.
    pub async fn fault_done(&self, arguments: &[&str]) -> Ended {
        output(self.fault(arguments), 2 * PATIENCE).await
    }

    /// State folder of the user who injects.
    pub fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// The one folder from which an open fault could be healed.
    pub fn to_heal(&self) -> Option<PathBuf> {
        let mut open = std::fs::read_dir(self.state().join("mongosoak/open")).ok()?.flatten();
        let link = open.next()?;
        assert!(open.next().is_none(), "more than one");
        std::fs::read_link(link.path()).ok()
    }

    /// `mongosoak heal` of a folder.
    pub async fn heal(&self, dir: &std::path::Path) -> Ended {
        let mut command = program(&["heal", dir.to_str().unwrap()]);
        command.env("XDG_STATE_HOME", self.state());
        output(command, 2 * PATIENCE).await
    }

    /// Port of a member.
    pub fn port(&self, name: &str) -> u16 {
        self.nodes.iter().find(|(known, ..)| known == name).unwrap().1
    }

    /// Process of a member as it was at the start.
    pub fn first_pid(&self, name: &str) -> i32 {
        self.nodes.iter().find(|(known, ..)| known == name).unwrap().2
    }

    /// Asks a member directly.
    pub async fn ask(&self, name: &str, command: Document) -> Result<Document, CommandError> {
        let address = format!("127.0.0.1:{}", self.port(name));
        Connection::connect(&address, PATIENCE / 12).await?.command("admin", &command, PATIENCE / 12).await
    }

    /// The member that leads, once all lead or follow.
    pub async fn leader(&self) -> String {
        let clock = mongosoak::clock::Clock::start();
        loop {
            let (mut leaders, mut well) = (Vec::new(), 0);
            for (name, ..) in &self.nodes {
                let hello = self.ask(name, doc! { "hello": 1 }).await.unwrap_or_default();
                let yes = |key: &str| hello.get_bool(key).unwrap_or(false);
                well += usize::from(yes("secondary") || yes("isWritablePrimary"));
                leaders.extend(yes("isWritablePrimary").then(|| name.clone()));
            }
            if let (true, [leader]) = (well == self.nodes.len(), leaders.as_slice()) {
                return leader.clone();
            }
            assert!(clock.now() < 2 * PATIENCE, "{leaders:?} lead, {well} are well");
            tokio::time::sleep(super::POLL).await;
        }
    }

    /// Waits until a process has this state letter, or has it no more.
    pub async fn state_of(&self, pid: i32, letter: char, has: bool) {
        let look = || (processes::state(pid).is_some_and(|state| (state == letter) == has)).then_some(());
        wait_for(&format!("process {pid} in state {letter}: {has}"), PATIENCE, look).await;
    }
}
