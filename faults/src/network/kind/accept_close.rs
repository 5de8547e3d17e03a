//! `accept_close`: whoever connects is hung up on at once, as by a load balancer without a server behind it.

use super::{Shaping, Whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, party};

/// Accepted, and closed.
pub const ACCEPT_CLOSE: Kind = Kind {
    name: "accept_close",
    group: "network",
    does: "resets the connections to a node, accepts new ones and closes them; what the node itself dials goes on",
    parameters: &[party("primary"), FOR_30_S],
    needs: &[Need::Proxies],
    build: |parameters| {
        Ok(Box::new(Shaping {
            whom: Whom::dialled(parameters)?,
            effects: vec![Effect::AcceptClose],
            hold: parameters.duration("for")?,
            harm: Harm::TakesDown,
        }))
    },
};
