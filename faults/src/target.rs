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
    /// This node, whatever its role.
    Node(String),
}

impl NodeTarget {
    /// The words that name a rule; anything else is taken as a node's name.
    pub const WORDS: [&'static str; 4] = ["primary", "secondary", "any", "all"];

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
            Self::All => names(&|m| m.role != Role::Down),
            Self::Node(name) => names(&|m| m.name == *name),
        }
    }
}

fn pick(mut names: Vec<String>, tie: u64) -> Vec<String> {
    if names.is_empty() {
        return names;
    }
    let index = usize::try_from(tie % names.len() as u64).unwrap_or(0);
    vec![names.swap_remove(index)]
}

impl fmt::Display for NodeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Any => "any",
            Self::All => "all",
            Self::Node(name) => name,
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
            "" => return Err("a target cannot be empty".into()),
            name => Self::Node(name.into()),
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
