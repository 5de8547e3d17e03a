//! `bandwidth`: a thin line.

use super::{DIRECTION, SIDE, Shaping, Whom, whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, Parameter, Preset, Takes, party};

/// A thin line.
pub const BANDWIDTH: Kind = Kind {
    name: "bandwidth",
    group: "network",
    does: "limits each connection of a node or of the clients, each way for itself",
    parameters: &[
        party("primary"),
        Parameter {
            name: "rate",
            takes: Takes::Size,
            default: Preset::Bytes(64 << 10),
            about: "bytes a second",
        },
        DIRECTION,
        SIDE,
        FOR_30_S,
    ],
    needs: &[Need::Proxies],
    build: |parameters| {
        let bytes_per_s = parameters.count("rate")?;
        if bytes_per_s == 0 {
            return Err("rate: must be above 0; a black_hole lets nothing pass".into());
        }
        Ok(Box::new(Shaping {
            whom: Whom::read(parameters)?,
            effects: vec![Effect::Bandwidth { bytes_per_s, side: whom::side(parameters)? }],
            hold: parameters.duration("for")?,
            harm: Harm::Slows,
        }))
    },
};
