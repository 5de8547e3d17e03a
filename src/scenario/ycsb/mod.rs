//! YCSB property files (`workloada` and so on) as scenarios.
//!
//! The properties are translated into the text of a scenario, so that everything else, from the checks to the
//! copy in the run directory, is the same as for any other one. What cannot be honoured exactly is said.

mod properties;
#[cfg(test)]
mod tests;
mod translate;

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use super::Source;
use super::problem::{Place, Problem, Problems};
use properties::Properties;

/// A translated property file.
#[derive(Clone, Debug)]
pub struct Translated {
    /// The scenario. Its text may hold a password.
    pub source: Source,
    /// What is different from what YCSB would do, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a property file; `parameters` (`key=value`) go before it.
///
/// # Errors
/// All values that cannot be read, with file and line.
pub fn translate(path: &Path, parameters: &[String]) -> Result<Translated, Problems> {
    let properties = properties::read(path, parameters)?;
    let reader = Reader { properties: &properties, path, asked: BTreeSet::new(), problems: Vec::new() };
    translate::scenario(reader)
}

/// Hands out properties, and remembers which were asked for and what was wrong with them.
struct Reader<'a> {
    properties: &'a Properties,
    path: &'a Path,
    asked: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The text of a property, unless it is empty.
    fn text(&mut self, name: &'static str) -> Option<&str> {
        self.asked.insert(name);
        self.properties.get(name).map(|property| property.value.as_str()).filter(|text| !text.is_empty())
    }

    /// A number in its range, or the default.
    fn number<T: FromStr>(
        &mut self,
        name: &'static str,
        default: T,
        fits: impl Fn(&T) -> bool,
        range: &str,
    ) -> T {
        let Some(text) = self.text(name) else { return default };
        match text.parse().ok().filter(fits) {
            Some(number) => number,
            None => {
                let message = format!("{name} cannot be {text:?}");
                self.refuse(name, message, range);
                default
            }
        }
    }

    fn count(&mut self, name: &'static str, default: u64) -> u64 {
        self.number(name, default, |n| i64::try_from(*n).is_ok(), "write a whole number, as 1000000")
    }

    fn proportion(&mut self, name: &'static str, default: f64) -> f64 {
        self.number(name, default, |x| x.is_finite() && *x >= 0.0, "write a number from 0 on, as 0.95")
    }

    fn share(&mut self, name: &'static str, default: f64) -> f64 {
        self.number(name, default, |x| (0.0..=1.0).contains(x), "write a number from 0 to 1, as 0.2")
    }

    fn switch(&mut self, name: &'static str, default: bool) -> bool {
        self.number(name, default, |_| true, "write true or false")
    }

    /// Books a problem at the property's place, or for the whole file where it is missing.
    fn refuse(&mut self, name: &str, message: impl Into<String>, hint: &str) {
        let place = self.properties.get(name).map(|property| property.place.clone());
        self.problems.push(Problem {
            place: place.unwrap_or_else(|| Place::File(self.path.into())),
            key: name.into(),
            message: message.into(),
            hint: Some(hint.into()),
        });
    }

    /// Names of the properties that nobody asked for.
    fn ignored(&self) -> Vec<&str> {
        let all = self.properties.keys().map(String::as_str);
        all.filter(|name| !self.asked.contains(name)).collect()
    }
}
