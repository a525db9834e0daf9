//! Snapshots between nodes: who was away for longer than the log is kept catches up by one.

use openraft::storage::RaftLogStorage as _;

use super::*;
use crate::codec::{self, Schema};
use crate::log::LogStore;
use crate::message::{self, SendSnapshot, SnapshotReply};
use crate::snapshot::Manifest;
use crate::stored::StoredVote;

/// Keeps next to no log behind a snapshot.
fn short_log() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.snapshot.keep_log_entries = 5;
    cluster
}

async fn purge(cluster: &Cluster) -> u64 {
    let leader = cluster.store(cluster.leader().await);
    let index = leader.snapshot_now(PATIENCE).await.unwrap();
    eventually("a purged log", async || status(&leader).purged + 10 > index).await;
    index
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_too_long_catches_up_by_snapshot_under_load() {
    let cluster = short_log().boot().await;
    let away = cluster.leader().await % 3 + 1;
    let mut tasks = cluster.put_many(10).await;
    cluster.level().await;
    let before = cluster.store(away).view();
    let mut events = cluster.store(away).events();
    cluster.cut(away);
    tasks.extend(cluster.put_many(60).await);
    let index = purge(&cluster).await;
    assert!(status(&cluster.store(away)).last_log < index);
    cluster.heal(away);
    tasks.extend(cluster.put_many(40).await);
    cluster.level().await;
    let caught_up = cluster.store(away);
    assert!(status(&caught_up).snapshot >= index, "it took the log's way");
    assert!(tasks.iter().all(|task| has(&caught_up, *task)));
    // Whoever reads the events learns that it must look at the tables again.
    let told = async { while !events.recv().await.unwrap().read_again() {} };
    tokio::time::timeout(PATIENCE, told).await.expect("the events tell of the snapshot");
    // A view from before still shows what it showed, though its database has been replaced.
    assert!(tasks[..10].iter().all(|task| before.has::<SpecTable>(task).unwrap()));
    assert!(!before.has::<SpecTable>(&tasks[10]).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarts_from_an_installed_snapshot() {
    let mut cluster = short_log().boot().await;
    let away = cluster.leader().await % 3 + 1;
    cluster.stop(away).await;
    let mut tasks = cluster.put_many(60).await;
    purge(&cluster).await;
    cluster.open(away).await.unwrap();
    cluster.level().await;
    cluster.stop(away).await;
    tasks.extend(cluster.put_many(3).await);
    cluster.open(away).await.unwrap();
    cluster.level().await;
    assert!(tasks.iter().all(|task| has(&cluster.store(away), *task)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_kept_over_a_restart_and_older_ones_go() {
    let mut cluster = short_log().boot().await;
    cluster.put_many(20).await;
    let first = purge(&cluster).await;
    let leader = cluster.leader().await;
    cluster.put_many(20).await;
    let second = cluster.store(leader).snapshot_now(PATIENCE).await.unwrap();
    assert!(second > first);
    cluster.stop(leader).await;
    let kept = std::fs::read_dir(cluster.dir(leader).join("snapshots")).unwrap().count();
    assert_eq!(kept, 1, "the older snapshot is gone");
    cluster.open(leader).await.unwrap();
    assert_eq!(status(&cluster.store(leader)).snapshot, second);
    cluster.level().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_snapshotted_and_purged_without_being_asked() {
    let mut cluster = short_log();
    cluster.snapshot.log_bytes = 10_000;
    let cluster = cluster.boot().await;
    let leader = cluster.store(cluster.leader().await);
    eventually("a snapshot by size", async || {
        cluster.put_many(10).await;
        status(&leader).snapshot > 0 && status(&leader).purged > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_is_no_missing_one() {
    let mut cluster = short_log().boot().await;
    cluster.put_many(20).await;
    let leader = cluster.leader().await;
    cluster.store(leader).snapshot_now(PATIENCE).await.unwrap();
    cluster.stop(leader).await;
    let root = cluster.dir(leader).join("snapshots");
    let dir = std::fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let list = dir.join("snapshot");
    let mut bytes = std::fs::read(&list).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(list, bytes).unwrap();
    let opened = cluster.open(leader).await;
    assert!(matches!(&opened, Err(OpenError::Storage(why)) if why.contains("damaged")), "{opened:?}");
}

/// The list of the one snapshot that a node keeps.
fn manifest(cluster: &Cluster, slot: u64) -> Manifest {
    let mut kept = std::fs::read_dir(cluster.dir(slot).join("snapshots")).unwrap();
    let list = kept.next().unwrap().unwrap().path().join("snapshot");
    codec::decode(Schema::SnapshotManifest, &std::fs::read(list).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_has_applied_is_not_sent_to_it_again() {
    let cluster = short_log().boot().await;
    cluster.put_many(10).await;
    purge(&cluster).await;
    cluster.level().await;
    let leader = cluster.leader().await;
    let to = leader % 3 + 1;
    let birth = async |slot: u64| super::boot::probe(&cluster.store(slot)).await.birth;
    let envelope = RpcEnvelope {
        cluster: "test".into(),
        target: to,
        target_birth: birth(to).await,
        from: leader,
        from_birth: birth(leader).await,
    };
    eventually("a follower that says so", async || {
        let vote = StoredVote { term: status(&cluster.store(leader)).term, node: leader, committed: true };
        let begin = SendSnapshot::Begin { vote, manifest: Box::new(manifest(&cluster, leader)) };
        let body = message::request(&begin).unwrap();
        let sent = cluster.store(to).handle_rpc(RpcKind::Snapshot, envelope.clone(), body).await.unwrap();
        let reply: SnapshotReply = message::read_reply(&sent).unwrap();
        matches!(reply, SnapshotReply::Done(held) if held == vote)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_begins_behind_the_snapshot_gets_a_new_one_before_the_node_starts() {
    let mut cluster = short_log().boot().await;
    cluster.put_many(10).await;
    let slot = cluster.leader().await % 3 + 1;
    cluster.store(slot).snapshot_now(PATIENCE).await.unwrap();
    cluster.put_many(10).await;
    cluster.level().await;
    let first = status(&cluster.store(slot)).snapshot;
    cluster.stop(slot).await;
    // As a crash leaves it that came between the tables and the log.
    let mut opened = None;
    eventually("a closed log", async || {
        opened = LogStore::open(&cluster.dir(slot).join("raft"), 0, &environment()).ok();
        opened.is_some()
    })
    .await;
    let mut log = opened.unwrap();
    let last = log.state().last_log_id.unwrap();
    log.purge(last).await.unwrap();
    drop(log);
    assert!(last.index > first);
    let store = cluster.open(slot).await.unwrap();
    assert!(status(&store).snapshot >= last.index, "nobody could be told what is between");
    cluster.level().await;
}
