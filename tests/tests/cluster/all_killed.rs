//! Every replica dies at once, as when the power fails, and comes back.

use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::faults;
use orloj_tests::load::{Load, listed, outcomes};
use orloj_tests::process::{send, until};
use orloj_tests::setup::{pick, seeded};
use orloj_wire::rest::Submit;
use rand::RngExt as _;
use rustix::process::Signal;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_missing_after_all_replicas_died_figures() {
    let (rounds, count) = pick((2, 300), (10, 2_000));
    let mut chance = seeded("all_killed");
    let cluster = Cluster::start(Setup::default()).await;
    let mut answered = 0;
    for round in 0..rounds {
        let at = chance.random_range(count / 10..count * 9 / 10);
        let make = |_: &str, number| Submit::new("echo", serde_json::json!({ "number": number }));
        let running = Load::new(cluster.client(), &format!("power-{round}"), make).start(count);
        until("the load is under way", PATIENCE, async || running.acknowledged() >= at).await;
        let names: Vec<String> = (0..3).map(|place| cluster.replica(place)).collect();
        // All signals first: no replica sees another one die and acts on it.
        names.iter().for_each(|name| send(cluster.pid(name), Signal::KILL));
        for name in &names {
            cluster.kill(name).await;
        }
        let started = Instant::now();
        names.iter().for_each(|name| cluster.start_again(name, &[]));
        cluster.all_answer().await;
        let back = started.elapsed();
        let history = running.finish().await;
        let tasks = outcomes(&cluster.client(), &history, PATIENCE).await;
        assert_eq!((history.len(), tasks.len()), (count, count));
        // A first answer that was lost with the replicas would show here as a task that nobody knows.
        answered += count;
        assert_eq!(listed(&cluster.client()).await.len(), answered, "one task of each submission");
        assert_eq!(history.doubled(), Vec::<&String>::new());
        let faults: Vec<String> = tasks.iter().flat_map(faults).collect();
        assert!(
            faults.is_empty(),
            "{} faults, for instance {:?}",
            faults.len(),
            &faults[..faults.len().min(3)]
        );
        let view = cluster.agree(3).await;
        println!(
            "figures: round {round}: all killed after {at} of {count}, answering after {back:?}, {view:?}"
        );
    }
}
