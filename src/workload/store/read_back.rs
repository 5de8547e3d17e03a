//! Settles "duplicate key" answers to documents under fresh keys. Nobody else writes there, so it can only
//! be the second try of a driver that lost the answer to the first one, or somebody else's data: the
//! document itself says which.

use std::sync::Arc;

use bson::{RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria};
use mongodb::{Client, Collection};

use super::Outcomes;
use crate::dataset::Documents;
use crate::ledger::Ledger;
use crate::outcome::{self, Cause, DUPLICATE_KEY, NOT_ATTEMPTED, Outcome};
use crate::scenario::Dataset;

/// What is found under the key of a document that should have been new.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Ours,
    Foreign(String),
}

/// Reads what a majority has, on the primary.
#[derive(Clone, Debug)]
pub(super) struct ReadBack {
    collection: Collection<RawDocumentBuf>,
    documents: Documents,
    ledger: Arc<Ledger>,
}

impl ReadBack {
    pub(super) fn new(client: &Client, dataset: &Dataset, documents: Documents, ledger: Arc<Ledger>) -> Self {
        let options = CollectionOptions::builder()
            .read_concern(ReadConcern::majority())
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build();
        let database = client.database(&dataset.database);
        let collection = database.collection_with_options(&dataset.collection, options);
        Self { collection, documents, ledger }
    }

    /// The outcomes of an insert, with every "duplicate key" looked up. Mostly there is none.
    pub(super) async fn settle(&self, first: u64, count: u64, outcomes: Outcomes) -> Outcomes {
        let mut each = match outcomes {
            Outcomes::One(outcome) if is(&outcome, DUPLICATE_KEY) => vec![outcome],
            Outcomes::Each(each) if each.iter().any(|outcome| is(outcome, DUPLICATE_KEY)) => each,
            settled => return settled,
        };
        let settled = match self.look(first, count).await {
            Ok(found) => settle(&mut each, &found),
            Err(error) => {
                leave_open(&mut each, &error);
                0
            }
        };
        self.ledger.note_read_back(settled);
        Outcomes::Each(each)
    }

    /// What is there, key by key.
    async fn look(&self, first: u64, count: u64) -> mongodb::error::Result<Vec<Found>> {
        let mut all = vec![Found::Nothing; usize::try_from(count).unwrap_or(0)];
        let id = |key| self.documents.id(key);
        let range = doc! { "_id": { "$gte": id(first), "$lt": id(first + count) } };
        let mut cursor = self.collection.find(range).await?;
        while cursor.advance().await? {
            let raw = cursor.current();
            let (key, found) = match self.documents.check(raw) {
                Ok((key, 0)) => (Some(key), Found::Ours),
                Ok((key, version)) => (Some(key), Found::Foreign(format!("it has version {version}"))),
                Err(error) => {
                    let key = raw.get_i64("_id").ok().and_then(|id| self.documents.key_of(id));
                    (key, Found::Foreign(error.to_string()))
                }
            };
            let index = key.and_then(|key| usize::try_from(key.checked_sub(first)?).ok());
            if let Some(place) = index.and_then(|index| all.get_mut(index)) {
                *place = found;
            }
        }
        Ok(all)
    }
}

/// Gives the number of keys that count as acknowledged now.
fn settle(each: &mut [Outcome], found: &[Found]) -> u64 {
    let own = |(outcome, found): (&Outcome, &Found)| {
        is(outcome, DUPLICATE_KEY) && !matches!(found, Found::Foreign(_))
    };
    // An ordered batch that meets its own document was sent twice: what the second try did not attempt, the
    // first one may have written.
    let sent_twice = each.iter().zip(found).any(own);
    let mut settled = 0;
    for (outcome, found) in each.iter_mut().zip(found) {
        let duplicate = is(outcome, DUPLICATE_KEY);
        let open = duplicate || sent_twice && is(outcome, NOT_ATTEMPTED);
        if !open {
            continue;
        }
        match found {
            Found::Ours => {
                *outcome = Outcome::Ok;
                settled += 1;
            }
            Found::Nothing => *outcome = Outcome::Unknown(duplicate_key("no majority has the document yet")),
            Found::Foreign(why) if duplicate => {
                let text = format!("the key is taken by a document that is not ours: {why}");
                *outcome = Outcome::Failed(duplicate_key(&text));
            }
            Found::Foreign(_) => {}
        }
    }
    settled
}

/// Nobody knows whose documents these are.
fn leave_open(each: &mut [Outcome], error: &mongodb::error::Error) {
    let text = format!("the document could not be read back: {}", outcome::text(error));
    for open in each.iter_mut().filter(|outcome| is(outcome, DUPLICATE_KEY) || is(outcome, NOT_ATTEMPTED)) {
        *open = Outcome::Unknown(duplicate_key(&text));
    }
}

fn duplicate_key(text: &str) -> Cause {
    Cause { code: Some(outcome::DUPLICATE_KEY_CODE), ..Cause::new(DUPLICATE_KEY, text) }
}

fn is(outcome: &Outcome, class: &str) -> bool {
    matches!(outcome, Outcome::Failed(cause) if cause.class == class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: &'static str) -> Outcome {
        Outcome::Failed(Cause::new(class, ""))
    }

    fn words(outcomes: &[Outcome]) -> String {
        let word = |o: &Outcome| match o {
            Outcome::Ok => 'o',
            Outcome::Failed(_) => 'f',
            Outcome::Unknown(_) => '?',
        };
        outcomes.iter().map(word).collect()
    }

    #[test]
    fn a_duplicate_of_our_own_is_acknowledged_one_of_others_is_not() {
        let foreign = Found::Foreign("document without a key".into());
        for (found, word, settled) in [(Found::Ours, "o", 1), (Found::Nothing, "?", 0), (foreign, "f", 0)] {
            let mut each = [failed(DUPLICATE_KEY)];
            assert_eq!(settle(&mut each, &[found]), settled);
            assert_eq!(words(&each), word);
        }
    }

    #[test]
    fn the_rest_of_an_ordered_batch_that_was_sent_twice_is_looked_up_too() {
        let mut each = [Outcome::Ok, failed(DUPLICATE_KEY), failed(NOT_ATTEMPTED), failed(NOT_ATTEMPTED)];
        let found = [Found::Ours, Found::Ours, Found::Ours, Found::Nothing];
        assert_eq!(settle(&mut each, &found), 2);
        assert_eq!(words(&each), "ooo?");
        // Somebody else's document: the batch was sent once, and nothing behind it was attempted.
        let mut each = [failed(DUPLICATE_KEY), failed(NOT_ATTEMPTED)];
        assert_eq!(settle(&mut each, &[Found::Foreign(String::new()), Found::Nothing]), 0);
        assert_eq!(words(&each), "ff");
    }

    #[test]
    fn other_answers_stay_what_they_are() {
        let mut each = [failed("write_error"), failed(DUPLICATE_KEY), Outcome::Ok];
        assert_eq!(settle(&mut each, &[Found::Nothing, Found::Ours, Found::Ours]), 1);
        assert_eq!(words(&each), "foo");
    }

    #[test]
    fn what_cannot_be_read_back_is_unknown() {
        let error = mongodb::error::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        let mut each = [failed(DUPLICATE_KEY), failed("write_error")];
        leave_open(&mut each, &error);
        assert_eq!(words(&each), "?f");
    }
}
