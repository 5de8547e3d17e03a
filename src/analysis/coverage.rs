//! What the faults of a run covered: each kind by the roles of the nodes that it hit.

use std::collections::{BTreeMap, BTreeSet};

use faults::Role;

use crate::recording::{FaultOutcome, FaultRecord};
use crate::report::coverage::{Coverage, HitRole};

/// One entry for each kind and role that came up, kinds in the order of their names, never injected ones last.
#[must_use]
pub fn measure(faults: &[FaultRecord]) -> Vec<Coverage> {
    let mut cells = BTreeMap::<(&str, bool, Option<HitRole>), (u64, u64)>::new();
    for fault in faults {
        for role in roles(fault) {
            let cell = cells.entry((fault.spec.kind(), role.is_none(), role)).or_default();
            match fault.outcome {
                FaultOutcome::Effective => cell.0 += 1,
                _ => cell.1 += 1,
            }
        }
    }
    let entry = |((kind, _, role), (effective, other)): ((&str, _, _), _)| Coverage {
        kind: kind.into(),
        role,
        effective,
        other,
    };
    cells.into_iter().map(entry).collect()
}

/// The roles that a fault met; `None` alone: it was never injected.
fn roles(fault: &FaultRecord) -> BTreeSet<Option<HitRole>> {
    if fault.injected_s.is_none() {
        return BTreeSet::from([None]);
    }
    let hit: BTreeSet<_> = fault.roles.iter().map(|role| Some(hit_role(*role))).collect();
    // Recordings of older versions do not say.
    if hit.is_empty() { BTreeSet::from([Some(HitRole::Other)]) } else { hit }
}

const fn hit_role(role: Role) -> HitRole {
    match role {
        Role::Primary | Role::Standalone => HitRole::Primary,
        Role::Secondary => HitRole::Secondary,
        Role::Router => HitRole::Router,
        Role::Other | Role::Down => HitRole::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::fault;

    #[test]
    fn faults_count_once_for_each_role_that_they_met() {
        let kill =
            |roles: &[Role], outcome| FaultRecord { roles: roles.to_vec(), outcome, ..fault("f", 9.0) };
        let mut skipped = kill(&[], FaultOutcome::Skipped);
        skipped.injected_s = None;
        let faults = [
            kill(&[Role::Primary], FaultOutcome::Effective),
            kill(&[Role::Primary], FaultOutcome::NotEffective),
            kill(&[Role::Secondary, Role::Secondary, Role::Primary], FaultOutcome::Effective),
            kill(&[Role::Down], FaultOutcome::Failed),
            skipped,
        ];
        let found: Vec<_> =
            measure(&faults).into_iter().map(|c| (c.kind, c.role, c.effective, c.other)).collect();
        let kill = || "kill".to_owned();
        assert_eq!(
            found,
            [
                (kill(), Some(HitRole::Primary), 2, 1),
                (kill(), Some(HitRole::Secondary), 1, 0),
                (kill(), Some(HitRole::Other), 0, 1),
                (kill(), None, 0, 1),
            ]
        );
        assert_eq!(measure(&[]), []);
    }
}
