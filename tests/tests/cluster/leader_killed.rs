//! The leader dies at a random moment while tasks are submitted and run.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::figures::Figures;
use orloj_tests::history::{Footprints, History, faults};
use orloj_tests::load::{Load, listed, outcomes};
use orloj_tests::process::until;
use orloj_tests::setup::{pick, seeded};
use orloj_wire::clock::{Clock as _, SystemClock};
use orloj_wire::rest::{Submit, Task};
use rand::RngExt as _;

/// From the death of the leader to the next grant, at most.
const NEXT_DISPATCH_MS: i64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// Every so many-th task leaves a footprint, since a process of its own costs a lot.
const FOOTPRINT_EVERY: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn leader_killed_figures() {
    let (rounds, count) = pick((3, 400), (20, 2_000));
    let mut chance = seeded("leader_killed");
    let cluster = Cluster::start(Setup::default()).await;
    let mut gaps = Vec::new();
    for round in 0..rounds {
        let at = chance.random_range(count / 10..count * 9 / 10);
        let gap = one_round(&cluster, round, count, at).await;
        println!("round {round}: leader killed after {at} of {count} submissions, next grant after {gap} ms");
        gaps.push(gap);
    }
    assert_eq!(listed(&cluster.client()).await.len(), rounds * count, "one task of each submission");
    cluster.agree(3).await;
    let gaps: Figures = gaps.into_iter().collect();
    println!("figures: next grant after the death of the leader, in ms: {gaps}");
    assert!(gaps.max() <= NEXT_DISPATCH_MS, "{gaps}");
}

/// Returns the time from the kill to the first grant after it, in ms.
async fn one_round(cluster: &Cluster, round: usize, count: usize, at: usize) -> i64 {
    let prints = Footprints::new(&cluster.dir().join(format!("footprints-{round}")));
    let make = {
        let prints = prints.clone();
        move |key: &str, number: usize| match number % FOOTPRINT_EVERY {
            0 => Submit::new("shell", prints.shell(key, "true")),
            _ => Submit::new("echo", serde_json::json!({ "number": number })),
        }
    };
    let running = Load::new(cluster.client(), &format!("round-{round}"), make).start(count);
    until("the load is under way", PATIENCE, async || running.acknowledged() >= at).await;
    let leader = cluster.replica(cluster.leader().await);
    let killed_at = SystemClock::new().wall_ms();
    cluster.kill(&leader).await;
    let history = running.finish().await;
    let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
    check(&history, &tasks, count, &prints);
    cluster.start_again(&leader, &[]);
    cluster.all_answer().await;
    let granted =
        tasks.iter().flat_map(|task| task.attempts.iter().flatten()).map(|attempt| attempt.granted_at.0);
    granted.filter(|at| *at > killed_at).min().expect("something was granted after the kill") - killed_at
}

fn check(history: &History, tasks: &[Task], count: usize, prints: &Footprints) {
    assert_eq!(history.len(), count, "every submission was acknowledged");
    assert_eq!(history.doubled(), Vec::<&String>::new(), "one Idempotency-Key, one task");
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults, for instance {:?}", faults.len(), &faults[..faults.len().min(3)]);
    for (key, task) in history.tasks() {
        let runs = prints.runs(key);
        // No executor died, so no handler had a reason to run again.
        let number: usize =
            key.rsplit('-').next().and_then(|text| text.parse().ok()).expect("a numbered key");
        let wanted = usize::from(number.is_multiple_of(FOOTPRINT_EVERY));
        assert_eq!(runs, wanted, "{key} ({task}) ran {runs} times");
    }
}
