//! Who may speak to a node.

use openraft::vote::RaftLeaderId as _;

use super::*;
use crate::types::{LeaderId, LogId, Member, Membership};

fn membership() -> LoggedMembership {
    let member = |id: NodeId| (id, Member { birth: format!("birth-{id}"), ..Member::default() });
    let nodes: std::collections::BTreeMap<_, _> = [1, 2, 3].into_iter().map(member).collect();
    let voters = vec![[1, 2, 3].into_iter().collect()];
    let id = LogId { leader_id: LeaderId::new(4, 1), index: 100 };
    LoggedMembership::new(Some(id), Membership::new(voters, nodes).unwrap())
}

fn at(term: u64, index: u64) -> Option<StoredLogId> {
    Some(StoredLogId { term, node: 9, index })
}

#[test]
fn a_members_id_with_another_birth_is_refused_and_a_stranger_is_not() {
    let from = |from, birth: &str| RpcEnvelope {
        cluster: "c".into(),
        target: 1,
        target_birth: "b".into(),
        from,
        from_birth: birth.into(),
    };
    assert_eq!(check_sender(&membership(), &from(2, "birth-2")), Ok(()));
    assert!(check_sender(&membership(), &from(2, "birth-3")).is_err());
    assert_eq!(check_sender(&membership(), &from(1_007, "any")), Ok(()));
}

#[test]
fn a_candidate_that_is_no_member_must_know_more_than_this_node() {
    assert_eq!(check_candidate(&membership(), 3, None), Ok(()));
    assert!(check_candidate(&membership(), 1_007, None).is_err());
    assert!(check_candidate(&membership(), 1_007, at(4, 99)).is_err());
    assert!(check_candidate(&membership(), 1_007, at(3, 500)).is_err());
    assert_eq!(check_candidate(&membership(), 1_007, at(4, 101)), Ok(()));
    assert_eq!(check_candidate(&membership(), 1_007, at(5, 90)), Ok(()));
    // A node that knows no membership yet listens to everybody.
    assert_eq!(check_candidate(&LoggedMembership::default(), 1_007, None), Ok(()));
}
