//! `kill -9` of all three nodes at once, under load, while snapshots are taken, logs purged and snapshots
//! installed: whatever was acknowledged is on every node afterwards, and the nodes are equal.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::victim;

const NAME: &str = "tests::crash::what_was_acknowledged_survives_kill_9_of_all_nodes";
const ROUNDS: u64 = 6;
const PROPOSERS: usize = 8;

#[test]
fn what_was_acknowledged_survives_kill_9_of_all_nodes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(task) = victim::task() {
        let (seed, dir) = task.split_once(' ').unwrap();
        runtime.block_on(work_for_ever(Path::new(dir), seed.parse().unwrap()));
    }
    let seed: u64 = rand::random::<u32>().into();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let (mut acknowledged, mut purged) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let task = format!("{} {}", seed + (round << 32), dir.path().display());
        let after = Duration::from_millis(random.random_range(100..1500));
        let lines = victim::run_and_kill(NAME, &task, after);
        acknowledged.extend(lines.iter().filter_map(|line| line.strip_prefix("ack ")).map(named));
        purged = runtime.block_on(check(dir.path(), &acknowledged));
    }
    println!("{} tasks acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 100, "the load never got going: {}", acknowledged.len());
    assert!(purged > 0, "no log was ever purged");
}

fn named(number: &str) -> TaskId {
    TaskId(number.parse::<u128>().unwrap().to_be_bytes())
}

fn short_log(root: &Path) -> Cluster {
    let mut cluster = Cluster::at(root);
    cluster.snapshot.keep_log_entries = 5;
    cluster
}

/// Starts the killed nodes again, here, and looks for everything that was acknowledged. Answers how far the
/// first node's log has been purged.
async fn check(root: &Path, acknowledged: &[TaskId]) -> u64 {
    let mut cluster = short_log(root).boot().await;
    cluster.level().await;
    for (slot, store) in &cluster.stores {
        let lost: Vec<_> = acknowledged.iter().filter(|task| !has(store, **task)).collect();
        assert!(lost.is_empty(), "node {slot} has lost {lost:?}");
    }
    let purged = status(&cluster.store(1)).purged;
    for slot in 1..=3 {
        cluster.stop(slot).await;
    }
    purged
}

/// The process that gets killed: three nodes, proposers, and a follower that is cut off again and again until
/// only a snapshot helps it.
async fn work_for_ever(root: &Path, seed: u64) -> ! {
    let mut random = StdRng::seed_from_u64(seed);
    let cluster = short_log(root).boot().await;
    cluster.next_task.store(seed, Ordering::Relaxed);
    victim::say("ready");
    let propose = async || {
        loop {
            let task = cluster.put().await;
            victim::say(&format!("ack {}", u128::from_be_bytes(task.0)));
        }
    };
    let proposers = futures_util::future::join_all((0..PROPOSERS).map(|_| propose()));
    let disturb = async {
        loop {
            let leader = cluster.leader().await;
            let away = (leader + random.random_range(0..2)) % 3 + 1;
            cluster.cut(away);
            // It fails when the leadership has moved, which is all right.
            drop(cluster.store(leader).snapshot_now(PATIENCE).await);
            cluster.heal(away);
            tokio::time::sleep(Duration::from_millis(random.random_range(20..200))).await;
        }
    };
    tokio::join!(proposers, disturb);
    unreachable!("the work has no end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_while_raft_stops_harm_no_other() {
    let cluster = Cluster::three().await;
    let leader = cluster.store(cluster.leader().await);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64_u64 {
        let store = leader.clone();
        calls.spawn(async move {
            // Some patience for each, from none at all; the last ones see how Raft has ended.
            let patience = Duration::from_micros(50 * number);
            loop {
                if let Ok(Err(error)) = tokio::time::timeout(patience, store.barrier()).await {
                    return error;
                }
                if store.fatal().borrow().is_some() {
                    return store.barrier().await.expect_err("a node with a fault confirms nothing");
                }
                tokio::task::yield_now().await;
            }
        });
    }
    leader.node.faults.raise("for the test");
    while let Some(ended) = tokio::time::timeout(PATIENCE, calls.join_next()).await.expect("every call ends")
    {
        assert!(ended.is_ok(), "a call panicked: {ended:?}");
    }
}
