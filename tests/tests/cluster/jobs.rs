//! Jobs fire while leaders die: each instant makes one task or is skipped with a reason, and none comes early.

use std::collections::BTreeSet;
use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::history::faults;
use orloj_tests::process::until;
use orloj_tests::setup::pick;
use orloj_wire::rest::Task;
use orloj_wire::rest::job::{HistoryEntry, JobSpec};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(120);
/// Rows of history in one page.
const PAGE: usize = 100;

pub(super) fn job(id: &str, every_ms: u64, misfire: &str, overlap: &str, params: Value) -> JobSpec {
    serde_json::from_value(json!({
        "jobId": id,
        "handler": "echo",
        "params": params,
        "triggers": [{"kind": "fixedRate", "everyMs": every_ms}],
        "misfire": misfire,
        "misfireGraceMs": 1_000,
        "overlap": overlap,
    }))
    .expect("a job")
}

/// All entries of a job's history, oldest first.
pub(super) async fn history(client: &Client, id: &str) -> Vec<HistoryEntry> {
    let (mut entries, mut token) = (Vec::new(), None);
    loop {
        let page = client.job_history(id, Some(PAGE), token.as_deref()).await.expect("a page");
        entries.extend(page.entries);
        token = page.next_page_token;
        if token.is_none() {
            entries.reverse();
            return entries;
        }
    }
}

/// The instants that fired, with their tasks.
pub(super) fn fired(entries: &[HistoryEntry]) -> Vec<(i64, String)> {
    let fired = |entry: &HistoryEntry| Some((entry.scheduled_at?.0, entry.task_id.clone()?));
    entries.iter().filter_map(fired).collect()
}

/// What is wrong with the record of a job that fires every so often and was watched from its first fire on.
pub(super) fn unaccounted(id: &str, every_ms: i64, entries: &[HistoryEntry]) -> Vec<String> {
    let fired = fired(entries);
    let mut faults = Vec::new();
    let instants: BTreeSet<i64> = fired.iter().map(|(at, _)| *at).collect();
    if instants.len() != fired.len() {
        faults.push(format!("{id}: an instant fired twice"));
    }
    let skipped = |entry: &HistoryEntry| Some((entry.from?.0, entry.to?.0, entry.count?));
    let skips: Vec<_> = entries.iter().filter_map(skipped).collect();
    let ends = fired.iter().map(|(at, _)| *at).chain(skips.iter().map(|(_, to, _)| *to));
    let begins = fired.iter().map(|(at, _)| *at).chain(skips.iter().map(|(from, _, _)| *from));
    let (Some(first), Some(last)) = (begins.min(), ends.max()) else {
        return vec![format!("{id}: it never fired")];
    };
    let there_were = (last - first) / every_ms + 1;
    let told = fired.len() as i64 + skips.iter().map(|(_, _, count)| *count as i64).sum::<i64>();
    if told != there_were {
        faults.push(format!("{id}: {there_were} instants, and its history tells of {told}"));
    }
    faults
}

pub(super) async fn tasks_of(client: &Client, entries: &[HistoryEntry]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (at, task) in fired(entries) {
        let task = client.get(&task).await.expect("a task that its job has made is there");
        let granted = task.attempts.iter().flatten().map(|attempt| attempt.granted_at.0).min();
        assert!(granted.is_none_or(|granted| granted >= at), "{} ran before {at}", task.task_id);
        tasks.push(task);
    }
    tasks
}

/// B06, B13, B19: leaders die while jobs fire, and no instant is lost or made twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_instant_of_a_job_fires_once_or_is_skipped_while_leaders_die() {
    let (count, kills) = pick((12, 2), (100, 10));
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let ids: Vec<String> = (0..count).map(|number| format!("tick-{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        let misfire = ["fireAll", "fireOnce", "skip"][number % 3];
        let params = json!({ "at": "${scheduledAt}" });
        client.create_job(&job(id, 500, misfire, "allow", params)).await.expect("the job is created");
    }
    let fires = async |id: &str| client.job(id).await.map_or(0, |job| job.state.counts.fired);
    for kill in 0..kills {
        until("jobs fire", PATIENCE, async || fires(&ids[0]).await > 4 * (kill + 1)).await;
        let leader = cluster.replica(cluster.leader().await);
        cluster.kill(&leader).await;
        let before = fires(&ids[0]).await;
        until("jobs go on", PATIENCE, async || fires(&ids[0]).await > before).await;
        cluster.start_again(&leader, &[]);
        cluster.all_answer().await;
    }
    for id in &ids {
        client.pause_job(id, Some("that will do")).await.expect("the job is paused");
    }
    for id in &ids {
        let ended = async || client.job(id).await.is_ok_and(|job| job.state.open_tasks == 0);
        until("its tasks end", PATIENCE, ended).await;
        let entries = history(&client, id).await;
        assert_eq!(unaccounted(id, 500, &entries), Vec::<String>::new());
        let tasks = tasks_of(&client, &entries).await;
        let bad: Vec<String> = tasks.iter().flat_map(faults).collect();
        assert!(bad.is_empty(), "{bad:?}");
        for ((at, _), task) in fired(&entries).iter().zip(&tasks) {
            let shown = task.result.as_ref().map(|result| result["at"].to_string()).unwrap_or_default();
            let at = orloj_wire::time::Time(*at).to_string();
            assert!(shown.contains(&at), "a task for {at} was told {shown}");
        }
    }
    cluster.agree(3).await;
}

/// B02, B24, B33: while a task of a job that forbids overlap is open there is no other, whoever leads; what it kept from
/// firing is recorded, and when it has ended the job fires again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_forbids_overlap_has_one_open_task_whoever_leads() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    let mut held = job("held", 500, "fireOnce", "skip", json!({ "durationMs": 4_000 }));
    held.handler = "sleep".to_owned();
    client.create_job(&held).await.expect("the job is created");
    let counts = async || client.job("held").await.map(|job| job.state.counts).unwrap_or_default();
    let skipped = async || counts().await.skipped.values().sum::<u64>();
    until("it is held up", PATIENCE, async || skipped().await >= 2).await;
    let leader = cluster.replica(cluster.leader().await);
    cluster.kill(&leader).await;
    until("its second task is made", PATIENCE, async || counts().await.fired >= 2).await;
    cluster.start_again(&leader, &[]);
    cluster.all_answer().await;
    client.pause_job("held", Some("that will do")).await.expect("the job is paused");
    let ended = async || client.job("held").await.is_ok_and(|job| job.state.open_tasks == 0);
    until("its tasks end", PATIENCE, ended).await;
    let entries = history(&client, "held").await;
    assert_eq!(unaccounted("held", 500, &entries), Vec::<String>::new());
    let tasks = tasks_of(&client, &entries).await;
    for pair in tasks.windows(2) {
        let ended = pair[0].finished_at.expect("it has ended");
        assert!(pair[1].created_at >= ended, "{} and {} overlap", pair[0].task_id, pair[1].task_id);
    }
}
