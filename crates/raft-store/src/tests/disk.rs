//! A disk that fills up.

use orloj_model::Refusal;
use orloj_model::access::Actor;
use orloj_model::command::{AccessCommand, Asked};

use super::*;
use crate::disk::Space;
use crate::status::NodeState;

const TOTAL: u64 = 1 << 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_full_disk_hands_over_or_proposes_nothing_until_there_is_space() {
    let mut cluster = Cluster::new();
    let mut levels = BTreeMap::new();
    for slot in 1..=3 {
        let free = Arc::new(AtomicU64::new(TOTAL / 2));
        let seen = Arc::clone(&free);
        levels.insert(slot, free);
        let probe: Probe = Arc::new(move |_| Ok(Space { free: seen.load(Ordering::Relaxed), total: TOTAL }));
        cluster.open_on(slot, probe).await.unwrap();
    }
    let first = cluster.leader().await;
    levels[&first].store(1 << 30, Ordering::Relaxed);
    eventually("another leader", async || cluster.leader().await != first).await;
    let kept = cluster.put().await;
    // No member has room: nobody to hand over to.
    levels.values().for_each(|free| free.store(1 << 30, Ordering::Relaxed));
    for slot in 1..=3 {
        let store = cluster.store(slot);
        eventually("a low disk", async || status(&store).state == NodeState::DiskLow).await;
    }
    let leader = cluster.leader().await;
    let store = cluster.store(leader);
    eventually("a low disk", async || status(&store).state == NodeState::DiskLow).await;
    assert_eq!(status(&store).disk_free, 1 << 30);
    let (refused, command) = cluster.submit();
    assert_eq!(store.propose(command.clone()).await, Err(ProposeError::DiskLow));
    // An administrator can still take a key away, until the disk is all but full.
    let takes_away = || {
        let by = Actor { access_key: "adk_A".into(), request_id: "r".into(), claim: None };
        let change = Asked::Access(Box::new(AccessCommand::DeleteKey { key: "ak".into(), by }));
        Command::OfKey { access_key: "adk_A".into(), change }
    };
    let reply = store.propose(takes_away()).await.unwrap().reply;
    assert_eq!(reply, Reply::Refused(Refusal::AccessKeyGone), "it was applied");
    let denied =
        [AccessCommand::Denied { denials: Vec::new() }, AccessCommand::Unsigned { denials: Vec::new() }];
    let both = vec![takes_away(), command.clone()];
    for denied in denied {
        assert_eq!(store.propose(Command::Access(Box::new(denied))).await, Err(ProposeError::DiskLow));
    }
    assert_eq!(store.propose_all(both).await, Err(ProposeError::DiskLow));
    levels.values().for_each(|free| free.store(1 << 28, Ordering::Relaxed));
    eventually("a full disk", async || store.propose(takes_away()).await == Err(ProposeError::DiskLow)).await;
    levels.values().for_each(|free| free.store(TOTAL / 2, Ordering::Relaxed));
    eventually("space again", async || status(&store).state == NodeState::Ok).await;
    assert!(has(&store, kept) && !has(&store, refused));
    cluster.put().await;
    cluster.level().await;
}
