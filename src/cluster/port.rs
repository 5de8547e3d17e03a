//! The ports of a node: the one by which the others know it, and, behind a proxy, the one on which it listens.

use std::net::TcpListener;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::ClusterError;

/// Below the range from which the system takes the ports of outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const TRIES: u32 = 200;

/// Both on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The others, and the clients, know it by this one. A replica set holds it in its data, so that it never
    /// changes once the set was initiated.
    pub public: u16,
    /// Its process listens here: the same port unless a proxy has that.
    pub own: u16,
}

impl Ports {
    /// Of a node that was known by `kept` in an earlier run, or a new one.
    ///
    /// # Errors
    /// When no port is free.
    pub fn new(kept: Option<u16>, proxied: bool) -> Result<Self, ClusterError> {
        let public = kept.map_or_else(free, Ok)?;
        Ok(Self { public, own: if proxied { free()? } else { public } })
    }

    /// On other free ports; behind a proxy only its own moves.
    ///
    /// # Errors
    /// When no port is free.
    pub fn moved(self) -> Result<Self, ClusterError> {
        let own = free()?;
        Ok(Self { public: if self.is_proxied() { self.public } else { own }, own })
    }

    /// Whether somebody else listens on its public port.
    pub const fn is_proxied(self) -> bool {
        self.public != self.own
    }
}

/// A port on which nobody listens right now. Somebody may take it before mongod does: then mongod exits
/// with "address in use", and the caller tries another one.
fn free() -> Result<u16, ClusterError> {
    let mut rng = ChaCha8Rng::seed_from_u64(crate::entropy::draw());
    (0..TRIES)
        .map(|_| rng.random_range(PORTS))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or(ClusterError::NoPort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_others_know_never_moves_behind_a_proxy() {
        let direct = Ports::new(Some(20_001), false).unwrap();
        assert_eq!(direct, Ports { public: 20_001, own: 20_001 });
        let moved = direct.moved().unwrap();
        assert_eq!(moved.public, moved.own);
        let proxied = Ports { public: 20_001, own: 20_002 };
        let moved = proxied.moved().unwrap();
        assert!(moved.public == 20_001 && moved.own != 20_001, "{moved:?}");
    }
}
