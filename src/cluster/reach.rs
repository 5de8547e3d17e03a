//! The managed cluster as the faults see it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::Document;
use faults::network::Network;
use faults::{Deployment, Exit, FaultError, LaunchOptions, Place, View};
use tokio::task::JoinSet;
use wire::CommandError;

use super::ClusterError;
use super::managed::ManagedCluster;
use super::process::Lifetime;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

#[async_trait]
impl Deployment for ManagedCluster {
    async fn view(&self) -> View {
        let mut asked = JoinSet::new();
        for node in self.nodes() {
            let node = Arc::clone(node);
            asked.spawn(async move { node.member().await });
        }
        let mut members = asked.join_all().await;
        members.sort_by(|a, b| a.name.cmp(&b.name));
        View { members }
    }

    async fn command(
        &self,
        node: &str,
        database: &str,
        body: &Document,
        deadline: Duration,
    ) -> Result<Document, CommandError> {
        match self.node(node) {
            Ok(node) => node.command(database, body, deadline).await,
            Err(unknown) => Err(CommandError::Protocol(unknown.to_string())),
        }
    }

    async fn pid(&self, node: &str) -> Option<i32> {
        self.node(node).ok()?.process().map(|p| p.pid())
    }

    async fn signal(&self, node: &str, signal: i32) -> Result<(), FaultError> {
        let node = self.node(node)?;
        let failed = |why: String| FaultError::Failed { doing: "signal", node: node.name().into(), why };
        let process = node.process().ok_or_else(|| failed("it does not run".into()))?;
        if signal == SIGKILL || signal == SIGTERM {
            node.expect_end();
        }
        process.signal(signal).map_err(failed)
    }

    async fn wait_exit(&self, node: &str, deadline: Duration) -> Result<Exit, FaultError> {
        let Some(process) = self.node(node)?.process_even_if_ended() else {
            return Ok(Exit { code: None, signal: None });
        };
        tokio::time::timeout(deadline, process.exited()).await.map_err(|_| FaultError::NoEffect {
            node: node.into(),
            seconds: deadline.as_secs_f64(),
            what: "the end of its process".into(),
        })
    }

    async fn expect_end(&self, node: &str, expected: bool) -> Result<(), FaultError> {
        let node = self.node(node)?;
        if expected {
            node.expect_end();
        } else {
            let _forgotten = node.take_end_expected();
        }
        Ok(())
    }

    async fn start(&self, node: &str) -> Result<i32, FaultError> {
        let node = self.node(node)?;
        if let Some(process) = node.process() {
            return Ok(process.pid());
        }
        let failed = |e: ClusterError| FaultError::Failed {
            doing: "start",
            node: node.name().into(),
            why: e.to_string(),
        };
        self.launch(node).await.map_err(failed)
    }

    async fn wait_ready(&self, node: &str, deadline: Duration) -> Result<(), FaultError> {
        let node = self.node(node)?;
        let until = self.clock().now() + deadline;
        loop {
            let left = until.saturating_sub(self.clock().now());
            match node.ready(left).await {
                // A restart keeps its port: whoever holds it for a moment has to let go.
                Err(error) if error.is_address_in_use() && !left.is_zero() => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    self.start(node.name()).await?;
                }
                Err(error) => {
                    return Err(FaultError::Failed {
                        doing: "restart",
                        node: node.name().into(),
                        why: error.to_string(),
                    });
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn launch_options(&self, node: &str, options: Option<LaunchOptions>) -> Result<(), FaultError> {
        self.node(node)?.set_launch_options(options);
        Ok(())
    }

    async fn wipe(&self, node: &str) -> Result<(), FaultError> {
        let node = self.node(node)?;
        node.wipe().map_err(|why| FaultError::Failed { doing: "wipe", node: node.name().into(), why })
    }

    fn ends_with_tester(&self) -> bool {
        self.nodes().iter().all(|node| node.lifetime() == Lifetime::WithTester)
    }

    fn address(&self, node: &str) -> Option<String> {
        Some(self.node(node).ok()?.address())
    }

    fn network(&self) -> Option<&Network> {
        self.proxies()
    }

    fn place(&self, node: &str) -> Option<Place> {
        let node = self.node(node).ok()?;
        let own_output = node.dir().parent().map(Path::to_path_buf);
        Some(Place { data: node.dir().join("db"), log: node.log_path(), own_output })
    }
}
