//! Which kinds of faults hit nodes in which roles: what a run of chance has covered.

use serde::{Deserialize, Serialize};

use super::text::table;

/// The faults of one kind that hit nodes in one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Kind: `kill`.
    pub kind: String,
    /// What the node was at the injection; `None`: never injected. A fault that hit nodes in several roles counts
    /// once in each.
    pub role: Option<HitRole>,
    /// Faults whose effect was seen.
    pub effective: u64,
    /// All others.
    pub other: u64,
}

/// What a node was when a fault hit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HitRole {
    /// It took writes: a primary, or a standalone.
    Primary,
    /// It followed.
    Secondary,
    /// It routed operations to shards.
    Router,
    /// None of these: starting, recovering, or it did not answer.
    Other,
}

/// The columns, each with its heading.
const COLUMNS: [(Option<HitRole>, &str); 5] = [
    (Some(HitRole::Primary), "primary"),
    (Some(HitRole::Secondary), "secondary"),
    (Some(HitRole::Router), "router"),
    (Some(HitRole::Other), "other"),
    (None, "never injected"),
];

/// The matrix for people: kinds by roles, effective ones of all.
pub(super) fn matrix(text: &mut String, coverage: &[Coverage]) {
    if coverage.is_empty() {
        return;
    }
    let used: Vec<_> =
        COLUMNS.into_iter().filter(|(role, _)| coverage.iter().any(|c| c.role == *role)).collect();
    let head = std::iter::once("coverage").chain(used.iter().map(|(_, heading)| *heading));
    let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    let mut kinds: Vec<&str> = coverage.iter().map(|c| c.kind.as_str()).collect();
    kinds.dedup();
    for kind in kinds {
        let cell = |role| {
            let found = coverage.iter().find(|c| c.kind == kind && c.role == role);
            found.map_or("-".into(), |c| match role {
                Some(_) => format!("{}/{}", c.effective, c.effective + c.other),
                None => c.other.to_string(),
            })
        };
        rows.push(std::iter::once(kind.to_owned()).chain(used.iter().map(|(role, _)| cell(*role))).collect());
    }
    table(text, &rows, 1);
    text.push_str("  faults by the role of the node that they hit: effective of all\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_has_the_columns_that_it_needs() {
        let cell =
            |kind: &str, role, effective, other| Coverage { kind: kind.into(), role, effective, other };
        let mut text = String::new();
        matrix(
            &mut text,
            &[
                cell("kill", Some(HitRole::Primary), 2, 1),
                cell("kill", None, 0, 4),
                cell("rolling_restart", Some(HitRole::Secondary), 1, 0),
            ],
        );
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["coverage", "primary", "secondary", "never", "injected"]);
        assert_eq!(lines[1], ["kill", "2/3", "-", "4"]);
        assert_eq!(lines[2], ["rolling_restart", "-", "1/1", "-"]);
        text.clear();
        matrix(&mut text, &[]);
        assert_eq!(text, "");
    }
}
