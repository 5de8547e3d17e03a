//! From a command to who deals with it.

use std::sync::atomic::Ordering;

use bson::{Document, doc};
use wire::Frame;

use crate::command::Command;
use crate::refusal::{Failure, Refusal};
use crate::router::Router;
use crate::routes::{Kind, ROUTES, Route, position};
use crate::upstream::Upstream;
use crate::{admin, aggregated, crud, ddl, explain, hello, kill, status};

/// An answer to a client.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A whole message.
    Frame(Frame),
    /// A document still to be put into one.
    Document(Document),
}

/// Deals with one command.
pub(crate) async fn dispatch(
    router: &Router,
    upstream: &mut Upstream,
    connection_id: i32,
    command: &Command<'_>,
) -> Result<Reply, Failure> {
    let Some(at) = position(command.name) else {
        router.counters.unknown.fetch_add(1, Ordering::Relaxed);
        let name: String = command.name.chars().take(NAME_SHOWN).collect();
        return Err(Refusal::not_found(format!("no such command: the stand-in router cannot {name}")).into());
    };
    router.counters.commands[at].fetch_add(1, Ordering::Relaxed);
    let Route { kind, .. } = ROUTES[at];
    // Impossible commands say why themselves, before their fields do.
    if let Kind::Impossible(what) = kind {
        return Err(impossible(what).into());
    }
    command.check()?;
    let document = match kind {
        Kind::Crud("clusterGetMore") => return crud::get_more(router, upstream, command).await,
        Kind::Crud(renamed @ ("clusterFind" | "clusterAggregate")) => {
            return crud::read(router, upstream, command, renamed).await;
        }
        Kind::Crud(renamed) => return crud::write(upstream, command, renamed).await,
        Kind::AsIs => return crud::as_is(upstream, command).await,
        Kind::Count => aggregated::count(router, upstream, command).await?,
        Kind::Distinct => aggregated::distinct(router, upstream, command).await?,
        Kind::Explain => explain::explain(router, upstream, command).await?,
        Kind::KillCursors => kill::kill_cursors(router, upstream, command).await?,
        Kind::Hello => {
            upstream.ping().await?;
            hello::reply(router, connection_id)
        }
        Kind::Nothing => doc! { "ok": 1.0 },
        Kind::Ddl => ddl::run(router, command).await?,
        Kind::Status | Kind::Admin if command.database != "admin" => {
            let text = format!("{} may only be run against the admin database.", command.name);
            return Err(Refusal::unauthorized(text).into());
        }
        Kind::Status => status::reply(router),
        Kind::Admin => admin::run(router, upstream, command).await?,
        Kind::Impossible(what) => return Err(impossible(what).into()),
    };
    Ok(Reply::Document(document))
}

/// So much of an unknown name is repeated.
const NAME_SHOWN: usize = 100;

fn impossible(what: &str) -> Refusal {
    Refusal::not_found(format!("the stand-in router cannot do {what}"))
}
