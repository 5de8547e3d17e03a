//! The servers of a run as the faults see them: ours, or those of somebody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::cluster::{Attach, AttachedCluster, ClusterError, Description, ManagedCluster};
use crate::event::Event;
use crate::heal;
use crate::scenario::Cluster;

/// Who serves.
pub enum Servers {
    /// We started them.
    Ours(Arc<ManagedCluster>),
    /// They run anyway, and faults are planned.
    Attached(Arc<AttachedCluster>),
    /// They run anyway.
    LeftAlone,
}

impl Servers {
    /// Finds them; those of somebody else only when there is something to be done to them. From here on it is known
    /// to later starts that there may be something to heal.
    ///
    /// # Errors
    /// When nobody answers, or the folder cannot be prepared for healing.
    pub async fn of(ctx: &Context, cluster: Option<&Arc<ManagedCluster>>) -> Result<Self, String> {
        let injects = !ctx.plan.faults.is_empty();
        match (cluster, &ctx.scenario.cluster) {
            (Some(cluster), _) => {
                if injects {
                    prepare(ctx, &cluster.describe()).await?;
                }
                Ok(Self::Ours(Arc::clone(cluster)))
            }
            (None, Cluster::Attached(attached)) if injects => {
                let names = BTreeMap::new();
                let own_output = Some(ctx.dir.clone());
                let how = Attach { uri: &attached.uri, hooks: &attached.hooks, names: &names, own_output };
                let cluster = AttachedCluster::attach(&how).await.map_err(|error| error.to_string())?;
                prepare(ctx, &cluster.describe(&attached.uri)).await?;
                Ok(Self::Attached(Arc::new(cluster)))
            }
            _ => Ok(Self::LeftAlone),
        }
    }

    /// As the faults see them.
    pub fn deployment(&self) -> Option<Arc<dyn faults::Deployment>> {
        match self {
            Self::Ours(cluster) => Some(Arc::<ManagedCluster>::clone(cluster)),
            Self::Attached(cluster) => Some(Arc::<AttachedCluster>::clone(cluster)),
            Self::LeftAlone => None,
        }
    }

    /// Waits until somebody takes writes again; starts those of ours that do not run.
    pub async fn heal(&self, deadline: Duration) -> Result<(), ClusterError> {
        match self {
            Self::Ours(cluster) => cluster.heal(deadline).await,
            Self::Attached(cluster) => cluster.wait_for_primary(deadline).await,
            Self::LeftAlone => Ok(()),
        }
    }
}

impl Servers {
    /// Closes what was opened to look at them.
    pub async fn leave(&self) {
        if let Self::Attached(cluster) = self {
            cluster.leave().await;
        }
    }
}

/// What whoever heals will need. The next start finds it by itself only where the user has a state folder.
async fn prepare(ctx: &Context, description: &Description) -> Result<(), String> {
    description.write(&ctx.dir).map_err(|error| error.to_string())?;
    if let Err(error) = heal::register(&ctx.dir) {
        let text =
            format!("the next start will not find what a killed tester leaves, only `heal` will: {error}");
        ctx.events.send(Event::Note { text }).await;
    }
    Ok(())
}

/// Closes the books of the faults. What is still open is said.
pub async fn settle(ctx: &Context, servers: heal::Servers) {
    let injected = ctx.dir.join(heal::JOURNAL).exists();
    if injected && !heal::settle(&ctx.dir, servers).await {
        let text = format!("faults are left behind; to undo them: mongosoak heal {}", ctx.dir.display());
        ctx.events.send(Event::Note { text }).await;
    }
}
