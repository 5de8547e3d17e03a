//! What is done to whose connections. Plain data.

use std::collections::BTreeSet;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ends<'a>(from: &'a Party, to: &'a str) -> Ends<'a> {
        Ends { from, to, self_probe: false }
    }

    fn member(name: &str) -> Party {
        Party::Member(name.into())
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
}
