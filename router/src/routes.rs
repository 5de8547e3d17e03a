//! The one list of commands: what is not in it does not reach any server.
//!
//! The targets are texts for people: the status shows them with the number of calls.

/// Who deals with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Renamed to this, the rest goes to rtr as it is.
    Crud(&'static str),
    /// rtr as it is: reads nothing but the state of rtr.
    AsIs,
    Count,
    Distinct,
    Explain,
    KillCursors,
    Hello,
    Status,
    /// Answered with ok: there is nothing to do here.
    Nothing,
    /// `ddl`, for collections and databases.
    Ddl,
    /// `admin`, on the database admin only.
    Admin,
    /// Known, and not possible.
    Impossible(&'static str),
}

/// A command and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub name: &'static str,
    pub kind: Kind,
    pub target: &'static str,
}

const fn to(name: &'static str, kind: Kind, target: &'static str) -> Route {
    Route { name, kind, target }
}

const fn crud(name: &'static str, renamed: &'static str) -> Route {
    to(name, Kind::Crud(renamed), renamed)
}

const fn as_is(name: &'static str) -> Route {
    to(name, Kind::AsIs, "the server behind, as it is")
}

const fn impossible(name: &'static str, reason: &'static str) -> Route {
    to(name, Kind::Impossible(reason), "refused")
}

const OWN: &str = "the router itself";
const PRIMARY_SHARD: &str = "primary shard of the database";
const OWNERS: &str = "shards that hold the collection";
const ALL_SHARDS: &str = "all shards";
const TRANSACTION: &str = "transactions";
const MODIFY: &str = "findAndModify: there is no cluster form of it in a mongod";

/// Those of load first: the list is searched from its beginning. Several spellings are as old as the servers.
pub(crate) const ROUTES: &[Route] = &[
    crud("find", "clusterFind"),
    crud("insert", "clusterInsert"),
    crud("update", "clusterUpdate"),
    crud("aggregate", "clusterAggregate"),
    crud("delete", "clusterDelete"),
    crud("getMore", "clusterGetMore"),
    to("hello", Kind::Hello, OWN),
    to("isMaster", Kind::Hello, OWN),
    to("ismaster", Kind::Hello, OWN),
    as_is("ping"),
    to("count", Kind::Count, "clusterAggregate"),
    to("distinct", Kind::Distinct, "clusterAggregate"),
    to("killCursors", Kind::KillCursors, "killSessions on the shards, clusterGetMore"),
    to("explain", Kind::Explain, "explain of clusterFind, or clusterAggregate"),
    to("endSessions", Kind::Nothing, OWN),
    to("mongosoakRouter", Kind::Status, OWN),
    as_is("buildInfo"),
    as_is("buildinfo"),
    as_is("hostInfo"),
    as_is("serverStatus"),
    as_is("getParameter"),
    as_is("connectionStatus"),
    as_is("currentOp"),
    as_is("getLog"),
    as_is("getCmdLineOpts"),
    as_is("whatsmyuri"),
    as_is("listCommands"),
    as_is("getShardMap"),
    as_is("flushRouterConfig"),
    to("create", Kind::Ddl, PRIMARY_SHARD),
    to("createIndexes", Kind::Ddl, OWNERS),
    to("dropIndexes", Kind::Ddl, "primary shard: _shardsvrDropIndexes"),
    to("deleteIndexes", Kind::Ddl, "primary shard: _shardsvrDropIndexes"),
    to("drop", Kind::Ddl, "primary shard: _shardsvrDropCollection"),
    to("dropDatabase", Kind::Ddl, "primary shard: _shardsvrDropDatabase"),
    to("renameCollection", Kind::Ddl, "primary shard: _shardsvrRenameCollection"),
    to("listCollections", Kind::Ddl, PRIMARY_SHARD),
    to("listIndexes", Kind::Ddl, OWNERS),
    to("collStats", Kind::Ddl, OWNERS),
    to("collstats", Kind::Ddl, OWNERS),
    to("validate", Kind::Ddl, OWNERS),
    to("dbStats", Kind::Ddl, ALL_SHARDS),
    to("dbstats", Kind::Ddl, ALL_SHARDS),
    to("listDatabases", Kind::Ddl, ALL_SHARDS),
    to("enableSharding", Kind::Admin, "config: _configsvrCreateDatabase"),
    to("shardCollection", Kind::Admin, "primary shard: _shardsvrCreateCollection"),
    to("split", Kind::Admin, "owning shard: splitChunk"),
    to("mergeChunks", Kind::Admin, "owning shard: mergeChunks"),
    to("moveChunk", Kind::Admin, "config: _configsvrMoveRange"),
    to("moveRange", Kind::Admin, "config: _configsvrMoveRange"),
    to("clearJumboFlag", Kind::Admin, "config: _configsvrClearJumboFlag"),
    to("balancerStart", Kind::Admin, "config: _configsvrBalancerStart"),
    to("balancerStop", Kind::Admin, "config: _configsvrBalancerStop"),
    to("balancerStatus", Kind::Admin, "config: _configsvrBalancerStatus"),
    to("balancerCollectionStatus", Kind::Admin, "config: _configsvrBalancerCollectionStatus"),
    to("configureCollectionBalancing", Kind::Admin, "config: _configsvrConfigureCollectionBalancing"),
    to("addShard", Kind::Admin, "config: _configsvrAddShard"),
    to("removeShard", Kind::Admin, "config: _configsvrRemoveShard"),
    to("addShardToZone", Kind::Admin, "config: _configsvrAddShardToZone"),
    to("removeShardFromZone", Kind::Admin, "config: _configsvrRemoveShardFromZone"),
    to("updateZoneKeyRange", Kind::Admin, "config: _configsvrUpdateZoneKeyRange"),
    to("getDefaultRWConcern", Kind::Admin, "config, as it is"),
    to("listShards", Kind::Admin, "config: config.shards"),
    to("movePrimary", Kind::Admin, "primary shard: _shardsvrMovePrimary"),
    to("cleanupOrphaned", Kind::Admin, "shards that exist, as it is"),
    impossible("findAndModify", MODIFY),
    impossible("findandmodify", MODIFY),
    impossible("mapReduce", "mapReduce: use aggregate"),
    impossible("mapreduce", "mapReduce: use aggregate"),
    impossible("commitTransaction", TRANSACTION),
    impossible("abortTransaction", TRANSACTION),
    impossible("startSession", "sessions"),
    impossible("refreshSessions", "sessions"),
    impossible("bulkWrite", "bulkWrite over several collections"),
    impossible("collMod", "collMod"),
    impossible("reshardCollection", "resharding"),
    impossible("refineCollectionShardKey", "refining of shard keys"),
];

/// The place of a command in the list.
pub(crate) fn position(name: &str) -> Option<usize> {
    ROUTES.iter().position(|route| route.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_command_is_there_once() {
        let names: HashSet<_> = ROUTES.iter().map(|route| route.name).collect();
        assert_eq!(names.len(), ROUTES.len());
    }

    #[test]
    fn what_the_server_behind_would_do_to_itself_is_not_there() {
        for name in
            ["clusterInsert", "_configsvrMoveRange", "shutdown", "setParameter", "replSetStepDown", "eval"]
        {
            assert_eq!(position(name), None, "{name}");
        }
    }
}
