//! Tasks for later: on time, none lost, none early, and those of next year cost nothing now.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::figures::Figures;
use orloj_tests::history::faults;
use orloj_tests::load::{Load, outcomes};
use orloj_tests::process::memory;
use orloj_tests::setup::pick;
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::Submit;
use orloj_wire::time::Time;

const PATIENCE: Duration = Duration::from_secs(180);
const YEAR_MS: u64 = 365 * 86_400_000;

#[tokio::test(flavor = "multi_thread")]
async fn delayed_tasks_run_on_time_figures() {
    let (count, spread_ms) = pick((1_000_usize, 5_000_i64), (10_000, 30_000));
    let cluster = Cluster::start(Setup { slots: Some(64), ..Setup::default() }).await;
    // All are submitted before the first is due, so that only the wheel decides when they run.
    let submitting_ms = i64::try_from(count).unwrap() * 3 + 3_000;
    let first = SystemClock::new().wall_ms() + submitting_ms;
    let make = move |_: &str, number: usize| {
        let mut task = Submit::new("echo", serde_json::json!({}));
        let at = i64::try_from(number).unwrap() * spread_ms / i64::try_from(count).unwrap();
        task.run_at = Some(Time(first + at));
        task.routing_key = Some(format!("key-{}", number % 97));
        task
    };
    let history = Load::new(cluster.client(), "delayed", make).callers(32).start(count).finish().await;
    let spare = first - SystemClock::new().wall_ms();
    assert!(spare > 0, "submitting took {} ms too long", -spare);
    let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
    assert_eq!(tasks.len(), count);
    let wrong: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(wrong.is_empty(), "{} faults, for instance {:?}", wrong.len(), &wrong[..wrong.len().min(3)]);
    let lateness = |at: fn(&orloj_wire::rest::Attempt) -> Option<Time>| -> Figures {
        let one = |task: &orloj_wire::rest::Task| {
            let start = task.attempts.as_ref().and_then(|attempts| attempts.first()).and_then(at);
            start.expect("it started").0 - task.due_at.0
        };
        tasks.iter().map(one).collect()
    };
    let started = lateness(|attempt| attempt.started_at);
    println!("figures: {count} tasks over {spread_ms} ms, from due to started, in ms: {started}");
    println!(
        "figures: the same, from due to granted, in ms: {}",
        lateness(|attempt| Some(attempt.granted_at))
    );
    assert!(started.min() >= 0, "a task ran {} ms early", -started.min());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_next_year_cost_the_wheel_nothing_figures() {
    let count = pick(2_000, 50_000);
    let cluster = Cluster::start(Setup::default()).await;
    let leader = cluster.leader().await;
    let wheel = async || cluster.probe(leader).await.expect("the leader's probe answers")["wheel"].as_u64();
    let (timers, bytes) = (wheel().await, memory(cluster.pid(&cluster.replica(leader))));
    let make = |_: &str, _| {
        let mut task = Submit::new("echo", serde_json::json!({}));
        task.delay_ms = Some(YEAR_MS);
        task
    };
    let history = Load::new(cluster.client(), "year", make).callers(32).start(count).finish().await;
    assert_eq!(history.len(), count);
    let after = memory(cluster.pid(&cluster.replica(leader)));
    println!(
        "figures: {count} tasks of next year: {} KiB more in the leader",
        after.saturating_sub(bytes) / 1024
    );
    assert!(timers.is_some(), "the probe shows the wheel");
    assert_eq!(wheel().await, timers, "timers for tasks of next year");
    let now = cluster.client().submit(&Submit::new("echo", serde_json::json!({})), None).await.unwrap();
    let now = cluster.client().wait(&now.task_id, PATIENCE).await.unwrap();
    assert_eq!(now.status, "SUCCESS");
}
