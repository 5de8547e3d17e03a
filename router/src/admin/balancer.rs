//! The balancer, which runs on the config servers.

use bson::{Document, doc};

use super::{copy, subject};
use crate::refusal::Refusal;

/// The command for the config servers. None of these takes a write concern.
pub(super) fn translated(name: &str, asked: &Document) -> Result<Document, Refusal> {
    let (mut command, options): (_, &[&str]) = match name {
        "balancerStart" => (doc! { "_configsvrBalancerStart": 1 }, &["maxTimeMS"]),
        // Stopping waits for the round that is under way.
        "balancerStop" => (doc! { "_configsvrBalancerStop": 1, "maxTimeMS": 60_000 }, &["maxTimeMS"]),
        "balancerStatus" => (doc! { "_configsvrBalancerStatus": 1 }, &["maxTimeMS"]),
        "balancerCollectionStatus" => {
            (doc! { "_configsvrBalancerCollectionStatus": subject(asked)? }, &["maxTimeMS"])
        }
        "configureCollectionBalancing" => (
            doc! { "_configsvrConfigureCollectionBalancing": subject(asked)? },
            &["chunkSize", "defragmentCollection", "enableAutoSplitter", "maxTimeMS"],
        ),
        other => return Err(Refusal::not_found(format!("the stand-in router cannot {other}"))),
    };
    copy(asked, &mut command, options);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balancer_is_asked_in_the_words_of_config_servers() {
        let asked = doc! { "balancerStop": 1, "maxTimeMS": 5, "writeConcern": { "w": 1 } };
        let expected = doc! { "_configsvrBalancerStop": 1, "maxTimeMS": 5 };
        assert_eq!(translated("balancerStop", &asked), Ok(expected));
        let asked = doc! { "configureCollectionBalancing": "d.c", "chunkSize": 1 };
        let expected = doc! { "_configsvrConfigureCollectionBalancing": "d.c", "chunkSize": 1 };
        assert_eq!(translated("configureCollectionBalancing", &asked), Ok(expected));
        assert_eq!(translated("other", &asked).unwrap_err().code, 59);
    }
}
