//! Who routes in a sharded cluster: a mongos if there is one, else the stand-in.

use std::path::PathBuf;

use super::ClusterError;
use super::binary::{self, Binary};

/// The first server that has the routing code as commands.
const STAND_IN_SINCE: &str = "6.0";

/// What clients dial.
#[derive(Clone, Debug)]
pub enum Routing {
    /// The router of MongoDB.
    Mongos(Binary),
    /// This program, run as `PROGRAM router ...`, in front of a drained shard server. It is no mongos.
    StandIn(PathBuf),
}

impl Routing {
    /// A mongos that was named, or found on PATH or beside the mongod; else the stand-in, run by `program`.
    ///
    /// # Errors
    /// When what was named is no mongos.
    pub async fn find(choice: Option<&str>, mongod: &Binary, program: PathBuf) -> Result<Self, ClusterError> {
        match binary::find_mongos(choice, mongod).await {
            Ok(Some(mongos)) => Ok(Self::Mongos(mongos)),
            Ok(None) => Ok(Self::StandIn(program)),
            Err(why) => Err(ClusterError::Routing(why)),
        }
    }

    /// Whether it is the stand-in.
    #[must_use]
    pub const fn is_stand_in(&self) -> bool {
        matches!(self, Self::StandIn(_))
    }

    /// For people and reports: what routes, and with which code.
    #[must_use]
    pub fn describe(&self, mongod: &Binary) -> String {
        match self {
            Self::Mongos(mongos) => format!("mongos {}", mongos.version),
            Self::StandIn(_) => format!(
                "stand-in router (no mongos was found): the cluster* commands of mongod {}; no transactions, no \
                 retryable writes, no findAndModify; needs mongod {STAND_IN_SINCE} or newer",
                mongod.version
            ),
        }
    }
}
