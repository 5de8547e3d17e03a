//! All rules in force, what they come to for one connection, and what they did.
//!
//! Rules of several owners are in force at once. For one connection, the strongest ending wins, each
//! direction is stalled if any rule says so, waits for the longest delay, and goes at the lowest rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::rule::{Effect, Ends, OnLift, Rule, RuleCount, Side};

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
    use crate::network::rule::{Party, Selector};

    use super::*;

    fn ends<'a>(from: &'a Party, to: &'a str) -> Ends<'a> {
        Ends { from, to, self_probe: false }
    }

    fn book(rules: Vec<(Selector, Effect)>) -> Book {
        let active = |(id, (on, does))| Arc::new(Active::new(id, "test", Rule { on, does }));
        Book { edition: 1, closing: false, rules: (0..).zip(rules).map(active).collect() }
    }

    fn stall(side: Side) -> Effect {
        Effect::Stall { side, on_lift: OnLift::Deliver }
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
