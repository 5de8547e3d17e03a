//! Whom a fault hits: a word in the plan, a node at injection.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Role, View};

/// A rule that picks nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NodeTarget {
    /// The node that takes writes: the primary, or the one node of a standalone.
    Primary,
    /// One secondary, chosen by the plan's tie number.
    Secondary,
    /// One node, chosen by the plan's tie number.
    Any,
    /// Every node.
    All,
    /// As many nodes as make a majority of the members, chosen by the plan's tie number.
    Majority,
    /// As many nodes as the others can do without and still be a majority, chosen by the plan's tie number.
    Minority,
    /// The clients: for a fault of the network. Their connections to every node.
    Clients,
    /// A router of a sharded cluster, chosen by the plan's tie number.
    Mongos,
    /// These nodes, whatever their roles.
    Nodes(Vec<String>),
    /// One of the rules above, within one replica set of a sharded cluster: `shard0.primary`.
    Within(String, Box<NodeTarget>),
}

/// The name of the replica set of the config servers, whatever it is called there.
pub const CONFIG_SET: &str = "config";
/// The name of the replica set behind a stand-in router.
pub const ROUTER_SET: &str = "router";

impl NodeTarget {
    /// The words that name a rule; anything else is taken as a node's name.
    pub const WORDS: [&'static str; 8] =
        ["primary", "secondary", "any", "all", "majority", "minority", "clients", "mongos"];

    /// Names of the nodes that the rule picks in this view. `tie` was drawn with the plan, so the
    /// same view gives the same nodes. Empty: nobody fits.
    ///
    /// In a sharded cluster the words mean members of shards: `primary` one of their primaries, `majority` and
    /// `minority` those of one shard, each chosen by the tie; only `all` means the config servers, too.
    #[must_use]
    pub fn resolve(&self, view: &View, tie: u64) -> Vec<String> {
        let Some(shards) = shards(view) else { return self.resolve_in(view, tie) };
        match self {
            Self::Primary => pick(Self::Primary.resolve_in(&all_of(&shards), tie), tie),
            Self::Secondary | Self::Any => self.resolve_in(&all_of(&shards), tie),
            Self::Majority | Self::Minority => {
                let shard = usize::try_from(tie % shards.len() as u64).unwrap_or(0);
                self.resolve_in(&shards[shard], tie)
            }
            _ => self.resolve_in(view, tie),
        }
    }

    fn resolve_in(&self, view: &View, tie: u64) -> Vec<String> {
        let names = |keep: &dyn Fn(&crate::Member) -> bool| -> Vec<String> {
            view.members.iter().filter(|m| keep(m)).map(|m| m.name.clone()).collect()
        };
        match self {
            Self::Primary => names(&|m| m.role == Role::Primary || m.role == Role::Standalone),
            Self::Secondary => pick(names(&|m| m.role == Role::Secondary), tie),
            Self::Any => pick(names(&|m| m.role != Role::Down), tie),
            Self::All => names(&|m| !matches!(m.role, Role::Down | Role::Router)),
            Self::Clients => names(&|m| m.role != Role::Down),
            Self::Majority => some(names(&|m| m.role != Role::Down), majority_of(view.members.len()), tie),
            Self::Minority => {
                let all = view.members.len();
                some(names(&|m| m.role != Role::Down), all - majority_of(all), tie)
            }
            Self::Mongos => pick(names(&|m| m.role == Role::Router), tie),
            Self::Nodes(wanted) => names(&|m| wanted.contains(&m.name)),
            Self::Within(set, rule) => {
                let of_set = |m: &&crate::Member| m.set.as_deref() == Some(set);
                rule.resolve_in(&View { members: view.members.iter().filter(of_set).cloned().collect() }, tie)
            }
        }
    }
}

/// The replica sets of the shards; `None`: the deployment has none.
fn shards(view: &View) -> Option<Vec<View>> {
    let is_shard = |set: &View| {
        let name = set.members.first().and_then(|member| member.set.as_deref());
        name.is_some_and(|name| name != CONFIG_SET && name != ROUTER_SET)
    };
    let shards: Vec<_> = view.sets().into_iter().filter(is_shard).collect();
    (!shards.is_empty()).then_some(shards)
}

fn all_of(sets: &[View]) -> View {
    View { members: sets.iter().flat_map(|set| set.members.clone()).collect() }
}

/// How many of this many members are a majority; none of none.
#[must_use]
pub const fn majority_of(members: usize) -> usize {
    if members == 0 { 0 } else { members / 2 + 1 }
}

fn pick(names: Vec<String>, tie: u64) -> Vec<String> {
    some(names, 1, tie)
}

/// So many of them in a row, beginning where the tie says; in the order of their names.
fn some(mut names: Vec<String>, count: usize, tie: u64) -> Vec<String> {
    if names.is_empty() {
        return names;
    }
    let from = usize::try_from(tie % names.len() as u64).unwrap_or(0);
    names.rotate_left(from);
    names.truncate(count);
    names.sort_unstable();
    names
}

/// `shard0.primary`: the set, and a word for some of its members.
fn within(text: &str) -> Option<(&str, &str)> {
    let (set, rule) = text.rsplit_once('.')?;
    let names_a_set = !set.is_empty() && !set.contains(',');
    (names_a_set && NodeTarget::WORDS[..6].contains(&rule)).then_some((set, rule))
}

impl fmt::Display for NodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Any => "any",
            Self::All => "all",
            Self::Majority => "majority",
            Self::Minority => "minority",
            Self::Clients => "clients",
            Self::Mongos => "mongos",
            Self::Nodes(names) => return f.write_str(&names.join(",")),
            Self::Within(set, rule) => return write!(f, "{set}.{rule}"),
        })
    }
}

impl FromStr for NodeTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "primary" => Self::Primary,
            "secondary" => Self::Secondary,
            "any" => Self::Any,
            "all" => Self::All,
            "majority" => Self::Majority,
            "minority" => Self::Minority,
            "clients" => Self::Clients,
            "mongos" => Self::Mongos,
            text if within(text).is_some() => {
                let (set, rule) = within(text).unwrap_or_default();
                Self::Within(set.into(), Box::new(rule.parse()?))
            }
            names => {
                let names: Vec<_> = names.split(',').map(|name| name.trim().to_owned()).collect();
                if names.iter().any(String::is_empty) {
                    return Err("the name of a node cannot be empty".into());
                }
                Self::Nodes(names)
            }
        })
    }
}

impl TryFrom<String> for NodeTarget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NodeTarget> for String {
    fn from(target: NodeTarget) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;

    fn member(name: &str, set: Option<&str>, role: Role) -> Member {
        Member { name: name.into(), role, term: None, set: set.map(str::to_owned) }
    }

    fn sharded() -> View {
        let set = |name: &str| {
            let roles = [Role::Primary, Role::Secondary, Role::Secondary];
            let named = |(n, role): (usize, Role)| member(&format!("{name}-{n}"), Some(name), role);
            (1..).zip(roles).map(named).collect::<Vec<_>>()
        };
        let mut members: Vec<_> = ["config", "shard0", "shard1"].iter().flat_map(|name| set(name)).collect();
        members.push(member("router", Some("router"), Role::Primary));
        members.push(member("mongos", None, Role::Router));
        View { members }
    }

    #[test]
    fn in_a_sharded_cluster_the_words_mean_members_of_shards() {
        let picks = |text: &str, tie| text.parse::<NodeTarget>().unwrap().resolve(&sharded(), tie).join(" ");
        assert_eq!((picks("primary", 0), picks("primary", 1)), ("shard0-1".into(), "shard1-1".into()));
        for tie in 0..20 {
            assert!(picks("secondary", tie).starts_with("shard") && picks("any", tie).starts_with("shard"));
        }
        assert_eq!(picks("majority", 1), "shard1-2 shard1-3");
        assert_eq!(picks("minority", 0), "shard0-1");
        assert_eq!(picks("config.primary", 7), "config-1");
        assert_eq!(picks("shard1.secondary", 1), "shard1-3");
        assert_eq!(picks("shard7.primary", 1), "");
        assert_eq!(picks("mongos", 1), "mongos");
        let all = picks("all", 0);
        assert!(all.contains("config-1") && all.contains("router") && !all.contains("mongos"), "{all}");
        assert!(picks("clients", 0).contains("mongos"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["primary", "shard0.primary", "config.majority", "node1,node2", "db1.example.com:27017"] {
            assert_eq!(text.parse::<NodeTarget>().unwrap().to_string(), text);
        }
        let node = "db1.example.com:27017".parse::<NodeTarget>().unwrap();
        assert_eq!(node, NodeTarget::Nodes(vec!["db1.example.com:27017".into()]));
    }

    #[test]
    fn a_fault_on_a_node_has_to_do_with_its_set_only() {
        let names = |view: View| view.members.into_iter().map(|m| m.name).collect::<Vec<_>>().join(" ");
        let view = sharded();
        let around = |node: &str| names(view.around(&[node.to_owned()]));
        assert_eq!(around("shard1-2"), "shard1-1 shard1-2 shard1-3");
        assert_eq!(around("mongos"), "mongos");
        assert_eq!(view.sets().len(), 4);
        assert!(view.takes_writes());
        let mut without = view.clone();
        without.members[3].role = Role::Down;
        assert!(!without.takes_writes());
        let set =
            View { members: vec![member("a", None, Role::Primary), member("b", None, Role::Secondary)] };
        assert_eq!(names(set.around(&["a".into()])), "a b");
        assert!(set.takes_writes() && !View::default().takes_writes());
    }
}
