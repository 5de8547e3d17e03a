//! Java property files, and the `-p key=value` that go before them.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::problem::{Place, Problem, Problems};

/// A value and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) value: String,
    pub(super) place: Place,
}

/// All properties by name; of several of the same name the last one counts, and `-p` before the file.
pub(super) type Properties = BTreeMap<String, Property>;

/// Reads a file and puts the parameters in.
pub(super) fn read(path: &Path, parameters: &[String]) -> Result<Properties, Problems> {
    let bytes = std::fs::read(path).map_err(|error| Problem {
        place: Place::File(path.into()),
        key: String::new(),
        message: format!("cannot read the YCSB properties: {error}"),
        hint: None,
    })?;
    // The format is older than UTF-8: then a byte is a character.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    let mut properties = parse(path, &text);
    for parameter in parameters {
        let (key, value) = parameter.split_once('=').ok_or_else(|| Problem {
            place: Place::Parameter(parameter.clone()),
            key: String::new(),
            message: "a property has no \"=\"".into(),
            hint: Some("write -p key=value, as -p recordcount=1000000".into()),
        })?;
        // The value of a connection string is no matter for messages.
        let place = Place::Parameter(key.trim().to_owned());
        properties.insert(key.trim().to_owned(), Property { value: value.trim().to_owned(), place });
    }
    Ok(properties)
}

/// Lines into names and values, as `java.util.Properties` reads them.
fn parse(path: &Path, text: &str) -> Properties {
    let mut properties = Properties::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((line, first)) = lines.next() {
        let mut logical = first.trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while is_continued(&logical) {
            logical.pop();
            logical.push_str(lines.next().map_or("", |(_, next)| next.trim_start()));
        }
        let (key, value) = split(&logical);
        let place = Place::At { path: path.into(), line, column: 1 };
        // Nobody means a space at the end, which Java would keep.
        properties.insert(unescape(key), Property { value: unescape(value).trim_end().to_owned(), place });
    }
    properties
}

/// Whether a line ends with an odd number of backslashes.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or white space without a backslash; one sign and white space separate.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (c == '=' || c == ':' || c.is_whitespace());
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\x0c'),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        let parsed = parse(Path::new("w"), text);
        parsed.into_iter().map(|(key, property)| (key, property.value)).collect()
    }

    #[test]
    fn every_way_to_write_a_property_is_read() {
        let text = "# a comment\n! another = one\n\n  a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t6\ng\nh=\n\
                    i=a=b:c d\nj\\=k\\:l\\ m = n\nlong = one,\\\n    two,\\\n\ttwo\\\\\nafter=\\u0041\\t\\q\ntail=7  \n";
        let expected = [
            ("a", "1"),
            ("after", "A\tq"),
            ("b", "2"),
            ("c", "3"),
            ("d", "4"),
            ("e", "5"),
            ("f", "6"),
            ("g", ""),
            ("h", ""),
            ("i", "a=b:c d"),
            ("j=k:l m", "n"),
            ("long", "one,two,two\\"),
            ("tail", "7"),
        ];
        assert_eq!(values(text), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_last_of_the_same_name_counts_and_keeps_its_line() {
        let parsed = parse(Path::new("w"), "a = 1 \\\n 1\n# x\na = 2\n");
        assert_eq!(parsed["a"].value, "2");
        assert_eq!(parsed["a"].place, Place::At { path: "w".into(), line: 4, column: 1 });
    }

    #[test]
    fn parameters_go_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w");
        std::fs::write(&path, b"recordcount=5\nname=k\xe4se\n").unwrap();
        let read_with = |parameters: &[&str]| {
            let parameters: Vec<_> = parameters.iter().map(|text| (*text).to_owned()).collect();
            read(&path, &parameters)
        };
        let properties = read_with(&["recordcount = 6", "mongodb.url=mongodb://u:p@h/?w=1"]).unwrap();
        assert_eq!(
            (properties["recordcount"].value.as_str(), properties["name"].value.as_str()),
            ("6", "käse")
        );
        assert_eq!(properties["mongodb.url"].value, "mongodb://u:p@h/?w=1");
        assert_eq!(properties["mongodb.url"].place.to_string(), "-p mongodb.url");
        assert_eq!(
            read_with(&["recordcount"]).unwrap_err().to_string(),
            "-p recordcount: a property has no \"=\"; write -p key=value, as -p recordcount=1000000"
        );
        let missing = read(&dir.path().join("nothing"), &[]).unwrap_err().to_string();
        assert!(missing.contains("cannot read the YCSB properties"), "{missing}");
    }
}
