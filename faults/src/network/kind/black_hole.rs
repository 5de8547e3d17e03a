//! `black_hole`: connections stay, new ones are accepted, and nothing arrives: the cable is pulled.

use super::{DIRECTION, SIDE, Shaping, Whom, whom};
use crate::catalog::{Kind, Need};
use crate::network::{Effect, OnLift};
use crate::{FOR_30_S, Harm, Parameter, Parameters, Preset, Takes, party};

/// `afterwards`: what becomes of that which waited.
pub(super) const AFTERWARDS: Parameter = Parameter {
    name: "afterwards",
    takes: Takes::Choice(&["deliver", "reset"]),
    default: Preset::Text("deliver"),
    about: "deliver what waited (late requests are then carried out), or reset the connections",
};

/// What `afterwards` says.
pub(super) fn on_lift(parameters: &Parameters) -> Result<OnLift, String> {
    Ok(if parameters.text("afterwards")? == "reset" { OnLift::Reset } else { OnLift::Deliver })
}

/// Silence.
pub const BLACK_HOLE: Kind = Kind {
    name: "black_hole",
    group: "network",
    does: "nothing passes on the connections of a node or of the clients, and nobody is told",
    parameters: &[party("primary"), DIRECTION, SIDE, AFTERWARDS, FOR_30_S],
    needs: &[Need::Proxies],
    build: |parameters| {
        let stall = Effect::Stall { side: whom::side(parameters)?, on_lift: on_lift(parameters)? };
        Ok(Box::new(Shaping {
            whom: Whom::read(parameters)?,
            effects: vec![stall],
            hold: parameters.duration("for")?,
            harm: Harm::TakesDown,
        }))
    },
};
