//! When a rule injects.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a fault is injected, from the start of the measured phase.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At these offsets, ascending.
    At(Vec<Duration>),
    /// First at `first`, then every `every`, at most `times` in all (`None`: until the end).
    Every {
        /// First injection.
        first: Duration,
        /// Distance between injections; above zero unless `times` is 1.
        every: Duration,
        /// At most this many; `None`: until the end.
        times: Option<u32>,
    },
    /// At times drawn from the seed, independent of each other (a Poisson process).
    Random {
        /// Mean distance, above zero.
        mean: Duration,
        /// None before this.
        from: Duration,
        /// None from here on; `None`: until the end.
        until: Option<Duration>,
        /// At most this many; `None`: until the end.
        times: Option<u32>,
    },
    /// Whenever the servers are at something.
    Cued {
        /// At what.
        cue: Cue,
        /// Not before this.
        after: Duration,
        /// Least distance between two injections of the rule.
        every: Duration,
        /// So many.
        times: u32,
    },
}

/// What a triggered fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cue {
    /// There is no primary, or the term has risen.
    Election,
    /// A node that the fault would hit writes a checkpoint.
    Checkpoint,
    /// A member copies its data from another.
    InitialSync,
    /// An index is being built.
    IndexBuild,
    /// Throughput has been even for a while, and no fault is active.
    Steady,
}

impl Cue {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Election, Self::Checkpoint, Self::InitialSync, Self::IndexBuild, Self::Steady];

    /// As in the scenario.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Election => "election",
            Self::Checkpoint => "checkpoint",
            Self::InitialSync => "initial_sync",
            Self::IndexBuild => "index_build",
            Self::Steady => "steady",
        }
    }
}

impl fmt::Display for Cue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl When {
    /// The written offsets strictly inside a measured phase of this length, ascending; none for times that are
    /// drawn or triggered. A fault at its very start would have nothing before it to compare with.
    pub fn offsets(&self, duration: Duration) -> impl Iterator<Item = Duration> + '_ {
        let (given, next, every, times) = match self {
            Self::At(offsets) => (offsets.as_slice(), None, Duration::ZERO, 0),
            Self::Every { first, every, times } => {
                (&[] as &[Duration], Some(*first), *every, times.unwrap_or(u32::MAX))
            }
            Self::Random { .. } | Self::Cued { .. } => (&[] as &[Duration], None, Duration::ZERO, 0),
        };
        let repeated = std::iter::successors(next, move |last| last.checked_add(every));
        let repeated = repeated.take(usize::try_from(times).unwrap_or(usize::MAX));
        given
            .iter()
            .copied()
            .chain(repeated)
            .skip_while(Duration::is_zero)
            .take_while(move |offset| *offset < duration)
    }
}
