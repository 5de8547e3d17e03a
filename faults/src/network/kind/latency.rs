//! `latency`: everything arrives later, in order.

use std::time::Duration;

use super::{DIRECTION, SIDE, Shaping, Whom, whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, Parameter, Preset, Takes, held_for, party};

/// A long way.
pub const LATENCY: Kind = Kind {
    name: "latency",
    group: "network",
    does: "delays everything on the connections of a node or of the clients, each way",
    parameters: &[
        party("primary"),
        Parameter { name: "delay", about: "each way", ..held_for(0.1) },
        Parameter { name: "jitter", about: "up to so much more, evenly distributed", ..held_for(0.0) },
        Parameter {
            name: "seed",
            takes: Takes::Count,
            default: Preset::Count(1),
            about: "decides the jitter",
        },
        DIRECTION,
        SIDE,
        FOR_30_S,
    ],
    needs: &[Need::Proxies],
    build: |parameters| {
        let (delay, jitter) = (parameters.duration("delay")?, parameters.duration("jitter")?);
        if delay + jitter == Duration::ZERO {
            return Err("delay: must be above 0, or jitter".into());
        }
        let does =
            Effect::Delay { delay, jitter, seed: parameters.count("seed")?, side: whom::side(parameters)? };
        Ok(Box::new(Shaping {
            whom: Whom::read(parameters)?,
            effects: vec![does],
            hold: parameters.duration("for")?,
            harm: Harm::Slows,
        }))
    },
};
