//! Whether the tester's own process had processors enough, second by second. Late and missed operations are the
//! subject of `saturation`; a closed loop has neither, so there this is all there is.
//!
//! Two different things: a tester that used up its processors was the limit, and its run carries no verdict. A
//! tester that had to wait for them, on a machine that it shares, still measured what it measured; the report
//! says when, because latencies of these seconds hold that wait.

use super::saturation::allowed;
use super::window::whole_seconds;
use crate::recording::{OwnSecond, Recording};
use crate::search::CPU_SHARE;

/// Seconds of waiting, of all threads together, in one second that is worth a word.
const WAITED_S: f64 = 0.5;

/// Share of its processors that the tester used in these seconds. `None`: unknown.
#[must_use]
pub fn share(own: &[&OwnSecond], cores: f64) -> Option<f64> {
    let sum = |f: &dyn Fn(&OwnSecond) -> f64| own.iter().map(|own| f(own)).sum::<f64>();
    let share = sum(&|own| own.cpu_s) / (sum(&|own| own.seconds) * cores);
    share.is_finite().then_some(share)
}

/// Why the seconds in which the tester used up its processors leave no verdict; `None`: they were few.
#[must_use]
pub fn check(recording: &Recording, cores: f64) -> Option<String> {
    let all = measured(recording);
    let used = |own: &OwnSecond| share(&[own], cores).unwrap_or_default();
    let full: Vec<&OwnSecond> = all.iter().copied().filter(|own| used(own) > CPU_SHARE).collect();
    let worst = full.iter().copied().max_by(|a, b| used(a).total_cmp(&used(b)))?;
    (full.len() > allowed(all.len())).then(|| {
        format!(
            "in {} s the tester used over {:.0} % of its {cores} processors, most at {} s ({:.0} %): fewer workers, a \
             lower rate, a larger machine, or a second one",
            full.len(),
            100.0 * CPU_SHARE,
            worst.t_s,
            100.0 * used(worst),
        )
    })
}

/// A sentence on the seconds in which the tester waited for processors longer than it ran; `None`: they were few.
#[must_use]
pub fn starved(recording: &Recording) -> Option<String> {
    let all = measured(recording);
    let hungry: Vec<&OwnSecond> =
        all.iter().copied().filter(|own| own.waited_s > WAITED_S && own.waited_s > own.cpu_s).collect();
    let worst = hungry.iter().copied().max_by(|a, b| a.waited_s.total_cmp(&b.waited_s))?;
    let stolen: f64 = hungry.iter().filter_map(|own| own.stolen_s).sum();
    let thief = if stolen > WAITED_S {
        format!(", {stolen:.1} s were taken by the hypervisor")
    } else {
        String::new()
    };
    (hungry.len() > allowed(all.len())).then(|| {
        format!(
            "in {} s the tester waited longer for a processor than it ran, most at {} s (its threads together {:.1} s{thief}): \
             other programs of this machine had them, and latencies of these seconds hold that wait; a machine of its \
             own would show the database alone",
            hungry.len(),
            worst.t_s,
            worst.waited_s,
        )
    })
}

fn measured(recording: &Recording) -> Vec<&OwnSecond> {
    let end = whole_seconds(recording.duration_s) as u64;
    recording.own.iter().filter(|own| own.t_s < end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: impl IntoIterator<Item = OwnSecond>) -> Recording {
        let own: Vec<_> = seconds.into_iter().zip(0..).map(|(own, t_s)| OwnSecond { t_s, ..own }).collect();
        Recording { duration_s: own.len() as f64, own, ..Recording::default() }
    }

    fn second(cpu_s: f64, waited_s: f64) -> OwnSecond {
        OwnSecond { seconds: 1.0, cpu_s, waited_s, ..OwnSecond::default() }
    }

    fn with(bad: OwnSecond, times: usize) -> Recording {
        let quiet = (0..57).map(|_| second(0.3, 0.01));
        run(quiet.chain((0..times).map(|_| bad.clone())))
    }

    #[test]
    fn seconds_over_85_percent_are_saturated_and_two_are_allowed() {
        let full = second(1.71, 0.0);
        assert_eq!(check(&with(full.clone(), 2), 2.0), None);
        let why = check(&with(full, 3), 2.0).unwrap();
        assert!(
            why.starts_with("in 3 s the tester used over 85 % of its 2 processors, most at 59 s (86 %)"),
            "{why}"
        );
        assert_eq!(check(&with(second(1.70, 0.0), 40), 2.0), None, "85 % is allowed");
    }

    #[test]
    fn a_closed_loop_is_judged_too_and_a_quota_counts() {
        assert!(check(&with(second(0.45, 0.0), 10), 0.5).is_some());
        assert_eq!(check(&with(second(0.45, 0.0), 10), 1.0), None);
    }

    #[test]
    fn a_second_that_was_long_is_measured_by_its_length() {
        let long = OwnSecond { seconds: 4.0, cpu_s: 4.0, ..OwnSecond::default() };
        assert_eq!(check(&with(long, 10), 2.0), None);
    }

    #[test]
    fn what_is_after_the_measured_phase_does_not_count() {
        let recording = Recording { duration_s: 57.0, ..with(second(2.0, 0.0), 20) };
        assert_eq!(check(&recording, 2.0), None);
    }

    #[test]
    fn a_wait_for_processors_is_told_and_decides_nothing() {
        let hungry = OwnSecond { stolen_s: Some(0.4), ..second(0.3, 0.9) };
        assert_eq!(starved(&with(hungry.clone(), 2)), None);
        let recording = with(hungry, 5);
        assert_eq!(check(&recording, 2.0), None);
        let text = starved(&recording).unwrap();
        assert!(
            text.starts_with("in 5 s the tester waited longer for a processor than it ran, most at 61 s"),
            "{text}"
        );
        assert!(text.contains("2.0 s were taken by the hypervisor"), "{text}");
        assert_eq!(starved(&with(second(1.2, 0.9), 30)), None, "busy, but it ran");
    }

    #[test]
    fn a_run_without_the_file_says_nothing() {
        let recording = Recording { duration_s: 60.0, ..Recording::default() };
        assert_eq!((check(&recording, 2.0), starved(&recording)), (None, None));
        assert_eq!(share(&[], 2.0), None);
    }
}
