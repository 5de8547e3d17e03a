//! The moves of chunks that began in the run, ours or the balancer's, as the cluster itself has noted them in
//! `config.changelog`: read once at the end, so that nothing is asked of the cluster while it is measured.

use std::time::{Duration, SystemTime};

use bson::{Bson, DateTime, Document, doc};
use futures_util::TryStreamExt;
use mongodb::Client;
use mongodb::options::{ReadConcern, SelectionCriteria};

use super::Context;
use crate::event::Event;
use crate::recording::{Migration, MigrationPhase};

/// The changelog is a capped collection of a few megabytes.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Migrations that are taken; a storm of more says no more.
const MOST: usize = 100_000;
/// The commit is noted within this time before the donor's summary.
const COMMIT_WITHIN_MS: i64 = 120_000;
/// The steps of the donor, and the phase that each belongs to.
const PHASES: [(&str, &[u8]); 4] =
    [("prepare", &[1, 2, 3]), ("clone", &[4]), ("critical_section", &[5]), ("commit", &[6])];

/// Reads and records them. Where there is no router, there are none; what cannot be read is said.
pub async fn record(ctx: &Context, client: &Client) {
    let since = DateTime::from_system_time(ctx.clock.wall(Duration::ZERO));
    let read = tokio::time::timeout(READ_WITHIN, entries(client, since)).await;
    let entries = match read {
        Ok(Ok(Some(entries))) => entries,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            return say(ctx, &crate::outcome::text(&error)).await;
        }
        Err(_) => return say(ctx, "no answer").await,
    };
    for (started, migration) in migrations(&entries) {
        let at = started.to_system_time().duration_since(ctx.clock.wall(Duration::ZERO));
        ctx.events.send_at(at.unwrap_or_default(), Event::Migration(Box::new(migration))).await;
    }
}

async fn say(ctx: &Context, why: &str) {
    let text =
        format!("what moved from shard to shard is unknown: config.changelog could not be read: {why}");
    ctx.events.send(Event::Note { text }).await;
}

/// The entries of the changelog about moves since then, oldest first; `None`: nobody routes here.
async fn entries(client: &Client, since: DateTime) -> mongodb::error::Result<Option<Vec<Document>>> {
    let hello = client.database("admin").run_command(doc! { "hello": 1 }).await?;
    if hello.get_str("msg").ok() != Some("isdbgrid") {
        return Ok(None);
    }
    let config = client.database("config").collection::<Document>("changelog");
    let moves = doc! { "what": { "$in": ["moveChunk.from", "moveChunk.commit"] }, "time": { "$gte": since } };
    let primary = SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary);
    // Of the same moment the commit comes first, as it does in the alphabet.
    let found = config.find(moves).sort(doc! { "time": 1, "what": 1 }).read_concern(ReadConcern::majority());
    let found = found.selection_criteria(primary).limit(2 * MOST as i64).await?;
    found.try_collect().await.map(Some)
}

/// One for each summary of a donor, with the time at which it began.
fn migrations(entries: &[Document]) -> Vec<(DateTime, Migration)> {
    let summaries = entries.iter().enumerate().filter(|(_, entry)| what(entry) == Some("moveChunk.from"));
    let mut all: Vec<_> =
        summaries.filter_map(|(place, entry)| migration(entry, &entries[..place])).collect();
    all.sort_by_key(|(started, _)| *started);
    all
}

fn migration(entry: &Document, before: &[Document]) -> Option<(DateTime, Migration)> {
    let (ended, details) = (*entry.get_datetime("time").ok()?, entry.get_document("details").ok()?);
    let phases: Vec<_> = PHASES.iter().map(|(name, steps)| phase(name, steps, details)).collect();
    let seconds: f64 = phases.iter().map(|phase| phase.seconds).sum();
    let started = ended
        .to_system_time()
        .checked_sub(Duration::from_secs_f64(seconds))
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let text = |name: &str| details.get_str(name).unwrap_or_default().to_owned();
    let counts = commit_of(entry, before);
    let number = |name: &str| counts.and_then(|counts| whole(counts.get(name)?));
    let committed = details.get_str("note").is_ok_and(|note| note == "success");
    let migration = Migration {
        ns: entry.get_str("ns").unwrap_or_default().to_owned(),
        min: bound(details, "min"),
        max: bound(details, "max"),
        from: text("from"),
        to: text("to"),
        committed,
        why: details.get_str("errmsg").ok().map(str::to_owned),
        started_s: 0.0,
        docs: number("cloned")
            .map(|cloned| cloned + number("catchup").unwrap_or(0) + number("steady").unwrap_or(0)),
        bytes: number("clonedBytes"),
        phases: phases.into_iter().filter(|phase| committed || phase.seconds > 0.0).collect(),
    };
    Some((DateTime::from_system_time(started), migration))
}

/// Steps are named `step 1 of 6`, with milliseconds.
fn phase(name: &str, steps: &[u8], details: &Document) -> MigrationPhase {
    let took_ms = |step: &u8| {
        let of_step = format!("step {step} of ");
        let found = details.iter().find(|(name, _)| name.starts_with(&of_step));
        found.and_then(|(_, value)| whole(value)).unwrap_or(0)
    };
    let took: u64 = steps.iter().map(took_ms).sum();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a move")]
    let seconds = took as f64 / 1e3;
    MigrationPhase { name: name.into(), seconds }
}

/// What was counted of a move: its commit has the same range, and stands not long before the summary.
fn commit_of<'a>(summary: &Document, before: &'a [Document]) -> Option<&'a Document> {
    let (time, moved) = (summary.get_datetime("time").ok()?, range(summary)?);
    let is_near = |entry: &&Document| {
        entry
            .get_datetime("time")
            .is_ok_and(|at| time.timestamp_millis() - at.timestamp_millis() < COMMIT_WITHIN_MS)
    };
    let fits = |entry: &&Document| {
        what(entry) == Some("moveChunk.commit")
            && entry.get("ns") == summary.get("ns")
            && range(entry) == Some(moved)
    };
    let commit = before.iter().rev().take_while(is_near).find(fits)?;
    commit.get_document("details").ok()?.get_document("counts").ok()
}

fn what(entry: &Document) -> Option<&str> {
    entry.get_str("what").ok()
}

fn range(entry: &Document) -> Option<(&Bson, &Bson)> {
    let details = entry.get_document("details").ok()?;
    Some((details.get("min")?, details.get("max")?))
}

fn bound(details: &Document, name: &str) -> String {
    let Ok(bound) = details.get_document(name) else { return String::new() };
    let key = |(name, value): (&String, &Bson)| match value {
        Bson::MinKey => format!("{name}: MinKey"),
        Bson::MaxKey => format!("{name}: MaxKey"),
        other => format!("{name}: {other}"),
    };
    bound.iter().map(key).collect::<Vec<_>>().join(", ")
}

fn whole(value: &Bson) -> Option<u64> {
    match value {
        Bson::Int32(number) => u64::try_from(*number).ok(),
        Bson::Int64(number) => u64::try_from(*number).ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        Bson::Double(number) if *number >= 0.0 => Some(*number as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime {
        DateTime::from_millis(1_700_000_000_000 + ms)
    }

    fn entry(what: &str, ms: i64, details: Document) -> Document {
        doc! { "what": what, "ns": "soak.docs", "time": at(ms), "details": details }
    }

    /// As mongod 6.0 writes them.
    #[test]
    fn a_move_is_put_together_from_its_summary_and_its_commit() {
        let range = doc! { "min": { "_id": Bson::MinKey }, "max": { "_id": 0_i64 }, "from": "shard0", "to": "shard1" };
        let with = |more: Document| {
            let mut all = range.clone();
            all.extend(more);
            all
        };
        let counts = doc! { "cloned": 100_i64, "clonedBytes": 5_000_i64, "catchup": 7_i64, "steady": 1_i64 };
        let steps = doc! {
            "step 1 of 6": 0, "step 2 of 6": 18, "step 3 of 6": 470, "step 4 of 6": 16_900, "step 5 of 6": 64,
            "step 6 of 6": 216, "note": "success",
        };
        let failed = doc! { "step 1 of 6": 0, "step 2 of 6": 10, "note": "aborted", "errmsg": "why" };
        let entries = [
            entry("moveChunk.commit", 17_500, with(doc! { "counts": counts })),
            entry("moveChunk.from", 17_668, with(steps)),
            entry("moveChunk.from", 20_010, with(failed)),
        ];
        let found = migrations(&entries);
        let [(began, first), (again, second)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((*began, *again), (at(0), at(20_000)));
        let phases: Vec<_> = first.phases.iter().map(|p| (p.name.as_str(), p.seconds)).collect();
        assert_eq!(
            phases,
            [("prepare", 0.488), ("clone", 16.9), ("critical_section", 0.064), ("commit", 0.216)]
        );
        assert_eq!((first.committed, first.docs, first.bytes), (true, Some(108), Some(5_000)));
        assert_eq!((first.min.as_str(), first.from.as_str()), ("_id: MinKey", "shard0"));
        // The commit of the move before is not its own: it is older, but nothing else was noted.
        assert_eq!((second.committed, second.why.as_deref()), (false, Some("why")));
        assert_eq!(second.phases.len(), 1);
    }
}
