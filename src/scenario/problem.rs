//! What is wrong with a scenario, for people: where, what, and what to write instead.

use std::fmt;
use std::path::PathBuf;

/// Where a problem is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In an override, as given; a value that may hold a password is hidden.
    Set(String),
    /// In a YCSB property of the command line, by its name.
    Parameter(String),
    /// Somewhere in the file: it cannot be read, or something is missing at its top level.
    File(PathBuf),
    /// At this character of the file, as it is on disk (before overrides). Both numbers start at 1.
    At {
        /// The file as the user named it.
        path: PathBuf,
        /// Line.
        line: usize,
        /// Column in characters.
        column: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(text) => write!(f, "--set {text}"),
            Self::Parameter(name) => write!(f, "-p {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::At { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The key it is about, from the root, as `--set` takes it: `fault.0.every`. Empty: the whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead, or why it is refused.
    pub hint: Option<String>,
}

impl Problem {
    /// Line in the file, from 1.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        match self.place {
            Place::At { line, .. } => Some(line),
            _ => None,
        }
    }

    /// Column in characters, from 1.
    #[must_use]
    pub const fn column(&self) -> Option<usize> {
        match self.place {
            Place::At { column, .. } => Some(column),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a scenario, never empty: overrides first, then the file from the
/// top. Displays one problem a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts them by their places.
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        Self(problems)
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
