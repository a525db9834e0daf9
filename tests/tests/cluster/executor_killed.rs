//! Executors die, come back, or stand still with work in their hands.

use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::{Footprints, History, faults};
use orloj_tests::load::outcomes;
use orloj_tests::process::until;
use orloj_tests::setup::pick;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::{BackoffMs, Retry, Submit, Task};
use tokio::time::{Instant, sleep_until};

const PATIENCE: Duration = Duration::from_secs(120);
/// With these heartbeats an executor is offline after two seconds of silence.
const QUICK_HEARTBEATS: &str = "scheduler.heartbeat-ms=500";

async fn submit(client: &Client, prints: &Footprints, count: usize, seconds: f32) -> History {
    let mut history = History::default();
    for number in 0..count {
        let key = format!("task-{number}");
        let mut task = Submit::new("shell", prints.shell(&key, &format!("sleep {seconds}")));
        task.retry = Some(Retry { backoff_ms: vec![BackoffMs(100)], ..Retry::default() });
        // Every task has a place of its own on the ring, so that both executors get some.
        task.routing_key = Some(key.clone());
        let submitted = client.submit(&task, Some(&key)).await.unwrap();
        history.acknowledged(&key, &submitted.task_id);
    }
    history
}

/// Waits until `executor` holds one of the tasks.
async fn busy(client: &Client, history: &History, executor: &str) {
    until(&format!("{executor} is busy"), PATIENCE, async || {
        for (_, id) in history.tasks() {
            let task = client.get(id).await.unwrap();
            let mut open = task.attempts.iter().flatten().filter(|attempt| attempt.outcome.is_none());
            if open.any(|attempt| attempt.executor_id == executor) {
                return true;
            }
        }
        false
    })
    .await;
}

/// Attempts of the task on this executor that ended with this outcome.
fn on<'a>(task: &'a Task, executor: &'a str, outcome: &'a str) -> usize {
    let attempts = task.attempts.as_deref().unwrap_or_default().iter();
    attempts.filter(|one| one.executor_id == executor && one.outcome.as_deref() == Some(outcome)).count()
}

/// Attempts whose report came after their lease was over.
fn late_reports(task: &Task) -> usize {
    task.attempts.iter().flatten().filter(|attempt| attempt.late_outcome.is_some()).count()
}

/// When the first attempt after `since` was granted to replace one that was lost on `executor`, in ms.
fn first_regrant(tasks: &[Task], executor: &str, since: i64) -> Option<i64> {
    let lost = tasks.iter().filter(|task| on(task, executor, "lost") > 0);
    let grants = lost.flat_map(|task| task.attempts.iter().flatten()).map(|attempt| attempt.granted_at.0);
    grants.filter(|at| *at > since).min().map(|at| at - since)
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_killed_figures() {
    // The long form keeps the default heartbeats: 5 s, offline after 20 s of silence.
    let set = pick(vec![QUICK_HEARTBEATS], Vec::new());
    let cluster = Cluster::start(Setup { slots: Some(8), set, ..Setup::default() }).await;
    let client = cluster.client();
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let history = submit(&client, &prints, 12, 3.0).await;
    let victim = cluster.executor(0);
    busy(&client, &history, &victim).await;
    let killed_at = SystemClock::new().wall_ms();
    cluster.kill(&victim).await;
    let tasks = outcomes(&client, &history, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let moved = tasks.iter().filter(|task| on(task, &victim, "lost") > 0).count();
    assert!(moved > 0, "nothing was lost with {victim}: {tasks:?}");
    for task in tasks.iter().filter(|task| on(task, &victim, "lost") > 0) {
        assert_eq!(on(task, &cluster.executor(1), "succeeded"), 1, "{task:?}");
    }
    let after = first_regrant(&tasks, &victim, killed_at);
    println!("figures: {moved} tasks moved, the first {after:?} ms after the death of their executor");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_of_an_executor_ends_its_old_attempts_at_once() {
    // Default heartbeats: were it not for the new life, the attempts would be lost only after 20 s.
    let cluster = Cluster::start(Setup { slots: Some(8), ..Setup::default() }).await;
    let client = cluster.client();
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let history = submit(&client, &prints, 12, 2.0).await;
    let victim = cluster.executor(0);
    busy(&client, &history, &victim).await;
    let killed_at = SystemClock::new().wall_ms();
    cluster.kill(&victim).await;
    cluster.start_again(&victim, &[]);
    let tasks = outcomes(&client, &history, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:?}");
    let after = first_regrant(&tasks, &victim, killed_at).expect("attempts were lost with the old life");
    println!("figures: the old attempts ended and ran again {after} ms after the death of their executor");
    assert!(after < 10_000, "ended by silence after {after} ms, not by the new life");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_reports_of_a_stopped_executor_are_refused() {
    let (set, stopped) = pick((vec![QUICK_HEARTBEATS], 6), (Vec::new(), 60));
    let cluster = Cluster::start(Setup { slots: Some(8), set, ..Setup::default() }).await;
    let client = cluster.client();
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let history = submit(&client, &prints, 12, 1.5).await;
    let victim = cluster.executor(0);
    busy(&client, &history, &victim).await;
    cluster.pause(&victim);
    let wake = Instant::now() + Duration::from_secs(stopped);
    let before = outcomes(&client, &history, PATIENCE).await;
    let moved: Vec<&Task> = before.iter().filter(|task| on(task, &victim, "lost") > 0).collect();
    assert!(!moved.is_empty(), "nothing moved away from the stopped executor: {before:?}");
    sleep_until(wake).await;
    cluster.resume(&victim);
    // The shell processes were not stopped, so the executor finds them ended, and reports.
    until("a late report is recorded", PATIENCE, async || {
        let mut late = 0;
        for task in &moved {
            late += client.get(&task.task_id).await.map_or(0, |task| late_reports(&task));
        }
        late > 0
    })
    .await;
    let after = outcomes(&client, &history, PATIENCE).await;
    let faults: Vec<String> = after.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:?}");
    for task in &before {
        let now = after.iter().find(|now| now.task_id == task.task_id).unwrap();
        assert_eq!(
            (&now.status, &now.result, now.finished_at),
            (&task.status, &task.result, task.finished_at)
        );
    }
}
