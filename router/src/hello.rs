//! The greeting: what makes drivers take the router for a mongos without sessions.
//!
//! Left out on purpose: `logicalSessionTimeoutMinutes`, with which drivers send retryable writes; `topologyVersion`, with
//! which they ask for a stream of greetings; `compression`.
//!
//! It is sent only after rtr has answered a ping on the same connection: when rtr is dead or stopped, drivers must not
//! find a mongos that is well.

use bson::{Document, doc};

use crate::router::Router;

/// Limits of every server so far.
const BSON_BYTES_MAX: i32 = 16 * 1024 * 1024;
const BATCH_MAX: i32 = 100_000;

/// The reply to `hello` and to its older names.
pub(crate) fn reply(router: &Router, connection_id: i32) -> Document {
    doc! {
        "ismaster": true,
        "isWritablePrimary": true,
        "helloOk": true,
        "msg": "isdbgrid",
        "maxBsonObjectSize": BSON_BYTES_MAX,
        "maxMessageSizeBytes": wire::MAX_MESSAGE_BYTES as i32,
        "maxWriteBatchSize": BATCH_MAX,
        "localTime": bson::DateTime::now(),
        "connectionId": connection_id,
        "minWireVersion": router.behind.min_wire_version,
        "maxWireVersion": router.behind.max_wire_version,
        // Drivers pass over what they do not know; a tool can say what it talks to.
        "mongosoakStandIn": true,
        "ok": 1.0,
    }
}
