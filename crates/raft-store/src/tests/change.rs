//! Members come and go, and the leadership moves, while the cluster works.

use super::*;
use crate::MembershipError;
use crate::status::Role;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leadership_goes_where_it_is_sent() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let next = leader % 3 + 1;
    cluster.store(leader).transfer_leader(next).await.unwrap();
    assert_eq!(cluster.leader().await, next);
    cluster.put().await;
    let refused = cluster.store(leader).transfer_leader(leader).await;
    assert_eq!(refused, Err(MembershipError::NotLeader { leader: next }));
    assert_eq!(cluster.store(next).transfer_leader(77).await, Err(MembershipError::NotMember(77)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_added_and_another_removed() {
    let mut cluster = Cluster::three().await;
    let tasks = cluster.put_many(10).await;
    cluster.open(4).await.unwrap();
    let leader = cluster.leader().await;
    let member = Member { internal: address(4), ..Member::default() };
    let id = cluster.store(leader).add_member(member.clone(), None).await.unwrap();
    assert!(id > 1_000);
    assert_eq!(cluster.store(leader).add_member(member, None).await, Ok(id), "a repeated call is harmless");
    cluster.level().await;
    assert_eq!(ids(&cluster.store(leader)).len(), 4);
    assert!(tasks.iter().all(|task| has(&cluster.store(4), *task)));

    let gone = leader % 3 + 1;
    cluster.store(leader).remove_member(gone).await.unwrap();
    assert_eq!(ids(&cluster.store(leader)).len(), 3);
    assert_eq!(cluster.store(leader).remove_member(gone).await, Err(MembershipError::NotMember(gone)));
    // The one that was removed disturbs nobody, and is not let in again under its id.
    cluster.stop(gone).await;
    let removed = cluster.open(gone).await.unwrap();
    cluster.stores.remove(&gone);
    let task = cluster.put().await;
    assert_eq!(cluster.leader().await, leader);
    let member = Member { internal: address(gone), ..Member::default() };
    let added = cluster.store(leader).add_member(member, None).await;
    assert!(matches!(added, Err(MembershipError::NotAddable { .. })), "{added:?}");
    assert!(!has(&removed, task));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_is_replaced() {
    let mut cluster = Cluster::three().await;
    cluster.put_many(5).await;
    let leader = cluster.leader().await;
    let dead = leader % 3 + 1;
    cluster.stop(dead).await;
    cluster.open(5).await.unwrap();
    let member = Member { internal: address(5), ..Member::default() };
    let id = cluster.store(leader).add_member(member, Some(dead)).await.unwrap();
    let voters = ids(&cluster.store(leader));
    assert!(voters.contains(&id) && !voters.contains(&dead) && voters.len() == 3, "{voters:?}");
    cluster.put().await;
    cluster.level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_removes_itself_and_hands_over() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let old = cluster.store(leader);
    old.remove_member(leader).await.unwrap();
    eventually("another leader", async || {
        let others = cluster.stores.iter().filter(|(slot, _)| **slot != leader);
        others.into_iter().any(|(_, store)| store.leadership().borrow().leading)
    })
    .await;
    eventually("the old leader's retreat", async || !old.leadership().borrow().leading).await;
    eventually("a role without a vote", async || status(&old).role != Role::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_voter_stays() {
    let mut cluster = Cluster::new();
    let mut options = cluster.options(1);
    options.members.truncate(1);
    let wire = Arc::new(Wire { net: Arc::clone(&cluster.net), from: address(1) });
    let store = Store::open(options, wire, environment()).await.unwrap();
    cluster.stores.insert(1, store.clone());
    cluster.leader().await;
    assert_eq!(store.remove_member(1).await, Err(MembershipError::LastVoter(1)));
}
