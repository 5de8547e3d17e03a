//! Zones: which ranges belong on which shards.

use bson::{Bson, Document, doc};

use super::{copy, document, subject, text};
use crate::catalog::majority;
use crate::refusal::Refusal;

/// The command for the config servers.
pub(super) fn translated(name: &str, asked: &Document) -> Result<Document, Refusal> {
    let subject = subject(asked)?;
    let mut command = match name {
        "addShardToZone" => doc! { "_configsvrAddShardToZone": subject, "zone": text(asked, "zone")? },
        "removeShardFromZone" => {
            doc! { "_configsvrRemoveShardFromZone": subject, "zone": text(asked, "zone")? }
        }
        _ => {
            document(asked, "min")?;
            document(asked, "max")?;
            let mut command = doc! { "_configsvrUpdateZoneKeyRange": subject };
            copy(asked, &mut command, &["min", "max"]);
            // No zone takes the range out of its zone.
            command.insert("zone", asked.get("zone").unwrap_or(&Bson::Null));
            command
        }
    };
    command.insert("writeConcern", majority());
    Ok(command)
}
