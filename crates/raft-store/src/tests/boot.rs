//! How nodes find their cluster, and what becomes of one whose data is gone.

use super::*;
use crate::RpcError;
use crate::message::{self, AskVote, Probed, VoteReply};
use crate::stored::StoredVote;

pub(super) async fn probe(store: &Store) -> Probed {
    let envelope = RpcEnvelope {
        cluster: "test".into(),
        target: 0,
        target_birth: String::new(),
        from: 0,
        from_birth: String::new(),
    };
    let answer = store.handle_rpc(RpcKind::Probe, envelope, message::request(&()).unwrap()).await.unwrap();
    message::read_reply(&answer).unwrap()
}

/// Removes a directory whose database may still be closing.
async fn remove(dir: &std::path::Path) {
    eventually("an empty directory", async || std::fs::remove_dir_all(dir).is_ok() || !dir.exists()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_three_configured_nodes_boot_no_cluster() {
    let mut cluster = Cluster::new();
    cluster.open(1).await.unwrap();
    cluster.open(2).await.unwrap();
    // Each has asked the other many times by then.
    for _ in 0..100 {
        tokio::time::sleep(LOOK).await;
        assert!(cluster.stores.values().all(|store| status(store).id.is_none()));
    }
    cluster.open(3).await.unwrap();
    cluster.leader().await;
    cluster.level().await;
    assert_eq!(ids(&cluster.store(3)), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_boot_that_was_interrupted_goes_on() {
    let mut cluster = Cluster::new();
    for slot in 1..=3 {
        cluster.open(slot).await.unwrap();
    }
    // Wherever the first boot has got to by now.
    cluster.stop(1).await;
    cluster.stop(2).await;
    cluster.open(2).await.unwrap();
    cluster.open(1).await.unwrap();
    cluster.put().await;
    cluster.level().await;
    assert_eq!(ids(&cluster.store(1)), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_its_data_comes_back_as_another_one() {
    let mut cluster = Cluster::new();
    cluster.snapshot.keep_log_entries = 5;
    let mut cluster = cluster.boot().await;
    let mut tasks = cluster.put_many(40).await;
    let leader = cluster.leader().await;
    cluster.store(leader).snapshot_now(PATIENCE).await.unwrap();
    let wiped = leader % 3 + 1;
    let old_birth = probe(&cluster.store(wiped)).await.birth;
    cluster.stop(wiped).await;
    remove(&cluster.dir(wiped)).await;
    cluster.open(wiped).await.unwrap();
    tasks.extend(cluster.put_many(10).await);
    let fresh = cluster.store(wiped);
    eventually("a new member in the place of its former self", async || {
        let voters = ids(&cluster.store(leader));
        voters.len() == 3 && voters.iter().any(|id| *id > 1_000) && !voters.contains(&wiped)
    })
    .await;
    cluster.level().await;
    assert!(tasks.iter().all(|task| has(&fresh, *task)));
    assert!(status(&fresh).id.is_some_and(|id| id > 1_000));

    // What is meant for its former self, and what its former self says, is refused.
    let (vote, last) = (StoredVote { term: 999, node: wiped, committed: false }, None);
    let ask = message::request(&AskVote { vote, last, transfer: false }).unwrap();
    let envelope = |target: (u64, String), from: (u64, String)| RpcEnvelope {
        cluster: "test".into(),
        target: target.0,
        target_birth: target.1,
        from: from.0,
        from_birth: from.1,
    };
    let old = (wiped, old_birth);
    let other = (leader, probe(&cluster.store(leader)).await.birth);
    let to_old = fresh.handle_rpc(RpcKind::Vote, envelope(old.clone(), other.clone()), ask.clone()).await;
    assert!(matches!(to_old, Err(RpcError::Misdirected(_))), "{to_old:?}");
    let from_old = cluster.store(leader).handle_rpc(RpcKind::Vote, envelope(other, old), ask).await;
    assert!(matches!(from_old, Err(RpcError::Misdirected(_))), "{from_old:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_for_another_cluster_or_life_is_refused() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader().await;
    let (store, follower) = (cluster.store(leader), leader % 3 + 1);
    let own = probe(&store).await.birth;
    let caller = probe(&cluster.store(follower)).await.birth;
    let last = Some(crate::stored::StoredLogId { term: 999, node: follower, index: 999 });
    let ask =
        AskVote { vote: StoredVote { term: 0, node: follower, committed: false }, last, transfer: false };
    let good = RpcEnvelope {
        cluster: "test".into(),
        target: leader,
        target_birth: own,
        from: follower,
        from_birth: caller,
    };
    let body = message::request(&ask).unwrap();
    let answer = store.handle_rpc(RpcKind::PreVote, good.clone(), body.clone()).await.unwrap();
    let reply: VoteReply = message::read_reply(&answer).unwrap();
    assert!(!reply.granted, "the vote is old");
    let wrong = [
        RpcEnvelope { cluster: "other".into(), ..good.clone() },
        RpcEnvelope { target: follower, ..good.clone() },
        RpcEnvelope { target_birth: "else".into(), ..good.clone() },
        RpcEnvelope { from_birth: "else".into(), ..good.clone() },
    ];
    for envelope in wrong {
        let answer = store.handle_rpc(RpcKind::PreVote, envelope.clone(), body.clone()).await;
        assert!(matches!(answer, Err(RpcError::Misdirected(_))), "{envelope:?}: {answer:?}");
    }
    let junk = store.handle_rpc(RpcKind::Append, good, Bytes::from_static(b"junk")).await;
    assert!(matches!(junk, Err(RpcError::Malformed(_))), "{junk:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_starts_again_never_seems_to_be_of_no_cluster() {
    let mut cluster = Cluster::three().await;
    cluster.level().await;
    for slot in [1, 2, 3, 1, 2, 3] {
        cluster.stop(slot).await;
        let store = cluster.open(slot).await.unwrap();
        assert_eq!(probe(&store).await.members.len(), 3, "node {slot} answers before it knows what it is");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_lost_a_database_does_not_start() {
    for lost in ["raft", "state"] {
        let mut cluster = Cluster::three().await;
        cluster.put().await;
        cluster.stop(2).await;
        remove(&cluster.dir(2).join(lost)).await;
        let opened = cluster.open(2).await;
        assert!(matches!(&opened, Err(OpenError::Identity { .. })), "{opened:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_alone_is_a_cluster_that_can_grow() {
    let mut cluster = Cluster::new();
    let mut options = cluster.options(1);
    options.members.truncate(1);
    let wire = Arc::new(Wire { net: Arc::clone(&cluster.net), from: address(1) });
    let store = Store::open(options, wire, environment()).await.unwrap();
    cluster.net.plugged.lock().unwrap().insert(address(1), store.clone());
    cluster.stores.insert(1, store);
    let task = cluster.put().await;
    // A node that is configured to join does so by itself.
    cluster.open(4).await.unwrap();
    eventually("a second voter", async || ids(&cluster.store(1)).len() == 2).await;
    cluster.level().await;
    assert!(has(&cluster.store(4), task));
}
