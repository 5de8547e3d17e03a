use std::collections::BTreeMap;

use super::*;
use crate::report::data::{Dip, Outage};

fn hit(hard_s: f64, gap_s: f64, sustained_s: Option<f64>, equivalent_outage_s: f64) -> Impact {
    Impact {
        baseline: None,
        outage: Some(Outage { hard_s, longest_gap_s: Some(gap_s), ..Outage::default() }),
        recovery: Some(Recovery { sustained_s, censored: sustained_s.is_none(), ..Recovery::default() }),
        dip: Some(Dip { equivalent_outage_s, ..Dip::default() }),
    }
}

fn worse(a: Impact, b: Impact) -> &'static str {
    let both = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
    if worst(&both).unwrap().0 == "a" { "a" } else { "b" }
}

#[test]
fn the_workload_that_suffered_most_is_found_step_by_step() {
    let some = Some(10.0);
    assert_eq!(worse(hit(9.0, 1.0, some, 1.0), hit(8.0, 99.0, None, 99.0)), "a", "hard outage first");
    assert_eq!(worse(hit(9.0, 1.0, None, 99.0), hit(9.0, 2.0, some, 1.0)), "b", "then the gap");
    assert_eq!(worse(hit(9.0, 1.0, Some(99.0), 99.0), hit(9.0, 1.0, None, 1.0)), "b", "then not recovered");
    assert_eq!(worse(hit(9.0, 1.0, Some(11.0), 1.0), hit(9.0, 1.0, some, 99.0)), "a", "then recovered late");
    assert_eq!(worse(hit(9.0, 1.0, some, 2.0), hit(9.0, 1.0, some, 3.0)), "b", "then what it cost");
    assert_eq!(worse(hit(9.0, 1.0, some, 2.0), hit(9.0, 1.0, some, 2.0)), "a", "the first of equals");
    assert!(worst(&BTreeMap::new()).is_none());
}
