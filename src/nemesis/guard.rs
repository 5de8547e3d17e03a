//! Whether a fault may strike now, beside those that hold and on members as they are. Pure.

use std::collections::BTreeMap;

use faults::{Fault, Harm, NodeTarget, Role, View, majority_of};

use crate::plan::Majority;

/// A fault with the nodes that it holds, or that it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grip {
    /// Its id in the plan.
    pub(super) fault: String,
    /// Its kind.
    pub(super) kind: &'static str,
    /// What it does to the nodes.
    pub(super) harm: Harm,
    /// The nodes.
    pub(super) nodes: Vec<String>,
    /// It was asked for although it takes the majority away.
    pub(super) majority_may_be_lost: bool,
    /// Whether it has them.
    pub(super) stand: Stand,
}

/// How a fault stands to its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It has them.
    Holds,
    /// It comes first when they are free.
    Waits,
}

impl Grip {
    /// What this fault would take.
    pub(super) fn new(id: &str, kind: &'static str, fault: &dyn Fault, nodes: Vec<String>) -> Self {
        let harm = fault.harm();
        // Whoever writes "all" or "majority" for a fault that takes nodes down at once has asked for it.
        let asked =
            harm == Harm::TakesDown && matches!(fault.target(), NodeTarget::All | NodeTarget::Majority);
        Self {
            fault: id.into(),
            kind,
            harm,
            nodes,
            majority_may_be_lost: asked || harm == Harm::LosesMajority,
            stand: Stand::Waits,
        }
    }

    /// The same under the rule's own word.
    pub(super) fn allowed(self, majority: Majority) -> Self {
        let majority_may_be_lost = self.majority_may_be_lost || majority == Majority::MayBeLost;
        Self { majority_may_be_lost, ..self }
    }

    fn takes_down(&self) -> bool {
        self.harm != Harm::Slows
    }
}

/// What is in the way of `wants`, for people; `None`: nothing.
pub(super) fn conflict(view: &View, held: &[&Grip], wants: &Grip) -> Option<String> {
    held.iter().find_map(|other| same_node(other, wants)).or_else(|| majority(view, held, wants))
}

/// Two faults on one node would hide each other's effect, unless both only slow it, in different ways.
fn same_node(held: &Grip, wants: &Grip) -> Option<String> {
    let side_by_side = !held.takes_down() && !wants.takes_down() && held.kind != wants.kind;
    let shared = wants.nodes.iter().find(|node| held.nodes.contains(node));
    shared.filter(|_| !side_by_side).map(|node| held_by(node, held))
}

fn held_by(node: &str, held: &Grip) -> String {
    let how = match held.stand {
        Stand::Holds => "is still held by",
        Stand::Waits => "is waited for by",
    };
    format!("{node} {how} {} ({})", held.fault, held.kind)
}

/// Enough members must be left that are well and not ours, in every replica set that is hit.
fn majority(view: &View, held: &[&Grip], wants: &Grip) -> Option<String> {
    let hit = |set: &View| wants.nodes.iter().any(|node| set.member(node).is_some());
    view.sets().iter().filter(|set| hit(set)).find_map(|set| majority_of_set(set, held, wants))
}

fn majority_of_set(view: &View, held: &[&Grip], wants: &Grip) -> Option<String> {
    let of_set = |grip: &Grip| grip.nodes.iter().any(|node| view.member(node).is_some());
    let members = view.members.len();
    let spare = members - majority_of(members);
    // Where no member can be spared, every fault that takes one down is meant to take service away.
    if !wants.takes_down() || wants.majority_may_be_lost || spare == 0 {
        return None;
    }
    let mut gone: BTreeMap<&str, String> = BTreeMap::new();
    for member in view.members.iter().filter(|member| !member.is_well()) {
        gone.insert(&member.name, format!("{} {}", member.name, unwell(member.role)));
    }
    let mut one_at_a_time = 0;
    for other in held.iter().filter(|other| other.takes_down() && of_set(other)) {
        if other.harm == Harm::TakesDownInTurn {
            one_at_a_time += 1;
            continue;
        }
        for node in other.nodes.iter().filter(|node| view.member(node).is_some()) {
            gone.insert(node, held_by(node, other));
        }
    }
    let taken = match wants.harm {
        Harm::TakesDownInTurn => 1,
        _ => {
            let takes = |node: &&String| view.member(node).is_some() && !gone.contains_key(node.as_str());
            wants.nodes.iter().filter(takes).count()
        }
    };
    if gone.len() + one_at_a_time + taken <= spare {
        return None;
    }
    let why: Vec<_> = gone.into_values().collect();
    let why = if why.is_empty() { format!("{members} members can spare {spare}") } else { why.join(", ") };
    Some(format!("no majority would be left without {}: {why}", wants.nodes.join(", ")))
}

fn unwell(role: Role) -> &'static str {
    if role == Role::Down { "does not answer" } else { "is neither primary nor secondary" }
}
