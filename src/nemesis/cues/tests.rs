//! What counts as a moment.

use faults::{Member, Role};

use super::*;

fn view(primary: Option<&str>, term: i64) -> View {
    let member = |name: &str| {
        let role = if primary == Some(name) { Role::Primary } else { Role::Secondary };
        Member { name: name.into(), role, term: Some(term), set: None }
    };
    View { members: ["node1", "node2", "node3"].map(member).to_vec() }
}

const fn ms(ms: u64) -> Moment {
    Duration::from_millis(ms)
}

#[test]
fn an_election_is_a_time_without_a_primary_or_a_new_term() {
    let mut elections = Elections::default();
    assert!(!elections.look(&view(Some("node1"), 3), ms(0)), "the first term is not new");
    assert!(elections.look(&view(None, 3), ms(100)));
    assert!(!elections.look(&view(Some("node1"), 3), ms(200)));
    // So quick that nobody saw the time without a primary.
    assert!(elections.look(&view(Some("node2"), 4), ms(300)));
    assert!(elections.look(&view(Some("node2"), 4), ms(1_200)));
    assert!(!elections.look(&view(Some("node2"), 4), ms(1_300)));
    // A member that answers again with its old term begins nothing.
    assert!(!elections.look(&view(Some("node2"), 3), ms(1_400)));
}

/// Looks at these seconds, one look each.
fn paced(seconds: impl IntoIterator<Item = (u64, u64)>, busy: impl Fn(u64) -> bool) -> bool {
    let mut pace = Pace::default();
    let mut even = false;
    for (second, (ok, not_ok)) in (1..).zip(seconds) {
        let live = Live { second: Some(second), rows: vec![LiveRow { ok, not_ok, p99_us: None }] };
        even = pace.look(&live, busy(second));
        // Looking twice at one second does not make it two.
        assert_eq!(pace.look(&live, busy(second)), even);
    }
    even
}

#[test]
fn steady_is_twenty_even_seconds_without_errors_and_faults() {
    let never = |_: u64| false;
    let even = |n: usize| (0..n).map(|i| if i % 2 == 0 { (90, 0) } else { (110, 0) });
    assert!(paced(even(20), never));
    assert!(!paced(even(19), never));
    assert!(!paced((0..40).map(|i| (100 + 3 * i, 0)), never), "it climbs");
    assert!(!paced((0..40).map(|_| (0, 0)), never), "nothing is not steady");
    assert!(!paced(even(39).chain([(100, 1)]), never), "something failed");
    assert!(!paced(even(40), |second| second == 25), "a fault was active");
    assert!(paced(even(46), |second| second == 25));
}

#[test]
fn answers_of_servers() {
    let running = |section: &str, name: &str, n: i32| doc! { "wiredTiger": { section: { name: n } } };
    for (section, name) in
        [("transaction", "transaction checkpoint currently running"), ("checkpoint", "progress state")]
    {
        assert!(checkpoint_runs(&running(section, name, 1)));
        assert!(!checkpoint_runs(&running(section, name, 0)));
    }
    assert!(!checkpoint_runs(&doc! {}));
    assert!(is_being_filled(&doc! { "myState": 5, "initialSyncStatus": {} }));
    assert!(!is_being_filled(&doc! { "myState": 5 }), "it only starts");
    assert!(!is_being_filled(&doc! { "myState": 2, "initialSyncStatus": {} }), "it is done");
    assert!(any_operation(&doc! { "cursor": { "firstBatch": [{}] } }));
    assert!(!any_operation(&doc! { "cursor": { "firstBatch": [] } }));
}

#[test]
fn a_checkpoint_counts_on_the_node_that_is_hit() {
    let on = |cue, node: &str| Signs {
        view: view(Some("node1"), 1),
        on: BTreeMap::from([(cue, BTreeSet::from([node.to_owned()]))]),
    };
    let fit = |signs: &Signs, cue| signs.fit(cue, &NodeTarget::Primary, 0);
    assert!(fit(&on(Cue::Checkpoint, "node1"), Cue::Checkpoint));
    assert!(!fit(&on(Cue::Checkpoint, "node2"), Cue::Checkpoint));
    assert!(fit(&on(Cue::InitialSync, "node2"), Cue::InitialSync));
    assert!(!fit(&on(Cue::InitialSync, "node2"), Cue::IndexBuild));
}
