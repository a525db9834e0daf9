//! What users of other schedulers met with new leaders, on real processes: each case is named in its test.

use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::load::Load;
use orloj_tests::process::until;
use orloj_tests::setup::pick;
use orloj_tests::sink::Sink;
use orloj_wire::rest::{BackoffMs, Retry, Submit};
use orloj_wire::time::Time;
use serde_json::json;

use super::jobs::job;
use super::replica_data::SHORT_LOG;

const PATIENCE: Duration = Duration::from_secs(120);

fn quick(_: &str, _: usize) -> u16 {
    204
}

async fn fired(client: &Client, id: &str) -> u64 {
    client.job(id).await.map_or(0, |job| job.state.counts.fired)
}

async fn submit(client: &Client, task: &Submit) -> String {
    client.submit(task, None).await.expect("it is taken").task_id
}

/// An executor is a black hole and a receiver of callbacks is dead before the leader dies: the next leader fires, tries
/// again, times out and announces all the same.
#[tokio::test(flavor = "multi_thread")]
async fn b15_a_new_leader_begins_all_of_its_work_whatever_is_broken_outside() {
    let (dead, sink) = (Sink::start(quick).await, Sink::start(quick).await);
    let (dead_url, callback_ports) = (dead.url(), vec![dead.port, sink.port]);
    drop(dead);
    let cluster = Cluster::start(Setup { callback_ports, ..Setup::default() }).await;
    let client = cluster.client();
    client.put_job("beat", &job("beat", 500, "fireOnce", "allow", json!({})), Some(0)).await.expect("a job");
    let announced =
        |url: &str| Submit { callback_url: Some(url.to_owned()), ..Submit::new("echo", json!({})) };
    submit(&client, &announced(&dead_url)).await;
    until("the job fires", PATIENCE, async || fired(&client, "beat").await >= 3).await;
    cluster.pause(&cluster.executor(0));
    cluster.kill(&cluster.replica(cluster.leader().await)).await;

    let before = fired(&client, "beat").await;
    until("the job goes on firing", PATIENCE, async || fired(&client, "beat").await >= before + 10).await;
    let retry = Retry { max_retries: 2, backoff_ms: vec![BackoffMs(100)], ..Retry::default() };
    let fails = submit(&client, &Submit { retry: Some(retry), ..Submit::new("fail", json!({})) }).await;
    let once = Retry { max_retries: 0, ..Retry::default() };
    let slow = Submit {
        timeout_ms: Some(500),
        retry: Some(once),
        ..Submit::new("sleep", json!({"durationMs": 60_000}))
    };
    let slow = submit(&client, &slow).await;
    let heard = submit(&client, &announced(&sink.url())).await;
    let fails = client.wait(&fails, PATIENCE).await.expect("it ends");
    assert_eq!(fails.status, "FAILED", "{fails:?}");
    let slow = client.wait(&slow, PATIENCE).await.expect("it ends");
    assert_eq!(slow.status, "FAILED", "{slow:?}");
    until("its end is announced", PATIENCE, async || {
        sink.arrived().contains_key(&heard.replacen("tsk_", "evt_", 1))
    })
    .await;
}

/// A replica that had to be given a snapshot comes to lead while delays are overdue: each of them runs, and once.
#[tokio::test(flavor = "multi_thread")]
async fn b23_what_is_overdue_runs_under_a_leader_that_had_a_snapshot() {
    let cluster = Cluster::start(Setup { set: SHORT_LOG.to_vec(), ..Setup::default() }).await;
    let client = cluster.client();
    let old = cluster.leader().await;
    let away = (old + 1) % 3;
    cluster.kill(&cluster.replica(away)).await;
    let executors = [cluster.executor(0), cluster.executor(1)];
    let mut delayed = Vec::new();
    for number in 0..pick(50, 500) {
        let task = Submit { delay_ms: Some(10_000), ..Submit::new("echo", json!({ "number": number })) };
        delayed.push(submit(&client, &task).await);
    }
    for executor in &executors {
        cluster.kill(executor).await;
    }
    // What only fills the log, and is due in the year 2096.
    let make = |_: &str, _| Submit {
        run_at: Some(Time(4_000_000_000_000)),
        ..Submit::new("echo", json!({ "fill": "x".repeat(2_000) }))
    };
    let running = Load::new(cluster.client(), "away", make).callers(4).start(usize::MAX);
    let purged = async |place: usize| {
        cluster.probe(place).await.and_then(|probe| probe["purged"].as_u64()).unwrap_or_default()
    };
    let before = purged(old).await;
    until("the log has forgotten what the replica needs", PATIENCE, async || {
        purged(cluster.leader().await).await > before + 300
    })
    .await;
    cluster.start_again(&cluster.replica(away), &[]);
    running.stop().await;
    until("all of them are overdue", PATIENCE, async || {
        let Ok(last) = client.get(&delayed[delayed.len() - 1]).await else { return false };
        last.reason.as_deref() == Some("ready")
    })
    .await;
    let id = cluster.ready().replicas[away].id;
    let admin = cluster.admin();
    until("the replica leads", PATIENCE, async || {
        let leads = client.cluster().await.is_ok_and(|view| view.leader == Some(id));
        if !leads {
            // It is refused until the replica has caught up.
            let _refused = admin.transfer(id).await;
        }
        leads
    })
    .await;
    for executor in &executors {
        cluster.start_again(executor, &[]);
    }
    for task in &delayed {
        let task = client.wait(task, PATIENCE).await.expect("it ends");
        // One may have been granted to an executor that nobody missed yet; it never came to anything there.
        let ran = task.attempts.iter().flatten().filter(|attempt| attempt.started_at.is_some()).count();
        assert_eq!((task.status.as_str(), ran), ("SUCCESS", 1), "{task:?}");
    }
}
