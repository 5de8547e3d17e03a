//! Whose connections a fault hits.

use crate::network::{Party, Selector, Side};
use crate::{NodeTarget, Parameter, Parameters, Preset, Reach, Site, Takes};

/// `direction`: who dialled.
pub(super) const DIRECTION: Parameter = Parameter {
    name: "direction",
    takes: Takes::Choice(&["both", "in", "out"]),
    default: Preset::Text("both"),
    about: "in: connections that others dial to the target; out: those that it dials",
};

/// `side`: which stream.
pub(super) const SIDE: Parameter = Parameter {
    name: "side",
    takes: Takes::Choice(&["both", "requests", "replies"]),
    default: Preset::Text("both"),
    about: "which stream of each connection",
};

/// Which connections, by who dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Both,
    In,
    Out,
}

impl Direction {
    pub fn read(parameters: &Parameters) -> Result<Self, String> {
        Ok(match parameters.text("direction")?.as_str() {
            "in" => Self::In,
            "out" => Self::Out,
            _ => Self::Both,
        })
    }
}

/// Which stream of a connection.
pub(super) fn side(parameters: &Parameters) -> Result<Side, String> {
    Ok(match parameters.text("side")?.as_str() {
        "requests" => Side::Requests,
        "replies" => Side::Replies,
        _ => Side::Both,
    })
}

/// Whose connections, in which direction.
#[derive(Clone, Debug)]
pub(super) struct Whom {
    pub target: NodeTarget,
    direction: Direction,
}

impl Whom {
    /// By `target`, and `direction` if the kind has it.
    pub fn read(parameters: &Parameters) -> Result<Self, String> {
        let target = parameters.party("target")?;
        let direction =
            if parameters.has("direction") { Direction::read(parameters)? } else { Direction::Both };
        if target == NodeTarget::Clients && direction == Direction::In {
            return Err("direction: nobody dials clients".into());
        }
        Ok(Self { target, direction })
    }

    /// Only those that others dial to it.
    pub fn dialled(parameters: &Parameters) -> Result<Self, String> {
        Ok(Self { target: parameters.party("target")?, direction: Direction::In })
    }

    pub fn is_clients(&self) -> bool {
        self.target == NodeTarget::Clients
    }

    /// The clients are one group; of nodes, each is hit for itself.
    pub fn reach(&self) -> Reach {
        if self.is_clients() { Reach::Together } else { Reach::EachNode }
    }

    /// The connections, right now.
    pub fn selectors(&self, site: &Site<'_>) -> Vec<Selector> {
        if self.is_clients() {
            return vec![Selector::all().from([Party::Client]).to(site.nodes.iter().cloned())];
        }
        let dialled_to = Selector::all().to([site.node]);
        let dialled_by = Selector::all().from([Party::Member(site.node.into())]);
        match self.direction {
            Direction::In => vec![dialled_to],
            Direction::Out => vec![dialled_by],
            Direction::Both => vec![dialled_to, dialled_by],
        }
    }
}
