//! Faults inside of a server: failpoints, parameters, and work that it is given.

mod build;
mod compact;
mod failpoint;
mod kill_operations;
mod parameter;

pub use build::INDEX_BUILD;
pub use compact::COMPACT;
pub use failpoint::{FAIL_COMMAND, FAILPOINT};
pub use kill_operations::KILL_OPERATIONS;
pub use parameter::SET_PARAMETER;

use crate::{Parameter, Parameters, Preset, Takes};

/// The collection that [`DATABASE`] and [`COLLECTION`] name: `soak.docs`.
pub(crate) fn namespace(parameters: &Parameters) -> Result<String, String> {
    Ok(format!("{}.{}", parameters.text("database")?, parameters.text("collection")?))
}

/// `database`, by default that of scenarios.
pub(crate) const DATABASE: Parameter = Parameter {
    name: "database",
    takes: Takes::Text,
    default: Preset::Text("soak"),
    about: "in which database",
};
/// `collection`, by default that of scenarios.
pub(crate) const COLLECTION: Parameter = Parameter {
    name: "collection",
    takes: Takes::Text,
    default: Preset::Text("docs"),
    about: "on which collection",
};
