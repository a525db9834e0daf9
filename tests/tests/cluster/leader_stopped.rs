//! The leader stands still for longer than its lease, and wakes up believing that it leads.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::{Footprints, faults};
use orloj_tests::load::{Load, outcomes};
use orloj_tests::process::until;
use orloj_wire::rest::Submit;
use tokio::time::{Instant, sleep_until};

const PATIENCE: Duration = Duration::from_secs(120);
const STOPPED: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_hands_nothing_out() {
    let cluster = Cluster::start(Setup::default()).await;
    let prints = Footprints::new(&cluster.dir().join("footprints"));
    let make = {
        let prints = prints.clone();
        move |key: &str, _| Submit::new("shell", prints.shell(key, "sleep 0.02"))
    };
    // The pause spreads the load over the whole time, so that the leader is stopped with grants in its hands.
    let load = Load::new(cluster.client(), "stopped", make).callers(4).pause(Duration::from_millis(40));
    let running = load.start(usize::MAX);
    until("the load is under way", PATIENCE, async || running.acknowledged() >= 50).await;
    let before = cluster.client().cluster().await.unwrap();
    let place = cluster.leader().await;
    let stopped = cluster.replica(place);
    cluster.pause(&stopped);
    let wake = Instant::now() + STOPPED;
    let others: Vec<usize> = (0..3).filter(|other| *other != place).collect();
    let client = cluster.client_of(&others, Duration::from_secs(5));
    let old = before.leader;
    until("another replica leads", PATIENCE, async || {
        client.cluster().await.is_ok_and(|view| view.leader.is_some() && view.leader != old)
    })
    .await;
    sleep_until(wake).await;
    cluster.resume(&stopped);
    let woken = running.acknowledged();
    until("the load goes on", PATIENCE, async || running.acknowledged() >= woken + 50).await;
    let history = running.stop().await;
    let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
    let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} faults, for instance {:?}", faults.len(), &faults[..faults.len().min(3)]);
    assert_eq!(history.doubled(), Vec::<&String>::new());
    for (key, task) in history.tasks() {
        assert_eq!(prints.runs(key), 1, "{key} ({task})");
    }
    let after = cluster.agree(3).await;
    assert!(after.round > before.round, "no new round: {before:?} {after:?}");
    let newest =
        tasks.iter().flat_map(|task| task.attempts.iter().flatten()).map(|attempt| attempt.round).max();
    assert_eq!(newest, Some(after.round), "the new round is in force");
}
