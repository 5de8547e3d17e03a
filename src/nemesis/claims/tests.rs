//! Claims under scripted members: who waits for whom, and that chance never finds a way around the guards.

use std::collections::BTreeSet;

use faults::{Harm, Member, Role};
use proptest::prelude::*;

use super::*;

fn view(roles: &[Role]) -> View {
    let member = |(i, role): (usize, &Role)| Member { name: name(i), role: *role, term: Some(1), set: None };
    View { members: roles.iter().enumerate().map(member).collect() }
}

fn name(index: usize) -> String {
    format!("node{}", index + 1)
}

fn grip(fault: &str, kind: &'static str, harm: Harm, nodes: &[usize]) -> Grip {
    let nodes = nodes.iter().map(|i| name(*i)).collect();
    let majority_may_be_lost = harm == Harm::LosesMajority;
    Grip { fault: fault.into(), kind, harm, nodes, majority_may_be_lost, stand: Stand::Waits }
}

fn taken(attempt: Attempt<'_>) -> Held<'_> {
    match attempt {
        Attempt::Taken(held) => held,
        other => panic!("{other:?}"),
    }
}

fn refused(attempt: Attempt<'_>) -> String {
    match attempt {
        Attempt::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

const WELL: [Role; 3] = [Role::Primary, Role::Secondary, Role::Secondary];

#[test]
fn a_random_kill_waits_for_the_end_of_a_rolling_restart() {
    let claims = Claims::default();
    let roll = grip("f1", "rolling_restart", Harm::TakesDownInTurn, &[0, 1, 2]);
    let rolling = taken(claims.take(0, roll.clone(), &view(&WELL), claims.ended()));
    // The roll is at its second member, and the primary, which it will reach later, is to be killed.
    let now = view(&[Role::Primary, Role::Secondary, Role::Down]);
    let kill = || grip("f2", "kill", Harm::TakesDown, &[0]);
    let why = refused(claims.take(1, kill(), &now, claims.ended()));
    assert_eq!(why, "node1 is still held by f1 (rolling_restart)");
    drop(rolling);
    let killing = taken(claims.take(1, kill(), &view(&WELL), claims.ended()));
    // And the other way round: a roll does not begin while a member is down.
    let now = view(&[Role::Down, Role::Primary, Role::Secondary]);
    let rest = Grip { nodes: vec![name(1), name(2)], ..roll };
    let why = refused(claims.take(2, rest, &now, claims.ended()));
    assert_eq!(why, "no majority would be left without node2, node3: node1 is still held by f2 (kill)");
    drop(killing);
}

#[test]
fn a_member_that_has_not_come_back_is_counted() {
    let claims = Claims::default();
    let kill = || grip("f1", "kill", Harm::TakesDown, &[0]);
    let why = refused(claims.take(0, kill(), &view(&[Role::Primary, Role::Secondary, Role::Other]), 0));
    assert_eq!(why, "no majority would be left without node1: node3 is neither primary nor secondary");
    let why = refused(claims.take(0, kill(), &view(&[Role::Primary, Role::Down, Role::Secondary]), 0));
    assert_eq!(why, "no majority would be left without node1: node2 does not answer");
    // Down already: nothing more is lost with it.
    let held = taken(claims.take(0, kill(), &view(&[Role::Down, Role::Primary, Role::Secondary]), 0));
    drop(held);
    // What slows only needs no majority, and what is meant to take it away may.
    let slow = grip("f2", "set_parameter", Harm::Slows, &[0]);
    drop(taken(claims.take(0, slow, &view(&[Role::Primary, Role::Down, Role::Down]), claims.ended())));
    let both = Grip { majority_may_be_lost: true, ..grip("f3", "kill", Harm::TakesDown, &[0, 1]) };
    drop(taken(claims.take(0, both, &view(&WELL), claims.ended())));
    // Without a member to spare, every such fault is meant to take service away.
    drop(taken(claims.take(0, kill(), &view(&[Role::Standalone]), claims.ended())));
}

#[test]
fn faults_that_slow_share_a_node_unless_they_are_of_one_kind() {
    let claims = Claims::default();
    let slow = |fault: &str, kind| grip(fault, kind, Harm::Slows, &[1]);
    let _first = taken(claims.take(0, slow("f1", "index_build"), &view(&WELL), 0));
    let _second = taken(claims.take(1, slow("f2", "set_parameter"), &view(&WELL), 0));
    refused(claims.take(2, slow("f3", "index_build"), &view(&WELL), 0));
    refused(claims.take(3, grip("f4", "pause", Harm::TakesDown, &[1]), &view(&WELL), 0));
}

#[test]
fn who_comes_first_in_the_plan_is_served_first() {
    let claims = Claims::default();
    let kill = |fault: &str, node| grip(fault, "kill", Harm::TakesDown, &[node]);
    let first = taken(claims.take(0, kill("f1", 0), &view(&WELL), 0));
    refused(claims.take(1, kill("f2", 1), &view(&WELL), 0));
    drop(first);
    // It would find room, but f2 has waited longer.
    let why = refused(claims.take(2, kill("f3", 2), &view(&WELL), claims.ended()));
    assert!(why.contains("node2 is waited for by f2"), "{why}");
    let second = taken(claims.take(1, kill("f2", 1), &view(&WELL), claims.ended()));
    claims.leave(2);
    drop(second);
    drop(taken(claims.take(3, kill("f4", 2), &view(&WELL), claims.ended())));
}

#[test]
fn what_was_seen_before_a_fault_ended_is_not_believed() {
    let claims = Claims::default();
    let ended = claims.ended();
    drop(taken(claims.take(0, grip("f1", "kill", Harm::TakesDown, &[0]), &view(&WELL), ended)));
    let late = claims.take(1, grip("f2", "kill", Harm::TakesDown, &[1]), &view(&WELL), ended);
    assert!(matches!(late, Attempt::Stale), "{late:?}");
}

/// What happens in a run, by chance.
#[derive(Clone, Debug)]
enum Step {
    /// A fault wants nodes; `old`: with what was seen at the step before.
    Strike {
        place: usize,
        kind: usize,
        nodes: u8,
        allowed: bool,
        old: bool,
    },
    /// A fault that holds shows its effect, or ends, by its number.
    Strikes(usize),
    Ends(usize),
    /// A member falls ill by itself, or gets well.
    Health(usize, bool),
}

const KINDS: [(&str, Harm); 6] = [
    ("kill", Harm::TakesDown),
    ("pause", Harm::TakesDown),
    ("rolling_restart", Harm::TakesDownInTurn),
    ("majority_loss", Harm::LosesMajority),
    ("index_build", Harm::Slows),
    ("set_parameter", Harm::Slows),
];

fn step() -> impl Strategy<Value = Step> {
    let strike = (0..20_usize, 0..KINDS.len(), 1..128_u8, prop::bool::weighted(0.1), any::<bool>());
    prop_oneof![
        6 => strike.prop_map(|(place, kind, nodes, allowed, old)| Step::Strike { place, kind, nodes, allowed, old }),
        3 => (0..8_usize).prop_map(Step::Strikes),
        3 => (0..8_usize).prop_map(Step::Ends),
        1 => (0..7_usize, any::<bool>()).prop_map(|(member, ill)| Step::Health(member, ill)),
    ]
}

/// A fault of the model that holds.
struct Holding<'a> {
    _held: Held<'a>,
    wants: Grip,
    strikes: bool,
}

/// The members as they would be seen.
fn seen(members: usize, ill: &BTreeSet<String>, holding: &[Holding<'_>]) -> View {
    let down = |node: &String| {
        let hit = |h: &Holding<'_>| match h.wants.harm {
            Harm::Slows => false,
            Harm::TakesDownInTurn => h.wants.nodes.first() == Some(node),
            Harm::TakesDown | Harm::LosesMajority => h.wants.nodes.contains(node),
        };
        ill.contains(node) || holding.iter().any(|h| h.strikes && hit(h))
    };
    let role = |i: usize| if down(&name(i)) { Role::Down } else { Role::Secondary };
    view(&(0..members).map(role).collect::<Vec<_>>())
}

/// Members that these faults take at the same time, at worst.
fn gone<'a>(wants: impl Iterator<Item = &'a Grip> + Clone, ill: &BTreeSet<String>) -> usize {
    let all = |harm: Harm| wants.clone().filter(move |w| w.harm == harm);
    let mut nodes: BTreeSet<&String> = ill.iter().collect();
    nodes.extend(all(Harm::TakesDown).chain(all(Harm::LosesMajority)).flat_map(|w| &w.nodes));
    nodes.len() + all(Harm::TakesDownInTurn).count()
}

fn check_together(holding: &[Holding<'_>]) {
    for (i, a) in holding.iter().enumerate() {
        for b in &holding[i + 1..] {
            let shared = a.wants.nodes.iter().any(|node| b.wants.nodes.contains(node));
            let slow = a.wants.harm == Harm::Slows && b.wants.harm == Harm::Slows;
            assert!(!shared || slow && a.wants.kind != b.wants.kind, "{:?} and {:?}", a.wants, b.wants);
        }
    }
}

proptest! {
    #[test]
    fn chance_finds_no_way_around_the_guards(
        members in 1..8_usize,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let claims = Claims::default();
        let spare = members - faults::majority_of(members);
        let (mut holding, mut ill) = (Vec::<Holding<'_>>::new(), BTreeSet::new());
        let mut before = (seen(members, &ill, &holding), claims.ended(), ill.clone());
        for (number, step) in steps.into_iter().enumerate() {
            let now = (seen(members, &ill, &holding), claims.ended(), ill.clone());
            match step {
                Step::Strike { place, kind, nodes, allowed, old } => {
                    let nodes: Vec<_> = (0..members).filter(|i| nodes & (1 << i) != 0).collect();
                    if nodes.is_empty() {
                        continue;
                    }
                    let (kind, harm) = KINDS[kind];
                    let mut wants = grip(&format!("f{number}"), kind, harm, &nodes);
                    wants.majority_may_be_lost |= allowed;
                    let (view, ended, ill) = if old { &before } else { &now };
                    if let Attempt::Taken(held) = claims.take(place, wants.clone(), view, *ended) {
                        let strict = wants.harm != Harm::Slows && !wants.majority_may_be_lost && spare > 0;
                        holding.push(Holding { _held: held, wants, strikes: false });
                        let gone = gone(holding.iter().map(|h| &h.wants), ill);
                        prop_assert!(!strict || gone <= spare, "{gone} of {members} gone, {spare} to spare");
                    }
                }
                Step::Strikes(i) => {
                    if let Some(h) = holding.get_mut(i) {
                        h.strikes = true;
                    }
                }
                Step::Ends(i) if i < holding.len() => drop(holding.remove(i)),
                Step::Ends(_) => {}
                Step::Health(member, true) => drop(ill.insert(name(member % members))),
                Step::Health(member, false) => drop(ill.remove(&name(member % members))),
            }
            check_together(&holding);
            let meant = holding.iter().any(|h| h.wants.majority_may_be_lost);
            let gone = gone(holding.iter().map(|h| &h.wants), &BTreeSet::new());
            prop_assert!(meant || spare == 0 || gone <= spare, "{gone} of {members} gone, {spare} to spare");
            before = now;
        }
    }
}
