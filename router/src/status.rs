//! `{mongosoakRouter: 1}`: what this router is, and what it has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::{Bson, Document, doc};

use crate::router::Router;
use crate::routes::{Kind, ROUTES};

/// Limits that nobody should have to find out.
const NOT_DONE: &str = "sessions, transactions, retryable writes, change streams, tailable cursors, findAndModify, mapReduce, collMod, resharding, authentication, compression, TLS";

pub(crate) fn reply(router: &Router) -> Document {
    let (counters, cursors) = (&router.counters, router.cursors.totals());
    let commands: Vec<Bson> = ROUTES
        .iter()
        .zip(&counters.commands)
        .filter(|(_, count)| count.load(Ordering::Relaxed) > 0)
        .map(|(route, count)| {
            doc! { "command": route.name, "target": route.target, "count": number(count) }.into()
        })
        .collect();
    let possible = ROUTES.iter().filter(|route| !matches!(route.kind, Kind::Impossible(_)));
    doc! {
        "mongosoakRouter": router.description(),
        "version": &router.behind.version,
        "pid": i32::try_from(std::process::id()).unwrap_or_default(),
        "upstream": &router.options.upstream,
        "cannot": NOT_DONE,
        "can": possible.map(|route| route.name).collect::<Vec<_>>(),
        "commands": commands,
        "unknownCommands": number(&counters.unknown),
        "staleResends": number(&counters.stale_resends),
        "cursors": {
            "open": cursors.open as i64,
            "opened": cursors.opened as i64,
            "killed": cursors.killed as i64,
            "timedOut": cursors.timed_out as i64,
            "evicted": cursors.evicted as i64,
            "sessionsPooled": cursors.pooled as i64,
            "sessionsForgotten": cursors.forgotten as i64,
        },
        "connections": {
            "current": number(&counters.connections_open),
            "total": number(&counters.connections_total),
            "refused": number(&counters.connections_refused),
            "malformed": number(&counters.malformed),
            "max": i64::try_from(router.options.connections_max).unwrap_or(i64::MAX),
        },
        "ok": 1.0,
    }
}

fn number(counter: &AtomicU64) -> i64 {
    counter.load(Ordering::Relaxed) as i64
}
