//! `cut_reply`: the connection breaks in the middle of an answer.

use super::{Shaping, Whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, Parameter, Preset, Takes, party};

/// Half an answer.
pub const CUT_REPLY: Kind = Kind {
    name: "cut_reply",
    group: "network",
    does: "resets connections in the middle of each reply that is longer than some bytes",
    parameters: &[
        party("clients"),
        Parameter {
            name: "after_bytes",
            takes: Takes::Count,
            default: Preset::Count(20),
            about: "bytes of a reply that pass, its header of 16 included",
        },
        FOR_30_S,
    ],
    needs: &[Need::Proxies],
    build: |parameters| {
        Ok(Box::new(Shaping {
            whom: Whom::read(parameters)?,
            effects: vec![Effect::CutReply { after_bytes: parameters.count("after_bytes")? }],
            hold: parameters.duration("for")?,
            harm: Harm::TakesDown,
        }))
    },
};
