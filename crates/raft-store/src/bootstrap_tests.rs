//! Who boots, who waits, who joins.

use super::*;

fn seeds() -> Vec<(NodeId, String)> {
    (1..=3).map(|id| (id, format!("node-{id}:1"))).collect()
}

fn fresh(id: NodeId) -> Probed {
    Probed {
        id: None,
        birth: format!("birth-{id}"),
        entered: false,
        seeds: seeds(),
        seed_id: id,
        internal: format!("node-{id}:1"),
        api: format!("http://node-{id}"),
        members: Vec::new(),
        leader: None,
    }
}

fn member(id: NodeId, birth: &str) -> (NodeId, Member) {
    let (internal, api) = (format!("node-{id}:1"), format!("http://node-{id}"));
    (id, Member { internal, api, birth: birth.into() })
}

/// A member of a cluster in which these births are known.
fn booted(id: NodeId, births: &[(NodeId, &str)], leader: Option<NodeId>) -> Probed {
    let members = births.iter().map(|(id, birth)| member(*id, birth)).collect();
    Probed { id: Some(id), entered: true, members, leader, ..fresh(id) }
}

#[test]
fn the_lowest_boots_when_everybody_is_there_and_nobody_has_data() {
    let founders = vec![member(1, "birth-1"), member(2, "birth-2"), member(3, "birth-3")];
    assert_eq!(decide(&fresh(1), &[fresh(2), fresh(3)]), Decision::Boot(founders));
    assert_eq!(decide(&fresh(2), &[fresh(1), fresh(3)]), Decision::Wait);
    assert_eq!(decide(&fresh(1), &[fresh(2)]), Decision::Wait);
    assert_eq!(decide(&fresh(1), &[]), Decision::Wait);
}

#[test]
fn a_different_configuration_boots_nothing() {
    let mut other = fresh(3);
    other.seeds.pop();
    assert_eq!(decide(&fresh(1), &[fresh(2), other]), Decision::Wait);
    let mut stranger = fresh(3);
    stranger.internal = "elsewhere:1".into();
    assert_eq!(decide(&fresh(1), &[fresh(2), stranger]), Decision::Wait);
    let mut joiner = fresh(4);
    joiner.seeds.clear();
    assert_eq!(decide(&joiner, &[fresh(1), fresh(2)]), Decision::Wait);
}

#[test]
fn an_interrupted_first_boot_is_tried_again_with_those_who_have_their_ids() {
    let started = |id| Probed { id: Some(id), entered: true, ..fresh(id) };
    assert!(matches!(decide(&started(1), &[started(2), fresh(3)]), Decision::Boot(_)));
    let taken = Probed { id: Some(1_007), ..fresh(3) };
    assert_eq!(decide(&fresh(1), &[fresh(2), taken]), Decision::Wait);
}

#[test]
fn whose_birth_is_known_settles_and_whose_is_not_joins() {
    let births = [(1, "birth-1"), (2, "birth-2"), (3, "birth-3")];
    assert_eq!(decide(&fresh(3), &[booted(1, &births, Some(1))]), Decision::Settle(3));
    let old = [(1, "birth-1"), (2, "birth-2"), (3, "before")];
    let expected = ["node-2:1", "node-1:1", "node-3:1"].map(String::from).to_vec();
    assert_eq!(decide(&fresh(3), &[booted(1, &old, Some(2))]), Decision::Join(expected));
    // One stale answer does not outweigh the one that knows.
    let answers = [booted(1, &old, Some(2)), booted(2, &births, Some(2))];
    assert_eq!(decide(&fresh(3), &answers), Decision::Settle(3));
}

#[test]
fn the_lowest_without_data_never_boots_beside_a_cluster() {
    let old = [(1, "before"), (2, "birth-2"), (3, "birth-3")];
    assert!(matches!(decide(&fresh(1), &[booted(2, &old, None), fresh(3)]), Decision::Join(_)));
}
