//! What a driver is told when it asks who is there. Left out on purpose: `logicalSessionTimeoutMinutes` (with it
//! drivers send transaction numbers, and a retryable write would abort the engine) and `topologyVersion` (with it they
//! wait for changes that nobody announces).

use bson::{DateTime, Document, doc};

/// Wire versions of the engine, and the text that says what this is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub min_wire_version: i32,
    pub max_wire_version: i32,
    /// The engine's version.
    pub version: String,
}

/// The answer to `hello` and its older names.
pub(crate) fn hello(identity: &Identity, connection: u64) -> Document {
    doc! {
        "ismaster": true,
        "isWritablePrimary": true,
        "helloOk": true,
        "msg": "isdbgrid",
        "mongosoakStandIn": true,
        "maxBsonObjectSize": 16 << 20,
        "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
        "localTime": DateTime::now(),
        "connectionId": i64::try_from(connection).unwrap_or(i64::MAX),
        "minWireVersion": identity.min_wire_version,
        "maxWireVersion": identity.max_wire_version,
        "readOnly": false,
        "ok": 1.0,
    }
}
