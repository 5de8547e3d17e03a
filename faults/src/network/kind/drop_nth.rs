//! `drop_nth`: every n-th command is lost with its connection, before the server sees it.

use super::{Shaping, Whom};
use crate::catalog::{Kind, Need};
use crate::network::Effect;
use crate::{FOR_30_S, Harm, Parameter, Preset, Takes, party};

/// Now and then a reset.
pub const DROP_NTH: Kind = Kind {
    name: "drop_nth",
    group: "network",
    does: "resets the connection of every n-th command, which then never reaches the server",
    parameters: &[
        party("clients"),
        Parameter { name: "n", takes: Takes::Count, default: Preset::Count(100), about: "1 drops each" },
        FOR_30_S,
    ],
    needs: &[Need::Proxies],
    build: |parameters| {
        let n = parameters.count("n")?;
        if n == 0 {
            return Err("n: must be 1 or more".into());
        }
        Ok(Box::new(Shaping {
            whom: Whom::read(parameters)?,
            effects: vec![Effect::DropNth { n }],
            hold: parameters.duration("for")?,
            harm: if n == 1 { Harm::TakesDown } else { Harm::Slows },
        }))
    },
};
