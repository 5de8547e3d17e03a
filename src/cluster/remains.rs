//! What a dead tester left of its own cluster: folders, and no servers.

use std::time::Duration;

use async_trait::async_trait;
use bson::Document;
use faults::{CommandError, Deployment, Exit, FaultError, Place, View};

use super::description::{DescribedNode, Description};

/// A cluster whose processes ended with their tester.
#[derive(Debug)]
pub struct Remains {
    nodes: Vec<DescribedNode>,
}

impl Remains {
    /// Of this one.
    #[must_use]
    pub fn of(description: &Description) -> Self {
        Self { nodes: description.nodes.clone() }
    }
}

fn gone(node: &str) -> FaultError {
    FaultError::NothingToDo { node: node.into(), why: "ended with its tester".into() }
}

#[async_trait]
impl Deployment for Remains {
    async fn view(&self) -> View {
        let member = |node: &DescribedNode| faults::Member {
            name: node.name.clone(),
            role: faults::Role::Down,
            term: None,
            set: None,
        };
        View { members: self.nodes.iter().map(member).collect() }
    }

    async fn command(
        &self,
        node: &str,
        _database: &str,
        _body: &Document,
        _deadline: Duration,
    ) -> Result<Document, CommandError> {
        Err(CommandError::Protocol(gone(node).to_string()))
    }

    async fn pid(&self, _node: &str) -> Option<i32> {
        None
    }

    async fn signal(&self, node: &str, _signal: i32) -> Result<(), FaultError> {
        Err(gone(node))
    }

    async fn wait_exit(&self, _node: &str, _deadline: Duration) -> Result<Exit, FaultError> {
        Ok(Exit { code: None, signal: None })
    }

    async fn start(&self, node: &str) -> Result<i32, FaultError> {
        Err(gone(node))
    }

    async fn wait_ready(&self, node: &str, _deadline: Duration) -> Result<(), FaultError> {
        Err(gone(node))
    }

    fn ends_with_tester(&self) -> bool {
        true
    }

    fn address(&self, node: &str) -> Option<String> {
        self.nodes.iter().find(|known| known.name == node).map(|known| known.address.clone())
    }

    fn place(&self, node: &str) -> Option<Place> {
        let node = self.nodes.iter().find(|known| known.name == node)?;
        Some(Place { data: node.data.clone()?, log: node.log.clone()?, own_output: None })
    }
}
