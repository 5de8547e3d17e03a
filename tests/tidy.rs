//! The rules about the sources that no compiler checks. All problems are listed at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this has more than one subject.
const FILE_LINES_MAX: usize = 400;

/// Words that mark unfinished work. In pieces, so that this file does not mark itself.
const MARKERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
const EXIT_CALL: &str = concat!("process::", "exit(");

/// Top-level module -> the modules it may use.
type Layers = BTreeMap<String, Vec<String>>;

#[test]
fn sources_are_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let layers = layers(&read(&root.join("ARCHITECTURE.md")));
    let mut problems = Vec::new();
    for folder in ["src", "faults", "router", "tests"] {
        for path in files(&root.join(folder), "rs") {
            let name = path.strip_prefix(root).expect("below the root").display().to_string();
            let text = read(&path);
            check_file(&name, &text, &mut problems);
            if let Some(inside) = name.strip_prefix("src/") {
                check_layers(inside, &text, &layers, &mut problems);
            }
        }
    }
    check_scenarios(root, &mut problems);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Length, markers, the end of the process.
fn check_file(name: &str, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        problems.push(format!("{name}: {lines} lines, {FILE_LINES_MAX} at most: split it by subject"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(marker) = MARKERS.iter().find(|marker| line.contains(**marker)) {
            problems.push(format!("{name}:{number}: {marker}: do it, or open an issue"));
        }
        if name != "src/main.rs" && code_of(line).contains(EXIT_CALL) {
            problems.push(format!("{name}:{number}: only main ends the process: return an outcome"));
        }
    }
}

/// Who uses whom between the top-level modules; `name` is relative to `src`.
fn check_layers(name: &str, text: &str, layers: &Layers, problems: &mut Vec<String>) {
    // lib.rs only declares the modules; a file of tests may know more than what it tests.
    if name == "lib.rs" || name.ends_with("tests.rs") || name.contains("/tests/") {
        return;
    }
    let module = name.split('/').next().expect("split gives one piece at least").trim_end_matches(".rs");
    let Some(allowed) = layers.get(module) else {
        problems.push(format!("src/{name}: ARCHITECTURE.md says nothing about `{module}` (block `layers`)"));
        return;
    };
    let root = if module == "main" { "mongosoak::" } else { "crate::" };
    for (number, used) in used_modules(without_tests(text), root) {
        if used != module && layers.contains_key(&used) && !allowed.contains(&used) {
            problems.push(format!(
                "src/{name}:{number}: `{module}` may not know `{used}`; ARCHITECTURE.md allows: {}",
                allowed.join(", ")
            ));
        }
    }
}

/// Line and first name of each path that starts with `root`: `crate::a::B`, `crate::{a::B, c}`.
fn used_modules(text: &str, root: &str) -> Vec<(usize, String)> {
    let code = text.lines().map(code_of).collect::<Vec<_>>().join("\n");
    let mut used = Vec::new();
    for (start, _) in code.match_indices(root) {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if code[..start].ends_with(|c: char| is_name(c) || c == ':') {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        let rest = &code[start + root.len()..];
        let first_name =
            |path: &str| path.trim().split(|c| !is_name(c)).next().unwrap_or_default().to_owned();
        if rest.starts_with('{') {
            used.extend(members(rest).into_iter().map(|path| (line, first_name(path))));
        } else {
            used.push((line, first_name(rest)));
        }
    }
    used
}

/// The outermost members of a use group; `text` starts with its brace.
fn members(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 1, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth == 0 {
            members.push(&text[start..at]);
            break;
        }
    }
    members
}

/// A test module at the end of a file may know more than what it tests.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod ").map_or(text, |at| &text[..at])
}

/// The line without its comment.
fn code_of(line: &str) -> &str {
    line.find("//").map_or(line, |at| &line[..at])
}

/// Each scenario is explained to users somewhere.
fn check_scenarios(root: &Path, problems: &mut Vec<String>) {
    let docs = ["README.md", "docs/scenarios.md"]
        .map(|file| fs::read_to_string(root.join(file)).unwrap_or_default())
        .concat();
    for path in files(&root.join("scenarios"), "toml") {
        let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        if !docs.contains(&format!("{stem}.toml")) && !docs.contains(&format!("`{stem}`")) {
            problems.push(format!("scenarios/{stem}.toml: in neither docs/scenarios.md nor README.md"));
        }
    }
}

/// The block ```layers of ARCHITECTURE.md: `module -> a, b`, one a line.
fn layers(architecture: &str) -> Layers {
    let block = architecture.split("```layers\n").nth(1).and_then(|rest| rest.split("```").next());
    let list =
        |names: &str| names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    let layers: Layers = block
        .expect("ARCHITECTURE.md has a block ```layers")
        .lines()
        .map(|line| line.split_once("->").unwrap_or_else(|| panic!("not `module -> a, b`: {line}")))
        .map(|(module, allowed)| (module.trim().to_owned(), list(allowed)))
        .collect();
    for (module, allowed) in &layers {
        for name in allowed {
            assert!(
                layers.contains_key(name),
                "ARCHITECTURE.md: `{module}` may use `{name}`, which has no line"
            );
        }
    }
    layers
}

/// All files with that extension, in the order of their paths; no folder, no files.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        // Runs beside the scenarios and build output are not sources.
        if path.is_dir() && !path.ends_with("runs") && !path.ends_with("target") {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

#[test]
fn forbidden_uses_are_found_in_every_form() {
    let layers = layers("```layers\na -> b\nb ->\nc ->\n```");
    let found = |text: &str| {
        let mut problems = Vec::new();
        check_layers("a/deep.rs", text, &layers, &mut problems);
        problems
    };
    assert!(
        found("use crate::b::X;\nuse crate::a::Y;\n// crate::c\n#[cfg(test)]\nmod tests { use crate::c; }")
            .is_empty()
    );
    for bad in
        ["use crate::c;", "use crate::c::X;", "use crate::{b::{X, Y}, c::Z};", "let x = crate::c::f();"]
    {
        assert_eq!(found(bad).len(), 1, "{bad}");
    }
    assert!(
        found("\n\nuse crate::{\n    b,\n    c,\n};")[0].starts_with("src/a/deep.rs:3: `a` may not know `c`")
    );
}

#[test]
fn long_files_markers_and_exits_are_found() {
    let mut problems = Vec::new();
    let text = format!("// {}\nstd::{EXIT_CALL}1);\n{}", MARKERS[0], "\n".repeat(FILE_LINES_MAX));
    check_file("src/run.rs", &text, &mut problems);
    assert_eq!(problems.len(), 3, "{problems:?}");
    problems.clear();
    check_file("src/main.rs", &format!("std::{EXIT_CALL}1);"), &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
}
