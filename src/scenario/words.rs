//! Names: the nearest one to a misspelt word, and the sentences about unknown ones.

use super::quantity::quoted;

/// The valid names of one place, and those that a later version will know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    /// What is named: "key", "fault kind".
    pub(super) what: &'a str,
    /// Understood now.
    pub(super) now: &'a [&'a str],
    /// Promised, but not there yet.
    pub(super) later: &'a [&'a str],
}

impl Names<'_> {
    /// What to say about a word that is not in `now`: message, hint, and what was probably meant.
    /// `place` is where it stands (` in [[fault]]`), may be empty.
    pub(super) fn unknown(&self, word: &str, place: &str) -> Unknown {
        let Self { what, now, later } = self;
        let valid =
            if now.is_empty() { "it takes none".to_owned() } else { format!("valid: {}", now.join(", ")) };
        let shown = quoted(word);
        if later.contains(&word) {
            return Unknown {
                message: format!("{what} {shown}{place} is not in this version yet"),
                hint: valid,
                meant: None,
            };
        }
        let meant = closest(word, now.iter().copied());
        Unknown {
            message: format!("unknown {what} {shown}{place}"),
            hint: match meant {
                Some(name) => format!("did you mean {name:?}? ({valid})"),
                None => valid,
            },
            meant: meant.map(str::to_owned),
        }
    }
}

/// What to say about an unknown word.
#[derive(Debug)]
pub(super) struct Unknown {
    pub(super) message: String,
    pub(super) hint: String,
    pub(super) meant: Option<String>,
}

/// The candidate that differs from the word by few typing errors.
pub(super) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong: more, and the guess is usually nonsense.
    let allowed = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_typing_errors_and_nothing_else() {
        let names = ["first", "every", "times"];
        assert_eq!(closest("evry", names), Some("every"));
        assert_eq!(closest("Times", names), Some("times"));
        assert_eq!(closest("weather", names), None);
        assert_eq!(closest("", names), None);
    }
}
