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
    /// These nodes, whatever their roles.
    Nodes(Vec<String>),
}

impl NodeTarget {
    /// The words that name a rule; anything else is taken as a node's name.
    pub const WORDS: [&'static str; 7] =
        ["primary", "secondary", "any", "all", "majority", "minority", "clients"];

    /// Names of the nodes that the rule picks in this view. `tie` was drawn with the plan, so the
    /// same view gives the same nodes. Empty: nobody fits.
    #[must_use]
    pub fn resolve(&self, view: &View, tie: u64) -> Vec<String> {
        let names = |keep: &dyn Fn(&crate::Member) -> bool| -> Vec<String> {
            view.members.iter().filter(|m| keep(m)).map(|m| m.name.clone()).collect()
        };
        match self {
            Self::Primary => names(&|m| m.role == Role::Primary || m.role == Role::Standalone),
            Self::Secondary => pick(names(&|m| m.role == Role::Secondary), tie),
            Self::Any => pick(names(&|m| m.role != Role::Down), tie),
            Self::All | Self::Clients => names(&|m| m.role != Role::Down),
            Self::Majority => some(names(&|m| m.role != Role::Down), majority_of(view.members.len()), tie),
            Self::Minority => {
                let all = view.members.len();
                some(names(&|m| m.role != Role::Down), all - majority_of(all), tie)
            }
            Self::Nodes(wanted) => names(&|m| wanted.contains(&m.name)),
        }
    }
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
            Self::Nodes(names) => return f.write_str(&names.join(",")),
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
