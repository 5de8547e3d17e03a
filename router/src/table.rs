//! What becomes of each command. What is not in here is refused.

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Answered here.
    Hello,
    /// Says what this is.
    Who,
    /// The engine, under its other name.
    Engine(&'static str),
    /// The engine as it is: it only reads about itself.
    AsIs,
    /// A read that the engine has only as an aggregation.
    Computed,
    /// Definitions: collections and indexes.
    Ddl,
    /// Shards, chunks, balancer.
    Admin,
    /// Cursors that a client gives up.
    KillCursors,
    /// Nothing to do: there are no sessions here.
    Nothing,
    /// Known, and impossible here; the text says what.
    Impossible(&'static str),
    /// Not known.
    Unknown,
}

/// The route of a command. Names are compared as servers do: exactly, but for those that have two spellings.
pub(crate) fn route(name: &str) -> Route {
    match name {
        "hello" | "isMaster" | "ismaster" => Route::Hello,
        crate::WHO => Route::Who,
        "insert" => Route::Engine("clusterInsert"),
        "find" => Route::Engine("clusterFind"),
        "update" => Route::Engine("clusterUpdate"),
        "delete" => Route::Engine("clusterDelete"),
        "aggregate" => Route::Engine("clusterAggregate"),
        "getMore" => Route::Engine("clusterGetMore"),
        "ping" | "buildInfo" | "buildinfo" | "hostInfo" | "serverStatus" | "getParameter"
        | "connectionStatus" | "currentOp" | "getLog" | "getCmdLineOpts" | "whatsmyuri" | "listCommands"
        | "getShardMap" | "flushRouterConfig" => Route::AsIs,
        "count" | "distinct" | "explain" => Route::Computed,
        "createIndexes" | "dropIndexes" | "listIndexes" | "listCollections" | "listDatabases" | "create"
        | "drop" | "dropDatabase" | "renameCollection" | "collStats" | "dbStats" => Route::Ddl,
        "enableSharding"
        | "shardCollection"
        | "split"
        | "mergeChunks"
        | "moveChunk"
        | "moveRange"
        | "balancerStart"
        | "balancerStop"
        | "balancerStatus"
        | "balancerCollectionStatus"
        | "configureCollectionBalancing"
        | "addShard"
        | "removeShard"
        | "movePrimary"
        | "clearJumboFlag"
        | "addShardToZone"
        | "removeShardFromZone"
        | "updateZoneKeyRange"
        | "listShards"
        | "cleanupOrphaned"
        | "getDefaultRWConcern" => Route::Admin,
        "killCursors" => Route::KillCursors,
        "endSessions" | "killSessions" => Route::Nothing,
        "findAndModify" | "findandmodify" => Route::Impossible("findAndModify"),
        "startSession" | "refreshSessions" => Route::Impossible("sessions"),
        "commitTransaction" | "abortTransaction" => Route::Impossible("transactions"),
        "mapReduce" | "mapreduce" => Route::Impossible("mapReduce"),
        "reshardCollection" | "refineCollectionShardKey" => Route::Impossible("a change of the shard key"),
        "saslStart" | "saslContinue" | "authenticate" => Route::Impossible("authentication"),
        _ => Route::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_listed_is_refused() {
        for name in [
            "shutdown",
            "configureFailPoint",
            "applyOps",
            "collMod",
            "clusterInsert",
            "_shardsvrMovePrimary",
            "",
        ] {
            assert_eq!(route(name), Route::Unknown, "{name}");
        }
        assert_eq!(route("insert"), Route::Engine("clusterInsert"));
        assert!(matches!(route("findAndModify"), Route::Impossible(_)));
    }
}
