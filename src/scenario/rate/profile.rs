//! A daily profile: a CSV file of times and rates, read strictly.

use std::fmt;
use std::path::Path;

use crate::scenario::quantity;
use crate::scenario::table::{Node, Refusal};
use crate::scenario::values::text;

/// A day in steps of one second. More is a recording, not a profile.
const MOST_POINTS: usize = 86_401;
/// A file of the most points is about half of this, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Problems of one file that are shown: a wrong separator breaks every line alike.
const MOST_PROBLEMS: usize = 20;
const HEADER: &str = "time,rate";

/// Seconds from the start, and operations per second.
type Point = (f64, f64);
/// Number of a line, and what is wrong with it.
type InLine = (usize, String);

/// A rate over time, from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The file as the scenario names it.
    pub name: String,
    /// Its text, for the copy in the run directory.
    pub text: String,
    /// Seconds and operations per second: at least two, the first at 0, ascending. The last one ends the
    /// round.
    pub points: Vec<Point>,
}

impl Profile {
    /// Name of the copy in the run directory; the scenario there names it too.
    #[must_use]
    pub fn copied_as(workload: &str) -> String {
        format!("profile-{workload}.csv")
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates = || self.points.iter().map(|(_, rate)| *rate);
        let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let round = self.points.last().map_or(0.0, |(at, _)| *at);
        write!(f, "{least} to {most} operations/s along {}, a round of {round} s", self.name)
    }
}

/// Reads the file that a scenario in `folder` names.
pub(in crate::scenario) fn read(node: &Node<'_>, folder: &Path) -> Option<Profile> {
    let name = node.read(text)?;
    let contents = match load(&folder.join(&name)) {
        Ok(contents) => contents,
        Err(why) => {
            let hint = "the path is relative to the folder of the scenario file";
            node.refuse(Refusal::new(format!("cannot read {name:?}: {why}")).hint(hint));
            return None;
        }
    };
    match points(&contents) {
        Ok(points) => Some(Profile { name, text: contents, points }),
        Err(problems) => {
            let more = problems.len().saturating_sub(MOST_PROBLEMS);
            for (line, problem) in problems.into_iter().take(MOST_PROBLEMS) {
                node.refuse(Refusal::new(format!("{name}, line {line}: {problem}")).hint(FORM));
            }
            if more > 0 {
                node.refuse(Refusal::new(format!("{name}: {more} more problems")));
            }
            None
        }
    }
}

const FORM: &str = "a first line `time,rate`, then lines as `0s,500/s`, `06:30,800/s` or `90,750`";

fn load(path: &Path) -> Result<String, String> {
    let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if bytes > MOST_BYTES {
        return Err(format!("{bytes} bytes are too many, at most {MOST_BYTES}"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// The points, or every problem with the number of its line. Empty lines and `#` lines are passed over.
fn points(contents: &str) -> Result<Vec<Point>, Vec<InLine>> {
    let mut problems = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    let numbered = (1..).zip(contents.lines().map(str::trim));
    let mut lines = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some((_, HEADER)) => {}
        Some((number, _)) => problems.push((number, format!("the first line must be `{HEADER}`"))),
        None => return Err(vec![(1, "the file is empty".into())]),
    }
    let mut last = 1;
    for (number, line) in lines {
        last = number;
        match point(line) {
            Ok((at, _)) if points.is_empty() && at > 0.0 => {
                problems.push((number, "the first time must be 0".into()));
                points.push((at, 1.0));
            }
            Ok((at, _)) if points.last().is_some_and(|(before, _)| at <= *before) => {
                problems.push((number, "the time must be later than that of the line before".into()));
            }
            Ok(point) => points.push(point),
            Err(why) => problems.push((number, why)),
        }
    }
    if problems.is_empty() {
        problems.extend(whole(&points).map(|why| (last, why)));
    }
    if problems.is_empty() { Ok(points) } else { Err(problems) }
}

/// What is wrong with all points together.
fn whole(points: &[Point]) -> Option<String> {
    if points.len() < 2 {
        return Some("at least two points are needed: the last one ends the round".into());
    }
    if points.len() > MOST_POINTS {
        return Some(format!("more than {MOST_POINTS} points"));
    }
    (points[0].1 <= 0.0).then(|| "the first rate must be above zero: the warm-up runs at it".into())
}

fn point(line: &str) -> Result<Point, String> {
    let (time, rate) = line.split_once(',').ok_or("not two columns, separated by a comma")?;
    Ok((seconds(time.trim())?, ops_s(rate.trim())?))
}

/// `90`, `1m 30s`, `06:30` or `06:30:15`, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    if let Some(seconds) = plain(text) {
        return Ok(seconds);
    }
    if text.contains(':') {
        return clock(text).ok_or_else(|| format!("{text:?} is no time of a day"));
    }
    quantity::duration(text).map(|d| d.as_secs_f64()).map_err(|e| e.message)
}

/// Up to `24:00`, which ends a day.
fn clock(text: &str) -> Option<f64> {
    let parts: Vec<u32> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let all = hours * 3_600 + minutes * 60 + seconds;
    (hours <= 24 && minutes < 60 && seconds < 60 && all <= 86_400).then_some(f64::from(all))
}

/// `500/s`, or a plain number of operations per second; 0 pauses.
fn ops_s(text: &str) -> Result<f64, String> {
    match plain(text) {
        Some(rate) if rate <= quantity::FASTEST_OPS_S => Ok(rate),
        Some(rate) => Err(format!("{rate} operations/s are too many")),
        None => quantity::rate(text).map_err(|e| e.message),
    }
}

/// Digits with a point or not: no sign, no exponent, no word.
fn plain(text: &str) -> Option<f64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    digits.then(|| text.parse().ok()).flatten().filter(|x: &f64| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_read_in_all_their_forms() {
        let text = "# a day\ntime,rate\n0,100\n\n1m 30s, 2k/s\n06:30,0\n24:00,100.5\n";
        let expected = [(0.0, 100.0), (90.0, 2_000.0), (23_400.0, 0.0), (86_400.0, 100.5)];
        assert_eq!(points(text).unwrap(), expected);
    }

    #[test]
    fn every_problem_is_named_with_its_line() {
        let text = "time;rate\n5,100\n4,100\n6\n7,-1\n25:00,1\n8,1e9\n9,many\n";
        let problems = points(text).unwrap_err();
        let lines: Vec<_> = problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8], "{problems:?}");
    }

    #[test]
    fn a_profile_needs_two_points_and_a_first_rate() {
        assert!(points("").unwrap_err()[0].1.contains("empty"));
        assert!(points("time,rate\n0,100\n").unwrap_err()[0].1.contains("two points"));
        assert!(points("time,rate\n0,0\n60,100\n").unwrap_err()[0].1.contains("above zero"));
    }
}
