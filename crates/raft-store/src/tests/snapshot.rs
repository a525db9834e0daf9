//! Snapshots between nodes: who was away for longer than the log is kept catches up by one.

use super::*;

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
    let lagged = async { while events.recv().await.is_ok() {} };
    tokio::time::timeout(PATIENCE, lagged).await.expect("the events tell of the snapshot");
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
