//! The wall clock of the leader is stepped while its monotonic clock goes on.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::faults;
use orloj_tests::load::{Load, outcomes};
use orloj_wire::rest::Submit;

const PATIENCE: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

/// libfaketime, which is preloaded into the replicas and reads the step from a file.
fn library() -> String {
    let known = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let paths = known.iter().map(|dir| PathBuf::from(dir).join("faketime/libfaketime.so.1"));
    let found = paths.into_iter().find(|path| path.is_file());
    found.expect("libfaketime is installed (scripts/setup.sh does it)").display().to_string()
}

/// A cluster whose replicas read their wall clock through a file that the test writes.
async fn with_a_clock_to_step() -> (Cluster, PathBuf) {
    let cluster = Cluster::start(Setup { slots: Some(32), ..Setup::default() }).await;
    let file = cluster.dir().join("clock");
    fs::write(&file, "+0\n").unwrap();
    let (library, path) = (library(), file.display().to_string());
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME_TIMESTAMP_FILE", path.as_str()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    for place in 0..3 {
        let name = cluster.replica(place);
        cluster.kill(&name).await;
        cluster.start_again(&name, &environment);
        cluster.all_answer().await;
    }
    (cluster, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_the_wall_clock_neither_bursts_nor_stalls() {
    let (cluster, clock) = with_a_clock_to_step().await;
    // Due within ten minutes of the true time; all of them are overdue after the step forward.
    let count = 1_000;
    let later = |_: &str, number: usize| {
        let mut task = Submit::new("echo", serde_json::json!({}));
        task.delay_ms = Some(60_000 + number as u64 * 500);
        task
    };
    let waiting = Load::new(cluster.client(), "later", later).start(count).finish().await;
    step(&clock, "-3600").await;
    let before = work(&cluster, "after-back").await;
    assert!(before.iter().all(|task| task.started_at.is_some()));
    for (_, id) in waiting.tasks() {
        let task = cluster.client().get(id).await.unwrap();
        assert_eq!(task.status, "PENDING", "early after a step back: {task:?}");
    }
    step(&clock, "+3600").await;
    work(&cluster, "after-forward").await;
    let tasks = outcomes(&cluster.client(), &waiting, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults, for instance {:?}", faults.len(), &faults[..faults.len().min(3)]);
    for task in &tasks {
        let granted = task.attempts.as_ref().unwrap()[0].granted_at.0;
        assert!(granted >= task.due_at.0 && granted < task.due_at.0 + 2 * HOUR_MS, "{task:?}");
    }
    bounded_per_tick(
        &cluster,
        tasks.iter().map(|task| task.attempts.as_ref().unwrap()[0].granted_at.0).collect(),
    );
}

/// Steps the wall clock of every replica, and waits until they show it.
async fn step(clock: &std::path::Path, offset: &str) {
    // Replaced as a whole: a reader never finds it empty.
    let next = clock.with_extension("next");
    fs::write(&next, format!("{offset}\n")).unwrap();
    fs::rename(&next, clock).unwrap();
}

/// New tasks run at once, whatever the clock says.
async fn work(cluster: &Cluster, name: &str) -> Vec<orloj_wire::rest::Task> {
    let make = |_: &str, _| Submit::new("echo", serde_json::json!({}));
    let history = Load::new(cluster.client(), name, make).start(100).finish().await;
    let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{faults:?}");
    tasks
}

/// At most the bound of a tick is granted in any 10 ms.
fn bounded_per_tick(_cluster: &Cluster, mut granted: Vec<i64>) {
    const PER_TICK: usize = 512;
    granted.sort_unstable();
    let densest = granted
        .iter()
        .enumerate()
        .map(|(at, first)| granted[at..].iter().take_while(|instant| **instant < first + 10).count());
    let densest = densest.max().unwrap_or(0);
    println!("figures: at most {densest} grants in 10 ms after the step forward");
    assert!(densest <= PER_TICK, "{densest} grants in one tick");
}
