//! `move_chunks`: ranges of documents move from shard to shard while the load goes on. Each move is booked, and who
//! has the range afterwards is read from the routing table: a connection that broke says nothing of that.

use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, doc};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::routing::{self, Chunk, Collection};
use crate::catalog::{Kind, Need};
use crate::network::now;
use crate::server::{COLLECTION, DATABASE, namespace};
use crate::{
    CommandError, Evidence, Fault, FaultError, Memo, NodeTarget, Parameter, Preset, Site, Takes, facts,
};

/// A chunk of the largest size, on a busy disk.
const MOVE_DEADLINE: Duration = Duration::from_secs(15 * 60);
/// Tries until the first move went through.
const FIRST_TRIES: u64 = 20;
const PAUSE: Duration = Duration::from_secs(1);
/// Moves of one fault; each leaves a line.
const MOST_MOVES: u64 = 1_000;
/// A shard that gives or takes already, and a range whose old copy is not deleted yet: the servers say "later".
const LATER: [i32; 2] = [117, 96];
/// After an election the config server takes no moves for some seconds.
const NOT_YET: i32 = 194;
/// More documents than fit a move.
const TOO_BIG: i32 = 153;
/// The routing table has moved on since it was read.
const STALE: i32 = 13_388;

/// `moveChunk`, again and again.
pub const MOVE_CHUNKS: Kind = Kind {
    name: "move_chunks",
    group: "sharding",
    does: "moves chunks of a collection from shard to shard, one after the other, through the router",
    parameters: &[
        DATABASE,
        COLLECTION,
        Parameter { name: "count", takes: Takes::Count, default: Preset::Count(10), about: "how many moves" },
        Parameter {
            name: "from",
            takes: Takes::Text,
            default: Preset::Absent,
            about: "only chunks of this shard; left out: of the shard that has most of them",
        },
        Parameter {
            name: "to",
            takes: Takes::Text,
            default: Preset::Absent,
            about: "only to this shard; left out: to any other",
        },
        Parameter {
            name: "pause",
            takes: Takes::Duration,
            default: Preset::Seconds(1.0),
            about: "time between two moves",
        },
    ],
    needs: &[Need::Sharded],
    build: |parameters| {
        let count = parameters.count("count")?;
        if !(1..=MOST_MOVES).contains(&count) {
            return Err(format!("count: from 1 to {MOST_MOVES}"));
        }
        let shard = |name: &str| parameters.has(name).then(|| parameters.text(name)).transpose();
        let (from, to) = (shard("from")?, shard("to")?);
        if from.is_some() && from == to {
            return Err("to: the shard that the chunks come from".into());
        }
        Ok(Box::new(MoveChunks {
            namespace: namespace(parameters)?,
            count,
            from,
            to,
            pause: parameters.duration("pause")?,
            state: Mutex::default(),
        }))
    },
};

#[derive(Debug)]
struct MoveChunks {
    namespace: String,
    count: u64,
    from: Option<String>,
    to: Option<String>,
    pause: Duration,
    state: Mutex<Moves>,
}

/// What was done so far.
#[derive(Debug, Default)]
struct Moves {
    lines: Vec<Value>,
    done: u64,
    later: u64,
    failed: u64,
    /// Where the next choice begins.
    turn: u64,
}

/// What became of one move.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The servers asked to come again.
    Later,
    Failed,
}

impl MoveChunks {
    /// Moves one chunk, and books what became of it.
    async fn one(&self, site: &Site<'_>, collection: &Collection) -> Result<(), FaultError> {
        let mut state = self.state.lock().await;
        let turn = state.turn;
        state.turn += 1;
        let chunks = routing::chunks(site, collection).await?;
        let shards = routing::shards(site).await?;
        let Some((chunk, to)) = self.choose(&chunks, &shards, site.tie.wrapping_add(turn)) else {
            return Err(site.nothing_to_do(format!("finds no chunk of {} that could move", self.namespace)));
        };
        let started = now();
        let answer = self.ask(site, &chunk, &to).await;
        let seconds = (started.elapsed().as_secs_f64() * 1e3).round() / 1e3;
        let owner = routing::owner(site, collection, &chunk.min).await?;
        let (outcome, code) = judge(&answer, owner.as_deref() == Some(to.as_str()));
        match outcome {
            Outcome::Done => state.done += 1,
            Outcome::Later => state.later += 1,
            Outcome::Failed => state.failed += 1,
        }
        let why = answer.err().map(|error| error.to_string());
        state.lines.push(json!({
            "range": chunk.range(),
            "from": chunk.shard,
            "to": to,
            "owner": owner,
            "outcome": match outcome { Outcome::Done => "done", Outcome::Later => "skipped", Outcome::Failed => "failed" },
            "code": code,
            "why": why,
            "seconds": seconds,
        }));
        Ok(())
    }

    /// A chunk of the shard that has most of them, and another shard.
    fn choose(&self, chunks: &[Chunk], shards: &[String], tie: u64) -> Option<(Chunk, String)> {
        let count = |shard: &str| chunks.iter().filter(|chunk| chunk.shard == shard).count();
        let from = self.from.clone().or_else(|| {
            let gives = |shard: &&String| self.to.as_ref() != Some(*shard);
            shards.iter().filter(gives).max_by_key(|shard| count(shard)).cloned()
        })?;
        let of_it: Vec<_> = chunks.iter().filter(|chunk| chunk.shard == from).collect();
        let others: Vec<_> = shards.iter().filter(|shard| **shard != from).collect();
        let pick = |length: usize, tie: u64| (length > 0).then(|| (tie % length as u64) as usize);
        let chunk = of_it[pick(of_it.len(), tie)?].clone();
        let to = self.to.clone().map_or_else(|| Some(others[pick(others.len(), tie)?].clone()), Some)?;
        Some((chunk, to))
    }

    /// Asks for it; of a chunk that is too large only its first part moves.
    async fn ask(&self, site: &Site<'_>, chunk: &Chunk, to: &str) -> Result<Document, CommandError> {
        let whole = doc! { "moveChunk": &self.namespace, "bounds": chunk.bounds(), "to": to };
        match site.on.command(site.node, "admin", &whole, MOVE_DEADLINE).await {
            Err(CommandError::Server { code: TOO_BIG, .. }) => {
                let part = doc! { "moveRange": &self.namespace, "min": chunk.min.clone(), "toShard": to };
                site.on.command(site.node, "admin", &part, MOVE_DEADLINE).await
            }
            answer => answer,
        }
    }

    async fn evidence(&self) -> Evidence {
        let state = self.state.lock().await;
        facts([
            ("done", json!(state.done)),
            ("skipped", json!(state.later)),
            ("failed", json!(state.failed)),
            ("moves", json!(state.lines)),
        ])
    }
}

/// What became of a move, with the server's code. Who has the chunk decides, not the answer.
fn judge(answer: &Result<Document, CommandError>, moved: bool) -> (Outcome, Option<i32>) {
    let code = match answer {
        Err(CommandError::Server { code, .. }) => Some(*code),
        _ => None,
    };
    let outcome = match code {
        _ if moved => Outcome::Done,
        Some(code) if LATER.contains(&code) || code == NOT_YET || code == STALE => Outcome::Later,
        _ => Outcome::Failed,
    };
    (outcome, code)
}

#[async_trait]
impl Fault for MoveChunks {
    fn target(&self) -> NodeTarget {
        NodeTarget::Mongos
    }

    fn hold(&self) -> Duration {
        Duration::ZERO
    }

    /// Where the chunks are now is as good as where they were.
    fn ends_with_processes(&self) -> bool {
        true
    }

    async fn prepare(&self, site: &Site<'_>) -> Result<Memo, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        let chunks = routing::chunks(site, &collection).await?;
        let shards = routing::shards(site).await?;
        if shards.len() < 2 {
            return Err(site.nothing_to_do("has one shard only: no chunk can move"));
        }
        for named in [&self.from, &self.to].into_iter().flatten() {
            if !shards.contains(named) {
                return Err(
                    site.unavailable(format!("there is no shard {named}, only {}", shards.join(", ")))
                );
            }
        }
        let of = |shard: &String| (shard.clone(), chunks.iter().filter(|c| c.shard == *shard).count());
        let spread: std::collections::BTreeMap<_, _> = shards.iter().map(of).collect();
        Ok(facts([("chunks_before", json!(spread))]))
    }

    async fn inject(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        for _ in 0..FIRST_TRIES {
            self.one(site, &collection).await?;
            if self.state.lock().await.done > 0 {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(self.evidence().await)
    }

    async fn observe_effect(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        let state = self.state.lock().await;
        if state.done == 0 {
            let last = state.lines.last().map_or_else(String::new, Value::to_string);
            return Err(site.no_effect(deadline, format!("no chunk moved; the last try: {last}")));
        }
        Ok(facts([("done", json!(state.done))]))
    }

    /// The other moves.
    async fn held(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        // A move that was put off is not one of them, but the tries have an end.
        for _ in 0..self.count.saturating_mul(4) {
            if self.state.lock().await.done >= self.count {
                break;
            }
            tokio::time::sleep(self.pause).await;
            self.one(site, &collection).await?;
        }
        Ok(self.evidence().await)
    }

    async fn lift(&self, site: &Site<'_>, _memo: &Memo) -> Result<Evidence, FaultError> {
        let collection = routing::collection(site, &self.namespace).await?;
        let chunks = routing::chunks(site, &collection).await?;
        let mut spread = std::collections::BTreeMap::<String, u64>::new();
        chunks.into_iter().for_each(|chunk| *spread.entry(chunk.shard).or_default() += 1);
        Ok(facts([("chunks_after", json!(spread))]))
    }

    /// Old copies are deleted after every move; until then the servers themselves hide them.
    async fn observe_lifted(
        &self,
        site: &Site<'_>,
        _memo: &Memo,
        deadline: Duration,
    ) -> Result<Evidence, FaultError> {
        routing::no_orphans(site, deadline).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(min: i32, shard: &str) -> Chunk {
        Chunk { min: doc! { "_id": min }, max: doc! { "_id": min + 1 }, shard: shard.into() }
    }

    fn moves(from: Option<&str>, to: Option<&str>) -> MoveChunks {
        MoveChunks {
            namespace: "soak.docs".into(),
            count: 3,
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
            pause: Duration::ZERO,
            state: Mutex::default(),
        }
    }

    #[test]
    fn the_fuller_shard_gives_unless_the_user_says_who() {
        let chunks = [chunk(1, "a"), chunk(2, "b"), chunk(3, "b")];
        let shards = ["a".to_owned(), "b".to_owned()];
        let choose = |m: MoveChunks, tie| m.choose(&chunks, &shards, tie).map(|(c, to)| (c.min, to));
        assert_eq!(choose(moves(None, None), 0), Some((doc! { "_id": 2 }, "a".into())));
        assert_eq!(choose(moves(None, None), 1), Some((doc! { "_id": 3 }, "a".into())));
        assert_eq!(choose(moves(Some("a"), None), 5), Some((doc! { "_id": 1 }, "b".into())));
        assert_eq!(choose(moves(None, Some("b")), 5), Some((doc! { "_id": 1 }, "b".into())));
        assert_eq!(choose(moves(Some("c"), None), 5), None);
    }

    #[test]
    fn the_routing_table_decides_and_not_the_answer() {
        let refused =
            |code| Err(CommandError::Server { code, code_name: String::new(), message: String::new() });
        assert_eq!(judge(&Ok(doc! {}), true), (Outcome::Done, None));
        assert_eq!(judge(&Ok(doc! {}), false), (Outcome::Failed, None));
        for code in [117, 96, 194, 13_388] {
            assert_eq!(judge(&refused(code), false), (Outcome::Later, Some(code)));
        }
        assert_eq!(judge(&refused(96), true), (Outcome::Done, Some(96)), "moved all the same");
        assert_eq!(judge(&refused(70), false), (Outcome::Failed, Some(70)));
        let cut = Err(CommandError::Timeout(Duration::from_secs(1)));
        assert_eq!(judge(&cut, true), (Outcome::Done, None));
        assert_eq!(judge(&cut, false), (Outcome::Failed, None));
    }
}
