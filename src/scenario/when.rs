//! When a rule injects: the one place that turns `first`, `every`, `times` and `at` into offsets.

use std::time::Duration;

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
}

impl When {
    /// The offsets strictly inside a measured phase of this length, ascending. A fault at its very
    /// start would have nothing before it to compare with.
    pub fn offsets(&self, duration: Duration) -> impl Iterator<Item = Duration> + '_ {
        let (given, next, every, times) = match self {
            Self::At(offsets) => (offsets.as_slice(), None, Duration::ZERO, 0),
            Self::Every { first, every, times } => {
                (&[] as &[Duration], Some(*first), *every, times.unwrap_or(u32::MAX))
            }
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
