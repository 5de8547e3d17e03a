//! Write concern, read concern and read preference of a workload.

use serde::Serialize;

/// Write concern `w` (always sent explicitly; journal and timeout stay with the server's default).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteConcern {
    /// `w: "majority"`.
    Majority,
    /// `w: n`, n >= 1.
    Nodes(u32),
}

impl WriteConcern {
    /// Whether the loss of such a write is a violation. A number of nodes is no majority, however large:
    /// it promises nothing about elections and journals.
    #[must_use]
    pub const fn is_majority(self) -> bool {
        matches!(self, Self::Majority)
    }
}

impl std::fmt::Display for WriteConcern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Majority => f.write_str("majority"),
            Self::Nodes(n) => write!(f, "{n}"),
        }
    }
}

/// Where reads go (driver terms).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the driver's own words")]
pub enum ReadPreference {
    Primary,
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
}

/// Read concern level (driver terms; always sent explicitly).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the driver's own words")]
pub enum ReadConcern {
    Local,
    Available,
    Majority,
    Linearizable,
}

impl ReadConcern {
    /// As in the scenario file, and on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Available => "available",
            Self::Majority => "majority",
            Self::Linearizable => "linearizable",
        }
    }
}

impl ReadPreference {
    /// As in the scenario file, and on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }
}
