//! What is done to whose connections. Pure: no socket, no time.
//!
//! Rules of several owners are in force at once. For one connection, the strongest ending wins, each
//! direction is stalled if any rule says so, waits for the longest delay, and goes at the lowest rate.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Who dialled a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// Somebody who is no member: a driver, a shell.
    Client,
    /// The member of that name.
    Member(String),
    /// It said nothing in time, or said that it is a member and was none that is known. Rules for clients
    /// hit it, too.
    Unknown,
}

/// Which connections: by who dialled, and whom. "One way" always means this: a TCP connection that loses
/// packets in one direction loses them in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Who dialled; `None`: anybody.
    pub from: Option<BTreeSet<Party>>,
    /// Names of the members that were dialled; `None`: all.
    pub to: Option<BTreeSet<String>>,
    /// A member that dials itself, and a connection that begins with a bare `_isSelf`.
    pub own: Own,
}

/// What becomes of the connections by which members find out which of the configured hosts they are. A member
/// that cannot reach itself when it starts gives up its place in the set until it can, and one that meets
/// silence waits 30 s: seldom what a fault is meant to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Own {
    /// They always pass.
    #[default]
    Spare,
    /// They are hit like all others.
    Hit,
}

impl Selector {
    /// All connections but those of [`Own`].
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Connections to these members.
    #[must_use]
    pub fn to<S: Into<String>>(mut self, members: impl IntoIterator<Item = S>) -> Self {
        self.to = Some(members.into_iter().map(Into::into).collect());
        self
    }

    /// Connections dialled by these.
    #[must_use]
    pub fn from(mut self, parties: impl IntoIterator<Item = Party>) -> Self {
        self.from = Some(parties.into_iter().collect());
        self
    }

    /// Also those of [`Own`].
    #[must_use]
    pub fn with_own(mut self) -> Self {
        self.own = Own::Hit;
        self
    }

    pub(crate) fn matches(&self, link: &Ends<'_>) -> bool {
        let own = link.self_probe || matches!(link.from, Party::Member(name) if name == link.to);
        let spared = own && self.own == Own::Spare;
        !spared && self.matches_from(link.from) && self.matches_to(link.to)
    }

    pub(crate) fn matches_to(&self, to: &str) -> bool {
        self.to.as_ref().is_none_or(|members| members.contains(to))
    }

    fn matches_from(&self, from: &Party) -> bool {
        let as_client =
            |parties: &BTreeSet<Party>| *from == Party::Unknown && parties.contains(&Party::Client);
        self.from.as_ref().is_none_or(|parties| parties.contains(from) || as_client(parties))
    }
}

/// The two ends of a connection, as rules see them.
pub(crate) struct Ends<'a> {
    pub from: &'a Party,
    pub to: &'a str,
    /// Its first message is a bare `_isSelf`.
    pub self_probe: bool,
}

/// One thing that is done to some connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// To which connections.
    pub on: Selector,
    /// What is done.
    pub does: Effect,
}

/// Which of the two streams of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// From who dialled to the member.
    Requests,
    /// From the member to who dialled.
    Replies,
    /// Each for itself.
    Both,
}

/// What becomes of a stalled connection when the stall is lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLift {
    /// Everything that waited is delivered, in order: as packet loss that TCP heals. A request whose
    /// sender gave up long ago is then still carried out.
    Deliver,
    /// It is reset, and what waited is lost: nothing is carried out late.
    Reset,
}

/// What is done to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Resets it (RST). New ones are accepted, and reset when they have said who they are.
    Reset,
    /// Closes the listener of the members that were dialled, so that new connections are refused. For whoever
    /// dials, the member itself included; connections that are open stay open.
    RefuseListener,
    /// New connections are accepted, and closed (FIN) when they have said who they are; open ones are reset.
    AcceptClose,
    /// Takes nothing from the sender and gives nothing to the receiver, for as long as it lasts.
    Stall {
        /// Which streams.
        side: Side,
        /// What comes afterwards.
        on_lift: OnLift,
    },
    /// Everything arrives later, in order.
    Delay {
        /// By so much,
        delay: Duration,
        /// and by up to so much more, evenly distributed: at most `delay + jitter`.
        jitter: Duration,
        /// Decides the jitter, together with the number of the connection.
        seed: u64,
        /// Which streams.
        side: Side,
    },
    /// Each connection and direction for itself goes at most this fast.
    Bandwidth {
        /// Bytes a second; 0 lets nothing pass.
        bytes_per_s: u64,
        /// Which streams.
        side: Side,
    },
    /// Of each reply that is longer than this, only so many bytes pass; then the connection is reset.
    CutReply {
        /// Bytes of a reply that pass, header of 16 bytes included.
        after_bytes: u64,
    },
    /// The connection of every `n`-th data command is reset, and the command never reaches the member.
    /// Counted over all connections that the rule hits.
    DropNth {
        /// 1 drops each.
        n: u64,
    },
}

/// What a rule did since it was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// Connections that it hit, those that were open when it was set and those that came later.
    pub connections: u64,
    /// Bytes that passed on these, in the directions that it shapes. What waits behind a stall is not
    /// counted: nobody has read it.
    pub bytes: u64,
    /// How often it really did something: connections reset or closed, streams on which something waited
    /// behind a stall, pieces delayed, waits for bandwidth, replies cut, commands dropped, listeners closed.
    /// 0 is a fault that nobody can have noticed.
    pub acted: u64,
}

/// A rule in force, with its owner and its counters.
#[derive(Debug)]
pub(crate) struct Active {
    pub id: u64,
    pub owner: String,
    pub rule: Rule,
    connections: AtomicU64,
    bytes: AtomicU64,
    acted: AtomicU64,
    /// Data commands seen by [`Effect::DropNth`].
    commands: AtomicU64,
}

impl Active {
    pub fn new(id: u64, owner: &str, rule: Rule) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            id,
            owner: owner.into(),
            rule,
            connections: zero(),
            bytes: zero(),
            acted: zero(),
            commands: zero(),
        }
    }

    pub fn count(&self) -> RuleCount {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RuleCount { connections: load(&self.connections), bytes: load(&self.bytes), acted: load(&self.acted) }
    }

    pub fn hit(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub fn passed(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn acted(&self) {
        self.acted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a data command; whether it is one to drop.
    pub fn drops(&self) -> bool {
        let Effect::DropNth { n } = self.rule.does else { return false };
        let number = self.commands.fetch_add(1, Ordering::Relaxed) + 1;
        n != 0 && number.is_multiple_of(n)
    }
}

/// All rules in force. A new book is made for each change and handed to everybody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    /// Counts the changes.
    pub edition: u64,
    /// Everything ends.
    pub closing: bool,
    pub rules: Vec<Arc<Active>>,
}

impl Book {
    /// Rules that close the listener of this member.
    pub fn refusing(&self, to: &str) -> Vec<Arc<Active>> {
        let refuses = |a: &&Arc<Active>| a.rule.does == Effect::RefuseListener && a.rule.on.matches_to(to);
        self.rules.iter().filter(refuses).cloned().collect()
    }

    pub fn verdict(&self, ends: &Ends<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        for active in self.rules.iter().filter(|active| active.rule.on.matches(ends)) {
            verdict.add(active);
        }
        verdict
    }
}

/// How a connection ends by a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// New ones are closed, open ones reset.
    Close,
    Reset,
}

/// What all rules together do to one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// All rules that hit it.
    pub rules: Vec<Arc<Active>>,
    pub ending: Option<Ending>,
    pub requests: Lane,
    pub replies: Lane,
    /// To be reset when it is stalled no more.
    pub reset_on_lift: bool,
}

/// What all rules together do to one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// All rules that shape it.
    pub rules: Vec<Arc<Active>>,
    pub stalled: bool,
    pub delay: Option<Lag>,
    pub bytes_per_s: Option<u64>,
    /// Bytes of a reply that pass.
    pub cut_after: Option<u64>,
    /// Whether it has rules that drop commands.
    pub drops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lag {
    pub delay: Duration,
    pub jitter: Duration,
    pub seed: u64,
}

impl Verdict {
    /// Notes that it was ended.
    pub fn ending_acted(&self) {
        let ends = |active: &&Arc<Active>| matches!(active.rule.does, Effect::Reset | Effect::AcceptClose);
        self.rules.iter().filter(ends).for_each(|active| active.acted());
    }

    fn add(&mut self, active: &Arc<Active>) {
        self.rules.push(Arc::clone(active));
        match active.rule.does {
            Effect::RefuseListener => {}
            Effect::Reset => self.ending = self.ending.max(Some(Ending::Reset)),
            Effect::AcceptClose => self.ending = self.ending.max(Some(Ending::Close)),
            Effect::Stall { side, on_lift } => {
                self.reset_on_lift |= on_lift == OnLift::Reset;
                self.lanes(side, active, |lane| lane.stalled = true);
            }
            Effect::Delay { delay, jitter, seed, side } => {
                let lag = Lag { delay, jitter, seed };
                self.lanes(side, active, |lane| lane.slow(lag));
            }
            Effect::Bandwidth { bytes_per_s, side } => self.lanes(side, active, |lane| {
                lane.bytes_per_s = Some(lane.bytes_per_s.map_or(bytes_per_s, |rate| rate.min(bytes_per_s)));
            }),
            Effect::CutReply { after_bytes } => self.lanes(Side::Replies, active, |lane| {
                lane.cut_after = Some(lane.cut_after.map_or(after_bytes, |cut| cut.min(after_bytes)));
            }),
            Effect::DropNth { .. } => self.lanes(Side::Requests, active, |lane| lane.drops = true),
        }
    }

    fn lanes(&mut self, side: Side, active: &Arc<Active>, change: impl Fn(&mut Lane)) {
        let requests = (side != Side::Replies).then_some(&mut self.requests);
        let replies = (side != Side::Requests).then_some(&mut self.replies);
        for lane in [requests, replies].into_iter().flatten() {
            lane.rules.push(Arc::clone(active));
            change(lane);
        }
    }
}

impl Lane {
    fn slow(&mut self, lag: Lag) {
        let longest = |lag: &Lag| lag.delay + lag.jitter;
        if self.delay.is_none_or(|now| longest(&lag) > longest(&now)) {
            self.delay = Some(lag);
        }
    }

    /// Notes that the rules with such an effect did something here.
    pub fn acted(&self, effect: impl Fn(&Effect) -> bool) {
        self.rules.iter().filter(|active| effect(&active.rule.does)).for_each(|active| active.acted());
    }

    /// Notes that something waits behind a stall.
    pub fn stall_acted(&self) {
        self.acted(|effect| matches!(effect, Effect::Stall { .. }));
    }

    pub fn passed(&self, bytes: u64) {
        self.rules.iter().for_each(|active| active.passed(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends<'a>(from: &'a Party, to: &'a str) -> Ends<'a> {
        Ends { from, to, self_probe: false }
    }

    fn member(name: &str) -> Party {
        Party::Member(name.into())
    }

    fn book(rules: Vec<(Selector, Effect)>) -> Book {
        let active = |(id, (on, does))| Arc::new(Active::new(id, "test", Rule { on, does }));
        Book { edition: 1, closing: false, rules: (0..).zip(rules).map(active).collect() }
    }

    fn stall(side: Side) -> Effect {
        Effect::Stall { side, on_lift: OnLift::Deliver }
    }

    #[test]
    fn a_selector_says_who_dialled_whom() {
        let selector = Selector::all().from([member("a"), Party::Client]).to(["b", "c"]);
        assert!(selector.matches(&ends(&member("a"), "b")));
        assert!(selector.matches(&ends(&Party::Client, "c")));
        assert!(selector.matches(&ends(&Party::Unknown, "c")), "unknown ones count as clients");
        assert!(!selector.matches(&ends(&member("b"), "a")), "the other way round");
        assert!(!selector.matches(&ends(&member("c"), "b")));
        let members_only = Selector::all().from([member("a")]);
        assert!(!members_only.matches(&ends(&Party::Unknown, "b")));
    }

    #[test]
    fn a_member_always_finds_itself_unless_told_otherwise() {
        let probe = Ends { from: &Party::Unknown, to: "b", self_probe: true };
        for (selector, hit) in [(Selector::all(), false), (Selector::all().with_own(), true)] {
            assert_eq!(selector.matches(&ends(&member("a"), "a")), hit);
            assert_eq!(selector.matches(&probe), hit);
            assert!(selector.matches(&ends(&member("a"), "b")));
        }
    }

    #[test]
    fn the_strongest_wins_in_each_direction() {
        let delay = |ms, side| Effect::Delay {
            delay: Duration::from_millis(ms),
            jitter: Duration::ZERO,
            seed: ms,
            side,
        };
        let rate = |bytes_per_s| Effect::Bandwidth { bytes_per_s, side: Side::Both };
        let all = [
            delay(50, Side::Both),
            delay(90, Side::Replies),
            rate(1000),
            rate(10),
            rate(500),
            stall(Side::Requests),
            Effect::CutReply { after_bytes: 40 },
            Effect::CutReply { after_bytes: 20 },
            Effect::AcceptClose,
        ];
        let verdict = book(all.into_iter().map(|does| (Selector::all(), does)).collect())
            .verdict(&ends(&Party::Client, "a"));
        assert_eq!(verdict.rules.len(), 9);
        assert_eq!(verdict.ending, Some(Ending::Close));
        let lanes = [&verdict.requests, &verdict.replies];
        assert_eq!(lanes.map(|lane| lane.stalled), [true, false]);
        assert_eq!(lanes.map(|lane| lane.delay.unwrap().seed), [50, 90]);
        assert_eq!(lanes.map(|lane| lane.bytes_per_s), [Some(10), Some(10)]);
        assert_eq!(lanes.map(|lane| lane.cut_after), [None, Some(20)]);
    }

    #[test]
    fn a_reset_is_stronger_than_a_close_in_any_order() {
        for effects in [[Effect::Reset, Effect::AcceptClose], [Effect::AcceptClose, Effect::Reset]] {
            let book = book(effects.into_iter().map(|does| (Selector::all(), does)).collect());
            assert_eq!(book.verdict(&ends(&Party::Client, "a")).ending, Some(Ending::Reset));
        }
    }

    #[test]
    fn every_nth_command_is_dropped() {
        let every_third =
            Active::new(0, "test", Rule { on: Selector::all(), does: Effect::DropNth { n: 3 } });
        let dropped: Vec<bool> = (0..7).map(|_| every_third.drops()).collect();
        assert_eq!(dropped, [false, false, true, false, false, true, false]);
    }
}
