//! The entry points: a file with overrides in, a checked scenario or all its problems out.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_edit::DocumentMut;

use super::places::{Applied, Places, at_offset};
use super::problem::{Place, Problem, Problems};
use super::table::Log;
use super::values::LARGER_IN_QUOTES;
use super::{Profile, Scenario, check, file, overrides, shape, uri};

/// Where a scenario came from, and its text, which may hold a password: `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// File as the user named it.
    pub path: PathBuf,
    /// Its text, after `--set`.
    pub text: String,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).field("bytes", &self.text.len()).finish()
    }
}

impl Source {
    /// The text as it may be written to disk and shown: users, passwords and options of connection
    /// strings are gone, also in comments, and the template and profiles are named as their copies beside
    /// it. It still reads as the same scenario, apart from these.
    #[must_use]
    pub fn public_text(&self) -> String {
        let mut text = self.text.clone();
        // From the back, so that the spans before stay right.
        let mut other = public_values(&self.text);
        other.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        for (span, public) in other {
            text.replace_range(span, &public);
        }
        text.split_inclusive('\n').map(hide_user_info).collect()
    }
}

/// The name of a template's copy in a run directory.
pub const TEMPLATE_COPY: &str = "dataset.toml";

/// Where values stand that are others in the run directory, and these.
fn public_values(text: &str) -> Vec<(Range<usize>, String)> {
    let Ok(tree) = DeTable::parse(text) else { return Vec::new() };
    let tree = tree.get_ref();
    let workloads = tree.get("workload").and_then(|list| list.get_ref().as_array());
    let profiles = workloads.into_iter().flatten().filter_map(|workload| copied_profile(workload.get_ref()));
    public_uri(tree).into_iter().chain(own_template(tree)).chain(profiles).collect()
}

/// Where the file of a profile is named, and the name of its copy.
fn copied_profile(workload: &DeValue<'_>) -> Option<(Range<usize>, String)> {
    let workload = workload.as_table()?;
    let name = workload.get("name")?.get_ref().as_str()?;
    let file = workload.get("rate")?.get_ref().as_table()?.get("profile")?;
    Some((file.span(), format!("{:?}", Profile::copied_as(name))))
}

/// Where the connection string stands, and what may stand there instead.
fn public_uri(tree: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let (span, uri) = text_at(tree, "cluster", "uri")?;
    Some((span, format!("{:?}", uri::without_secrets(uri))))
}

/// Where the name of a template stands, and the name of its copy.
fn own_template(tree: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let (span, shape) = text_at(tree, "dataset", "shape")?;
    shape::is_file(shape).then(|| (span, format!("{TEMPLATE_COPY:?}")))
}

/// A text in one of the tables, and its place.
fn text_at<'a>(tree: &'a DeTable<'_>, table: &str, key: &str) -> Option<(Range<usize>, &'a str)> {
    let value = tree.get(table)?.get_ref().as_table()?.get(key)?;
    Some((value.span(), value.get_ref().as_str()?))
}

/// `# uri = "mongodb://user:secret@host"` without the user and the secret. Only in comments: the one
/// value that may be a connection string is replaced as a whole.
fn hide_user_info(line: &str) -> String {
    let comment = line.find('#').unwrap_or(line.len());
    let (code, comment) = line.split_at(comment);
    let hidden = comment.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.rsplit_once('@')?;
        Some(format!("{code}{scheme}://{host}"))
    });
    hidden.unwrap_or_else(|| line.to_owned())
}

/// Reads a scenario file and puts the overrides (`duration=10m`, `workload.readers.rate=200/s`) in.
///
/// # Errors
/// Every problem of the file, of the overrides, and of what they come to. Lines and columns are
/// those of the file on disk; what comes from an override points at the override.
pub fn read(path: &Path, overrides: &[String]) -> Result<(Scenario, Source), Problems> {
    let text = std::fs::read_to_string(path).map_err(|error| Problem {
        place: Place::File(path.into()),
        key: String::new(),
        message: format!("cannot read the scenario: {error}"),
        hint: None,
    })?;
    read_text(Source { path: path.into(), text }, overrides)
}

/// The same for a text that was read, or made, already.
///
/// # Errors
/// As [`read`].
pub fn read_text(original: Source, overrides: &[String]) -> Result<(Scenario, Source), Problems> {
    if overrides.is_empty() {
        return Ok((parse(&original)?, original));
    }
    let original_tree = tree(&original)?;
    // Valid TOML, so all that can be wrong is a number that is too large to be written back.
    let mut document = original.text.parse::<DocumentMut>().map_err(|error| Problem {
        hint: Some(LARGER_IN_QUOTES.into()),
        ..syntax(&original, error.message(), error.span())
    })?;
    let (applied, problems) = overrides::apply(&mut document, overrides);
    let source = Source { path: original.path.clone(), text: document.to_string() };
    let places = places(&original, &original_tree, applied);
    let scenario = build(&source, &tree(&source)?, &places, problems)?;
    Ok((scenario, source))
}

/// Reads a text that has its overrides in it, for instance the copy in a run directory.
///
/// # Errors
/// Every problem, with its line and column in this text.
pub fn parse(source: &Source) -> Result<Scenario, Problems> {
    let tree = tree(source)?;
    build(source, &tree, &places(source, &tree, Vec::new()), Vec::new())
}

fn build(
    source: &Source,
    tree: &Spanned<DeTable<'_>>,
    places: &Places<'_>,
    mut problems: Vec<Problem>,
) -> Result<Scenario, Problems> {
    let log = Log::default();
    let scenario = file::scenario(tree.get_ref(), source, &log);
    check::check(&scenario, &log);
    problems.extend(log.take_elsewhere());
    problems.extend(log.into_entries().into_iter().map(|entry| places.problem(entry)));
    if problems.is_empty() { Ok(scenario) } else { Err(Problems::new(problems)) }
}

fn tree(source: &Source) -> Result<Spanned<DeTable<'_>>, Problem> {
    DeTable::parse(&source.text).map_err(|error| syntax(source, error.message(), error.span()))
}

/// A text that is no TOML. Only the parser's words: its own display would show the line.
pub(super) fn syntax(source: &Source, message: &str, span: Option<Range<usize>>) -> Problem {
    let offset = span.map_or(0, |span| span.start);
    Problem {
        place: at_offset(source.path.clone(), &source.text, offset),
        key: String::new(),
        message: format!("not valid TOML: {message}"),
        hint: None,
    }
}

fn places<'a>(source: &'a Source, tree: &Spanned<DeTable<'_>>, overrides: Vec<Applied>) -> Places<'a> {
    Places::new(source.path.clone(), &source.text, tree.get_ref(), overrides)
}
