//! `refuse`: nobody gets a new connection, and the open ones are reset, as behind a firewall that rejects.

use super::{Shaping, Whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, party};

/// Connection refused.
pub const REFUSE: Kind = Kind {
    name: "refuse",
    group: "network",
    does: "resets the connections to a node and refuses new ones; what the node itself dials goes on",
    parameters: &[party("primary"), FOR_30_S],
    needs: &[Need::Proxies],
    build: |parameters| {
        let whom = Whom::dialled(parameters)?;
        // Only the listener itself can refuse, and it refuses everybody: clients alone are reset.
        let effects =
            if whom.is_clients() { vec![Effect::Reset] } else { vec![Effect::RefuseListener, Effect::Reset] };
        Ok(Box::new(Shaping { whom, effects, hold: parameters.duration("for")?, harm: Harm::TakesDown }))
    },
};
