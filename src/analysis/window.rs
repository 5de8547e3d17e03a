//! The time in which one fault is judged: from its injection to the next one, or to the end.

use std::ops::Range;

use crate::recording::{FaultRecord, Recording};

/// A last second that is cut short by less than this still counts as whole: the end of a run is not
/// hit to the microsecond, and 1 % of a second's operations decides nothing.
const CUT_SHORT_S: f64 = 0.01;

/// Time that one fault is judged in.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// When the first command was issued.
    pub injected_s: f64,
    /// When the effect was seen.
    pub effective_s: f64,
    /// When the lifting was seen; `None`: not before the end of the recording.
    pub lifted_s: Option<f64>,
    /// Injection of the next fault, or the end of the measured phase.
    pub end_s: f64,
    /// Which of the two.
    pub ended_by: End,
}

/// What ends a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Another fault was injected.
    NextFault,
    /// The measured phase was over.
    EndOfRun,
    /// The rate of the workload was changed: later seconds cannot be compared with the baseline.
    RateChange,
}

impl End {
    /// As in `recovery.reason` of the report.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NextFault => "next fault",
            Self::EndOfRun => "end of run",
            Self::RateChange => "rate change",
        }
    }
}

impl Window {
    /// The window of one fault of a recording; `None`: it was never injected. Any injected fault ends
    /// the window of the one before, whether or not it took effect.
    #[must_use]
    pub fn of(fault: &FaultRecord, recording: &Recording) -> Option<Self> {
        let injected_s = fault.injected_s?;
        let later = recording.faults.iter().filter_map(|f| f.injected_s).filter(|at| *at > injected_s);
        let next = later.fold(f64::INFINITY, f64::min);
        let ended_by = if next < recording.duration_s { End::NextFault } else { End::EndOfRun };
        Some(Self {
            injected_s,
            effective_s: fault.effective_s.unwrap_or(injected_s),
            lifted_s: fault.lifted_s,
            end_s: next.min(recording.duration_s).max(injected_s),
            ended_by,
        })
    }

    /// The rows of seconds that belong to it: from the one with the injection in it to the last whole
    /// one. The second in which the next fault strikes belongs to that one.
    #[must_use]
    pub fn seconds(&self) -> Range<usize> {
        second_of(self.injected_s)..whole_seconds(self.end_s)
    }

    /// The same, ended by a change of the rate at this time.
    #[must_use]
    pub fn until_rate_change(&self, at_s: f64) -> Self {
        Self { end_s: at_s.clamp(self.injected_s, self.end_s), ended_by: End::RateChange, ..self.clone() }
    }
}

/// Index of the second that this time falls into.
#[must_use]
pub fn second_of(at_s: f64) -> usize {
    // A time that was computed as 12.999999999 is second 13.
    (at_s.max(0.0) + 1e-9) as usize
}

/// Number of whole seconds before this time.
#[must_use]
pub fn whole_seconds(end_s: f64) -> usize {
    (end_s.max(0.0) + CUT_SHORT_S) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::fault;

    #[test]
    fn a_window_ends_at_the_next_injection_or_with_the_run() {
        let mut skipped = fault("f2", 20.0);
        skipped.injected_s = None;
        let recording = Recording {
            duration_s: 90.02,
            faults: vec![fault("f1", 10.0), skipped, fault("f3", 60.4)],
            ..Recording::default()
        };
        let first = Window::of(&recording.faults[0], &recording).unwrap();
        assert_eq!((first.end_s, first.ended_by), (60.4, End::NextFault));
        assert_eq!(first.seconds(), 10..60);
        assert_eq!(Window::of(&recording.faults[1], &recording), None);
        let last = Window::of(&recording.faults[2], &recording).unwrap();
        assert_eq!((last.end_s, last.ended_by), (90.02, End::EndOfRun));
        assert_eq!(last.seconds(), 60..90);
    }

    #[test]
    fn a_second_that_lacks_some_milliseconds_is_whole() {
        assert_eq!(whole_seconds(59.995), 60);
        assert_eq!(whole_seconds(59.98), 59);
        assert_eq!(second_of(12.999_999_999_9), 13);
    }
}
