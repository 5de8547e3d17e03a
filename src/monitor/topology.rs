//! Reports every change of the node that takes writes, in each replica set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use faults::Deployment;
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Events};

/// Twice a second: an election takes longer, and the questions cost a server nothing.
const EVERY: Duration = Duration::from_millis(500);

/// Asks all members until `stop`.
pub async fn topology(deployment: Arc<dyn Deployment>, events: Events, stop: CancellationToken) {
    let mut before = BTreeMap::<Option<String>, Option<String>>::new();
    while !stop.is_cancelled() {
        for set in deployment.view().await.sets() {
            let name = set.members.first().and_then(|member| member.set.clone());
            let now = set.primary().map(|member| member.name.clone());
            let known = before.insert(name, now.clone());
            if let Some(from) = known.filter(|from| *from != now) {
                events.send(Event::PrimaryChanged { from, to: now, term: set.term() }).await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
}
