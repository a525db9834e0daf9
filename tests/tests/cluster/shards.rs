//! A task of many shards loses executors on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::Footprints;
use orloj_tests::process::until;
use orloj_tests::setup::pick;
use orloj_wire::rest::{BackoffMs, OnShardFailure, Retry, Strategy, Submit, Task};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(180);
/// With these heartbeats an executor is offline after two seconds of silence.
const QUICK_HEARTBEATS: &str = "scheduler.heartbeat-ms=500";

fn quick_retry(task: &mut Submit) {
    task.retry = Some(Retry { backoff_ms: vec![BackoffMs(100)], ..Retry::default() });
}

/// Executors that hold a shard now.
fn holders(task: &Task) -> BTreeSet<String> {
    let open = task.attempts.iter().flatten().filter(|attempt| attempt.outcome.is_none());
    open.map(|attempt| attempt.executor_id.clone()).collect()
}

/// Shards that have an attempt with this outcome.
fn with(task: &Task, outcome: &str) -> Vec<u16> {
    let attempts = task.attempts.iter().flatten();
    let found = attempts.filter(|attempt| attempt.outcome.as_deref() == Some(outcome));
    found.map(|attempt| attempt.shard_index).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shard_counts_once_although_executors_die() {
    let (executors, shards) = pick((4_u8, 64_u16), (8, 1_024));
    let setup = Setup { executors, slots: Some(4), set: vec![QUICK_HEARTBEATS], ..Setup::default() };
    let cluster = Cluster::start(setup).await;
    let client = cluster.client();
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let mut task = Submit::new("shell", prints.shell("run", "sleep 0.3; printf %s \"$ORLOJ_SHARD_INDEX\""));
    task.shard_total = Some(shards.into());
    quick_retry(&mut task);
    let id = client.submit(&task, None).await.unwrap().task_id;
    until("the shards are spread over every executor", PATIENCE, async || {
        holders(&client.get(&id).await.unwrap()).len() == usize::from(executors)
    })
    .await;
    for place in 0..2 {
        cluster.kill(&cluster.executor(place)).await;
    }
    let task = client.wait(&id, PATIENCE).await.unwrap();
    assert_eq!((task.status.as_str(), task.shards_succeeded), ("SUCCESS", shards), "{:?}", task.error);
    let right: Vec<Value> = (0..shards).map(|shard| json!(shard.to_string())).collect();
    assert_eq!(task.result, Some(Value::Array(right)), "each shard stands once, in its place");
    let succeeded = with(&task, "succeeded");
    assert_eq!(succeeded, (0..shards).collect::<Vec<_>>(), "one attempt of each counts");
    let lost: BTreeSet<u16> = with(&task, "lost").into_iter().collect();
    let tried: BTreeSet<u16> = task
        .attempts
        .iter()
        .flatten()
        .filter(|attempt| attempt.attempt > 1)
        .map(|attempt| attempt.shard_index)
        .collect();
    assert!(!lost.is_empty() && lost == tried, "only what was lost ran again: {lost:?} {tried:?}");
    println!("figures: {} of {shards} shards ran again", lost.len());
    cluster.agree(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_runs_once_on_each_executor_and_a_failing_shard_may_stop_the_others() {
    let setup = Setup { executors: 3, slots: Some(2), set: vec![QUICK_HEARTBEATS], ..Setup::default() };
    let cluster = Cluster::start(setup).await;
    let client = cluster.client();
    let mut task = Submit::new("echo", json!({"hello": "all"}));
    task.strategy = Some(Strategy::Broadcast);
    let id = client.submit(&task, None).await.unwrap().task_id;
    let task = client.wait(&id, PATIENCE).await.unwrap();
    let on: BTreeSet<_> = task.attempts.iter().flatten().map(|one| one.executor_id.clone()).collect();
    assert_eq!((task.status.as_str(), task.shard_total, on.len()), ("SUCCESS", 3, 3), "{task:?}");
    assert_eq!(task.attempts.map(|attempts| attempts.len()), Some(3));

    let command = "if [ $ORLOJ_SHARD_INDEX = 1 ]; then exit 3; fi; sleep 60";
    let mut task = Submit::new("shell", json!({ "command": command }));
    task.shard_total = Some(10);
    task.on_shard_failure = Some(OnShardFailure::Cancel);
    task.retry = Some(Retry { max_retries: 0, ..Retry::default() });
    let id = client.submit(&task, None).await.unwrap().task_id;
    let task = client.wait(&id, PATIENCE).await.unwrap();
    assert_eq!((task.status.as_str(), task.shards_failed), ("FAILED", 1), "{task:?}");
    assert_eq!(task.error.map(|error| error.code), Some("failed".to_owned()));
    assert_eq!(with(&client.get(&id).await.unwrap(), "succeeded"), Vec::<u16>::new());
}
