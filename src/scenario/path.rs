//! Where a value stands in the tree of a scenario, without regard to lines and columns.

use std::fmt;

/// Keys from the root; the index of a list element is a key too: `fault`, `0`, `every`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KeyPath(Vec<String>);

impl KeyPath {
    /// Reads `fault.0.every`. For our own keys, which hold no dots; names that the user chose are
    /// appended with [`Self::child`].
    pub(super) fn of(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }

    /// One step down.
    pub(super) fn child(&self, key: impl fmt::Display) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// One step up; `None` at the root.
    pub(super) fn parent(&self) -> Option<Self> {
        let (_, above) = self.0.split_last()?;
        Some(Self(above.to_vec()))
    }

    /// Whether it is `above` or stands below it.
    pub(super) fn is_within(&self, above: &Self) -> bool {
        self.0.starts_with(&above.0)
    }

    /// The last key that is a name.
    pub(super) fn name(&self) -> &str {
        self.0.iter().rev().find(|key| !is_index(key)).map_or("scenario", String::as_str)
    }

    /// The table it is for, as people see it in the file: `[[fault]]`, `[limits.p99]`,
    /// `do.kill of [[fault]]`; empty at the root.
    pub(super) fn section(&self) -> String {
        match self.0.as_slice() {
            [] => String::new(),
            [list] if is_list(list) => format!("[[{list}]]"),
            [list, index, rest @ ..] if is_index(index) => match rest {
                [] => format!("[[{list}]]"),
                rest => format!("{} of [[{list}]]", rest.join(".")),
            },
            keys => format!("[{}]", keys.join(".")),
        }
    }

    /// `"every" in [[fault]]`.
    pub(super) fn described(&self) -> String {
        let last_name = self.0.iter().rposition(|key| !is_index(key)).unwrap_or(0);
        match Self(self.0[..last_name.min(self.0.len())].to_vec()).section() {
            section if section.is_empty() => format!("{:?}", self.name()),
            section => format!("{:?} in {section}", self.name()),
        }
    }
}

fn is_index(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit())
}

fn is_list(key: &str) -> bool {
    key == "workload" || key == "fault"
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_sections() {
        for (path, described) in [
            ("duration", r#""duration""#),
            ("cluster.members", r#""members" in [cluster]"#),
            ("fault.0.every", r#""every" in [[fault]]"#),
            ("fault.0.at.1", r#""at" in [[fault]]"#),
            ("fault.0", r#""fault""#),
            ("fault.0.do.kill.target", r#""target" in do.kill of [[fault]]"#),
            ("limits.p99.readers", r#""readers" in [limits.p99]"#),
        ] {
            assert_eq!(KeyPath::of(path).described(), described);
        }
        assert_eq!(KeyPath::default().described(), r#""scenario""#);
    }
}
