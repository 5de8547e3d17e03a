//! Changing the configuration of a replica set: always on top of what it is at that moment.

use std::time::Duration;

use bson::{Bson, Document, doc};

use crate::{CommandError, FaultError, Site};

/// Another change may be under way, or the set may just be looking for a primary.
const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);
/// `ConfigurationInProgress`, `CurrentConfigNotCommittedYet`, `NewReplicaSetConfigurationIncompatible` of a version
/// that somebody else took, `NotWritablePrimary`, `PrimarySteppedDown`, `Interrupted...`: ask again.
const PASSING: [i32; 7] = [109, 308, 103, 10_107, 189, 11_602, 11_600];

/// The configuration as the primary has it now.
pub(super) async fn current(site: &Site<'_>) -> Result<Document, FaultError> {
    let what = "a primary that shows the configuration of the set";
    site.until(DEADLINE, what, || async {
        let primary = site.view().await.primary()?.name.clone();
        let answer = site.ask_node(&primary, doc! { "replSetGetConfig": 1 }).await.ok()?;
        answer.get_document("config").ok().cloned()
    })
    .await
}

/// Changes the configuration; `change` says false when there is nothing to change (any more). Returns the new
/// version, `None` when nothing was changed.
pub(super) async fn change(
    site: &Site<'_>,
    mut change: impl FnMut(&mut Document) -> bool + Send,
) -> Result<Option<i64>, FaultError> {
    let mut last = String::from("no primary");
    let trying = async {
        loop {
            let mut config = current(site).await?;
            if !change(&mut config) {
                return Ok(None);
            }
            let version = number(config.get("version")) + 1;
            config.insert("version", version);
            // The server sets the term itself.
            config.remove("term");
            let Some(primary) = site.view().await.primary().map(|p| p.name.clone()) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match site.ask_node(&primary, doc! { "replSetReconfig": config }).await {
                Ok(_) => return Ok(Some(version)),
                Err(CommandError::Server { code, message, .. }) if !PASSING.contains(&code) => {
                    return Err(site.failed("reconfigure", message));
                }
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(DEADLINE, trying).await {
        Ok(result) => result,
        Err(_) => Err(site.failed("reconfigure", last)),
    }
}

/// The entry of a node in a configuration.
pub(super) fn member<'c>(site: &Site<'_>, config: &'c mut Document, node: &str) -> Option<&'c mut Document> {
    let address = site.on.address(node)?;
    let members = config.get_array_mut("members").ok()?;
    let documents = members.iter_mut().filter_map(Bson::as_document_mut);
    documents.into_iter().find(|member| member.get_str("host").is_ok_and(|host| host == address))
}

/// A whole number of any width.
pub(crate) fn number(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        #[expect(clippy::cast_possible_truncation, reason = "versions and priorities are small")]
        Some(Bson::Double(n)) => *n as i64,
        _ => 0,
    }
}
