//! A node whose tables differ from the majority's stops.

use super::*;
use crate::status::{NodeState, Role};

/// Changes the running digest in a stopped node's database, as a fault of its memory or of `apply` would.
async fn tamper(cluster: &Cluster, slot: u64) {
    let state = state_of(cluster, slot).await;
    let mut position = state.position().unwrap();
    position.digest ^= 1;
    state.commit(state.overlay(&position), &position, Default::default()).unwrap();
    state.write_out().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_odd_one_stops_and_the_others_go_on() {
    let mut cluster = Cluster::new();
    cluster.digest_check_ms = 100;
    let mut cluster = cluster.boot().await;
    cluster.put().await;
    let odd = cluster.leader().await % 3 + 1;
    cluster.stop(odd).await;
    tamper(&cluster, odd).await;
    let store = cluster.open(odd).await.unwrap();
    let mut fatal = store.fatal();
    // Far enough for the next checkpoint.
    let leader = cluster.store(cluster.leader().await);
    while status(&leader).applied < 300 {
        let commands = (0..16).map(|_| leader.propose(cluster.submit().1));
        for applied in futures_util::future::join_all(commands).await {
            applied.unwrap();
        }
    }
    let raised = tokio::time::timeout(PATIENCE, fatal.wait_for(Option::is_some)).await;
    let reason = raised.expect("the odd node stops").unwrap().clone().unwrap();
    assert!(reason.contains("differ from those of the majority"), "{reason}");
    assert_eq!(status(&store).state, NodeState::Failed);
    eventually("a node without a part in raft", async || status(&store).role == Role::Stopped).await;
    cluster.stop(odd).await;
    cluster.put().await;
    for store in cluster.stores.values() {
        assert_eq!(*store.fatal().borrow(), None);
    }
    cluster.level().await;
}
