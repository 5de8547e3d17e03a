//! What a parameter of a fault takes, and what it is when left out.

use std::fmt;

/// One parameter of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Key in the scenario file.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Value when it is left out.
    pub default: Preset,
    /// What it means, in a few words.
    pub about: &'static str,
}

/// What a value is; decides how it is read from a scenario and from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Whom to hit: a word or names of nodes. JSON: a text.
    Target,
    /// Like a target, or `clients`: whose connections to hit. JSON: a text.
    Party,
    /// A duration, "30s". JSON: seconds.
    Duration,
    /// A duration with a sign, "-2h". JSON: seconds.
    Shift,
    /// A whole number. JSON: a number.
    Count,
    /// A size, "64MiB". JSON: bytes.
    Size,
    /// A share above 0 and up to 1. JSON: a number.
    Share,
    /// Any text. JSON: a text.
    Text,
    /// One of these words. JSON: a text.
    Choice(&'static [&'static str]),
    /// A list of texts. JSON: a list.
    Texts,
    /// True or false. JSON: the same.
    Flag,
    /// Any value of the server's own: a number, a text, a table. JSON: the same.
    Any,
    /// A table whose keys are the server's own. JSON: an object.
    Table,
}

impl Takes {
    /// In words, with an example.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Target => "a target".into(),
            Self::Party => "a target or clients".into(),
            Self::Duration => "a duration, \"10s\"".into(),
            Self::Shift => "a duration with its sign, \"-90s\"".into(),
            Self::Count => "a whole number".into(),
            Self::Size => "a size, \"64MiB\"".into(),
            Self::Share => "a share above 0 and up to 1".into(),
            Self::Text => "a text".into(),
            Self::Choice(words) => words.join(", "),
            Self::Texts => "a list of texts".into(),
            Self::Flag => "true or false".into(),
            Self::Any => "a number, a text, true, false or a table".into(),
            Self::Table => "a table".into(),
        }
    }
}

/// The value of a parameter that was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// It must be given.
    Required,
    /// It may be missing, and then means nothing.
    Absent,
    /// Seconds.
    Seconds(f64),
    /// A whole number.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// A share.
    Share(f64),
    /// A text, a word or a target.
    Text(&'static str),
    /// A switch.
    Flag(bool),
}

impl Preset {
    /// As it stands in a specification; `None`: left out.
    #[must_use]
    pub fn json(self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Required | Self::Absent => return None,
            Self::Seconds(seconds) | Self::Share(seconds) => seconds.into(),
            Self::Count(count) | Self::Bytes(count) => count.into(),
            Self::Text(text) => text.into(),
            Self::Flag(flag) => flag.into(),
        })
    }
}

impl fmt::Display for Preset {
    /// As people would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("must be given"),
            Self::Absent => f.write_str("default none"),
            Self::Seconds(s) if *s >= 1.0 || *s == 0.0 => write!(f, "default {s}s"),
            Self::Seconds(s) => write!(f, "default {}ms", s * 1e3),
            Self::Count(count) => write!(f, "default {count}"),
            Self::Bytes(bytes) if bytes % (1 << 20) == 0 => write!(f, "default {}MiB", bytes >> 20),
            Self::Bytes(bytes) => write!(f, "default {bytes}B"),
            Self::Share(share) => write!(f, "default {share}"),
            Self::Text(text) => write!(f, "default {text}"),
            Self::Flag(flag) => write!(f, "default {flag}"),
        }
    }
}

/// `target`, when most people mean the primary.
pub const TARGET_PRIMARY: Parameter = target("primary");
/// `target`, when hitting the primary is something special.
pub const TARGET_SECONDARY: Parameter = target("secondary");
/// `for`: how long it holds.
pub const FOR_30_S: Parameter = held_for(30.0);

/// `target` with this default.
#[must_use]
pub const fn target(default: &'static str) -> Parameter {
    Parameter { name: "target", takes: Takes::Target, default: Preset::Text(default), about: "whom to hit" }
}

/// `target` of a fault of the network, with this default.
#[must_use]
pub const fn party(default: &'static str) -> Parameter {
    Parameter { takes: Takes::Party, about: "whose connections to hit", ..target(default) }
}

/// `for` with this default.
#[must_use]
pub const fn held_for(seconds: f64) -> Parameter {
    Parameter {
        name: "for",
        takes: Takes::Duration,
        default: Preset::Seconds(seconds),
        about: "how long it lasts",
    }
}
