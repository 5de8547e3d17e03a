//! Reports every change of the node that takes writes.

use std::sync::Arc;
use std::time::Duration;

use faults::Deployment;
use tokio_util::sync::CancellationToken;

use crate::event::{Event, Events};

/// Twice a second: an election takes longer, and the questions cost a server nothing.
const EVERY: Duration = Duration::from_millis(500);

/// Asks all members until `stop`.
pub async fn topology(deployment: Arc<dyn Deployment>, events: Events, stop: CancellationToken) {
    let mut before: Option<Option<String>> = None;
    while !stop.is_cancelled() {
        let view = deployment.view().await;
        let now = view.primary().map(|member| member.name.clone());
        if let Some(from) = before.filter(|from| *from != now) {
            events.send(Event::PrimaryChanged { from, to: now.clone(), term: view.term() }).await;
        }
        before = Some(now);
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
}
