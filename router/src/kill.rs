//! Ends cursors: the sessions behind them on the shards, then what rtr keeps of them.

use std::convert::Infallible;
use std::time::Duration;

use bson::{Bson, Document, Uuid, doc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use wire::Connection;

use crate::command::Command;
use crate::cursors::{Condemned, TICKS_MAX};
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::upstream::Upstream;

/// A member that does not answer in time closes the cursor by its own time-out.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);
/// Sessions in one command.
const BATCH: usize = 500;
/// So many batches rtr may have fetched from the shards of one cursor.
const LAST_BATCHES: usize = 5;
/// Cursors that one command may kill: a longer list is no honest one.
const KILLED_MAX: usize = 10_000;

/// `killCursors`: what is not known here is reported as not found.
pub(crate) async fn kill_cursors(
    router: &Router,
    upstream: &mut Upstream,
    command: &Command<'_>,
) -> Result<Document, Failure> {
    let asked = command.document()?;
    let ids =
        asked.get_array("cursors").map_err(|_| Refusal::bad_value("killCursors needs a list of cursors"))?;
    if ids.len() > KILLED_MAX {
        return Err(Refusal::bad_value(format!("killCursors takes {KILLED_MAX} cursors at most")).into());
    }
    let ids: Vec<i64> = ids.iter().filter_map(whole_number).collect();
    let (condemned, unknown) = router.cursors.take(&ids);
    let killed: Vec<i64> = condemned.iter().filter_map(|one| Some(one.cursor.as_ref()?.0)).collect();
    end(router, upstream, &condemned).await?;
    let none = Vec::<i64>::new();
    Ok(doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": unknown,
        "cursorsAlive": &none,
        "cursorsUnknown": &none,
        "ok": 1.0,
    })
}

fn whole_number(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}

/// Ends idle cursors for ever; runs beside the clients.
pub(crate) async fn sweep(router: &Router) -> Infallible {
    // An interval of zero is not allowed.
    let tick = (router.options.cursor_timeout / TICKS_MAX).max(Duration::from_millis(1));
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Other routers may have changed the list.
        router.places.forget_shards();
        let condemned = router.cursors.tick();
        if condemned.is_empty() {
            continue;
        }
        let mut upstream = Upstream::new(&router.options);
        if let Err(error) = end(router, &mut upstream, &condemned).await {
            tracing::warn!("some of {} abandoned cursors are left to time-outs: {error}", condemned.len());
        }
    }
}

async fn end(router: &Router, upstream: &mut Upstream, condemned: &[Condemned]) -> Result<(), Failure> {
    if condemned.is_empty() {
        return Ok(());
    }
    for batch in condemned.chunks(BATCH) {
        end_on_shards(router, batch.iter().map(|one| one.session)).await;
    }
    for Condemned { session, cursor } in condemned {
        let Some((id, database, collection)) = cursor else { continue };
        let get_more = doc! { "clusterGetMore": *id, "collection": collection, "lsid": { "id": *session } };
        // It fails, as nothing is left on the shards, and rtr forgets its side; before that it may give what it
        // has fetched already.
        for _ in 0..LAST_BATCHES {
            let reply = upstream.command(database, &get_more).await?;
            let cursor = reply.get_document("cursor").and_then(|cursor| cursor.get_i64("id"));
            if cursor.unwrap_or(0) == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// On all members: reads may have gone to secondaries.
async fn end_on_shards(router: &Router, sessions: impl Iterator<Item = Uuid>) {
    let sessions: Vec<Document> = sessions.map(|id| doc! { "id": id }).collect();
    let kill = doc! { "killSessions": sessions };
    let shards = match router.places.shards().await {
        Ok(shards) => shards,
        Err(refusal) => {
            tracing::warn!("no list of shards to end cursors on: {}", refusal.message);
            return;
        }
    };
    let mut kills = JoinSet::new();
    // Collections of the databases config and admin are on the config servers.
    for host in shards.iter().flat_map(|shard| &shard.hosts).chain(&router.options.config) {
        let (host, kill) = (host.clone(), kill.clone());
        kills.spawn(async move {
            let killing = async {
                let mut connection = Connection::connect(&host, KILL_TIMEOUT).await?;
                connection.command("admin", &kill, KILL_TIMEOUT).await
            };
            match timeout(KILL_TIMEOUT, killing).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(host, "cannot end sessions: {error}"),
                Err(_) => tracing::debug!(host, "cannot end sessions: no answer"),
            }
        });
    }
    while let Some(kill) = kills.join_next().await {
        if let Err(error) = kill {
            tracing::error!("ending sessions failed: {error}");
        }
    }
}
