//! Jobs from the call that stores them to the tasks that they make, also with the leader killed.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::Duration;

use orloj_client::Client;
use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, until};
use orloj_wire::rest::job::{HistoryEntry, JobSpec, PreviewJob, RunJob};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A job that fires so often, whatever happens meanwhile.
fn every(every_ms: u64, max_fires: u64) -> JobSpec {
    let job = json!({"handler": "echo", "params": {"at": "${scheduledAt}"}, "overlap": "allow", "misfire": "fireAll",
                     "triggers": [{"kind": "fixedRate", "everyMs": every_ms, "maxFires": max_fires}]});
    serde_json::from_value(job).unwrap()
}

/// The fires of a job, once there are so many.
async fn fires(client: &Client, job: &str, count: u64) -> Vec<HistoryEntry> {
    until("the job has fired as often as it may", PATIENCE, async || {
        client.job(job).await.is_ok_and(|job| job.state.counts.fired >= count)
    })
    .await;
    let page = client.job_history(job, Some(100), None).await.unwrap();
    page.entries.into_iter().filter(|entry| entry.kind == "fired").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fires_each_instant_once_and_its_tasks_run() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    client.put_job("beat", &every(200, 10), Some(0)).await.unwrap();
    let fired = fires(&client, "beat", 10).await;
    let instants: BTreeSet<_> = fired.iter().map(|entry| entry.scheduled_at.unwrap()).collect();
    assert_eq!((fired.len(), instants.len()), (10, 10), "{fired:?}");
    for entry in &fired {
        let task = client.wait(entry.task_id.as_deref().unwrap(), PATIENCE).await.unwrap();
        assert_eq!(task.status, "SUCCESS", "{task:?}");
        assert_eq!(task.result.unwrap()["at"], entry.scheduled_at.unwrap().to_string(), "its own instant");
    }
    let job = client.job("beat").await.unwrap();
    assert!(job.state.next_fire.is_none(), "it has fired as often as it may: {job:?}");
    assert_eq!(job.state.counts.skipped.values().sum::<u64>(), 0, "{job:?}");
    let run = client.run_job("beat", &RunJob { params: None, overlap: None }, Some("once")).await.unwrap();
    let again = client.run_job("beat", &RunJob { params: None, overlap: None }, Some("once")).await.unwrap();
    assert_eq!(run.task_id, again.task_id);
    the_command_looks_after_jobs(&cluster);
}

#[tokio::test(flavor = "multi_thread")]
async fn b55_the_zone_of_the_machine_is_none_of_the_jobs() {
    let cluster = Cluster::start(Setup::default()).await;
    for place in 0..3 {
        let name = cluster.replica(place);
        cluster.kill(&name).await;
        cluster.start_again(&name, &[("TZ", "Asia/Tokyo")]);
        cluster.all_answer().await;
    }
    // Phoenix knows no summer time: it is always seven hours behind.
    let trigger = json!({"kind": "cron", "expression": "0 48 10 * * *", "timeZone": "America/Phoenix"});
    let mut known = BTreeSet::new();
    for place in 0..3 {
        let (client, id) = (cluster.client_of(&[place], PATIENCE), format!("of-{place}"));
        let job = serde_json::from_value(json!({"handler": "echo", "triggers": [trigger]})).unwrap();
        let made = client.put_job(&id, &job, Some(0)).await.unwrap();
        let listed = client.jobs(Some(100), None).await.unwrap().jobs;
        let listed = listed.iter().find(|job| job.job_id == id).unwrap();
        let previewed = client.preview_job(&id, &PreviewJob::default()).await.unwrap().fires[0].scheduled_at;
        for job in [&made, listed, &client.job(&id).await.unwrap()] {
            let next = job.state.next_fire.as_ref().map(|next| next.scheduled_at);
            assert_eq!(next, Some(previewed), "{job:?}");
        }
        known.insert(previewed.to_string());
    }
    assert!(known.len() <= 2, "at most a day begins meanwhile: {known:?}");
    assert!(known.iter().all(|instant| instant.ends_with("T17:48:00.000Z")), "{known:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_a_killed_leader_swallows_no_instant_and_fires_none_twice() {
    let cluster = Cluster::start(Setup::default()).await;
    let client = cluster.client();
    client.put_job("beat", &every(250, 40), Some(0)).await.unwrap();
    until("it fires", PATIENCE, async || {
        client.job("beat").await.is_ok_and(|job| job.state.counts.fired >= 5)
    })
    .await;
    let leader = cluster.replica(cluster.leader().await);
    cluster.kill(&leader).await;
    let fired = fires(&client, "beat", 40).await;
    let instants: BTreeSet<_> = fired.iter().map(|entry| entry.scheduled_at.unwrap().0).collect();
    assert_eq!((fired.len(), instants.len()), (40, 40), "{fired:?}");
    let (first, last) = (*instants.first().unwrap(), *instants.last().unwrap());
    assert_eq!(last - first, 39 * 250, "every instant of the cadence, without a gap");
}

fn orloj(cluster: &Cluster, arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).envs(cluster.environment(0)).output().unwrap()
}

fn says(output: &Output, code: i32, parts: &[&str]) -> String {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    text
}

const FILE: &str = r#"
calendars:
  - {name: weekend, weekdays: [SAT, SUN]}
jobs:
  - jobId: nightly
    title: Nightly
    handler: echo
    calendars: [weekend]
    params: {day: "${date:%Y-%m-%d}"}
    triggers:
      - {kind: cron, expression: "0 2 * * *", timeZone: Europe/Berlin}
"#;

/// The way of a person through the command line.
fn the_command_looks_after_jobs(cluster: &Cluster) {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let jobs = file("jobs.yaml", FILE);
    says(
        &orloj(cluster, &["job", "diff", "-f", &jobs]),
        1,
        &["calendar weekend: is not there", "job nightly: is not"],
    );
    says(
        &orloj(cluster, &["job", "apply", "-f", &jobs]),
        0,
        &["calendar weekend: created", "job nightly: created"],
    );
    says(&orloj(cluster, &["job", "apply", "-f", &jobs]), 0, &["job nightly: as it is"]);
    says(&orloj(cluster, &["job", "diff", "-f", &jobs]), 0, &["calendar weekend: as it is"]);
    let edited = file("edited.yaml", &FILE.replace("Nightly", "Every night").replace("0 2 *", "0 3 *"));
    let parts = ["~ /title: \"Nightly\" -> \"Every night\"", "~ /triggers/0/expression"];
    says(&orloj(cluster, &["job", "diff", "-f", &edited]), 1, &parts);
    says(&orloj(cluster, &["job", "apply", "-f", &edited]), 0, &["job nightly: changed"]);
    for format in ["toml", "json", "yaml"] {
        let printed = says(&orloj(cluster, &["job", "get", "nightly", "-o", format]), 0, &["Every night"]);
        let printed = file(&format!("nightly.{format}"), &printed);
        says(&orloj(cluster, &["job", "apply", "-f", &printed]), 0, &["job nightly: as it is"]);
    }
    let refused = file("refused.yaml", &FILE.replace("nightly", "nobodys").replace("echo", "nobody-has-it"));
    let parts = ["job nobodys: is not there, and would be refused: handler_unknown"];
    says(&orloj(cluster, &["job", "diff", "-f", &refused]), 4, &parts);
    let parts =
        ["calendar weekend: as it is", "job nobodys: refused: handler_unknown", "1 unchanged, 1 refused"];
    says(&orloj(cluster, &["job", "apply", "-f", &refused]), 4, &parts);
    let bad = file("bad.yaml", &FILE.replace("0 2 * * *", "0 2 30 2 *"));
    says(&orloj(cluster, &["job", "apply", "-f", &bad]), 2, &["/triggers/0/expression", "0 2 30 2 *", "^"]);
    says(&orloj(cluster, &["job", "list"]), 0, &["beat", "nightly", "on"]);
    says(&orloj(cluster, &["job", "get", "nightly"]), 0, &["Every night", "next fire", "weekend"]);
    says(
        &orloj(cluster, &["job", "preview", "nightly", "--from", "2027-03-27T00:00:00Z", "--count", "1"]),
        0,
        &["2027-03-29T01:00:00.000Z", "skipped  2027-03-28T03:00:00+02:00  calendar"],
    );
    says(&orloj(cluster, &["job", "preview", "--cron", "*/90 * * * *"]), 4, &["*/90 * * * *", "\n      ^"]);
    says(
        &orloj(cluster, &["job", "pause", "nightly", "--note", "stocktaking"]),
        0,
        &["paused", "stocktaking"],
    );
    says(&orloj(cluster, &["job", "resume", "nightly"]), 0, &["next fire"]);
    says(&orloj(cluster, &["job", "run", "nightly", "--wait"]), 0, &["SUCCESS"]);
    let history = orloj(cluster, &["job", "history", "nightly", "--json"]);
    let history: Value = serde_json::from_str(&says(&history, 0, &[])).unwrap();
    assert_eq!(history["entries"][0]["cause"], "run", "{history}");
    says(&orloj(cluster, &["job", "backfill", "nightly"]), 5, &["backfill_not_found"]);
    let backfill =
        ["job", "backfill", "nightly", "--from", "2026-01-05T00:00:00Z", "--to", "2026-01-07T12:00:00Z"];
    says(&orloj(cluster, &backfill), 0, &["running"]);
    says(&orloj(cluster, &["calendar", "delete", "weekend"]), 4, &["calendar_in_use"]);
    says(&orloj(cluster, &["calendar", "list"]), 0, &["weekend"]);
    says(&orloj(cluster, &["job", "delete", "nightly", "--version", "1"]), 4, &["version_conflict"]);
    says(&orloj(cluster, &["job", "delete", "nightly"]), 0, &["deleted"]);
    says(&orloj(cluster, &["job", "get", "nightly"]), 5, &["job_not_found"]);
    says(&orloj(cluster, &["calendar", "delete", "weekend"]), 0, &["deleted"]);
    the_command_imports_jobs(cluster, &file("dkron.json", DKRON));
}

const DKRON: &str = r#"[{"name": "old", "schedule": "0 0 3 * * *", "timezone": "UTC", "disabled": true, "owner": "ops",
    "executor": "shell", "executor_config": {"command": "true", "shell": "true"}},
   {"name": "broken", "schedule": "0 0 0 30 2 *", "executor": "shell", "executor_config": {"command": "true"}}]"#;

fn the_command_imports_jobs(cluster: &Cluster, file: &str) {
    let dry = ["job", "import", "--from", "dkron", file, "--dry-run"];
    let parts = ["old: would be created, paused", "does not map: owner", "broken: left out", "1 left out"];
    says(&orloj(cluster, &dry), 4, &parts);
    says(&orloj(cluster, &["job", "get", "old"]), 5, &[]);
    let parts = ["old: created, paused", "1 jobs (1 created), 1 left out"];
    says(&orloj(cluster, &dry[..5]), 4, &parts);
    says(&orloj(cluster, &["job", "get", "old"]), 0, &["paused", "0 0 3 * * *"]);
    says(&orloj(cluster, &dry[..5]), 4, &["old: unchanged", "(1 unchanged)"]);
    let edited = std::fs::read_to_string(file).unwrap().replace("0 0 3", "0 0 4");
    std::fs::write(file, edited).unwrap();
    let update = ["job", "import", "--from", "dkron", file, "--update"];
    says(&orloj(cluster, &dry), 4, &["old: is there already and differs at /triggers/0/expression"]);
    says(&orloj(cluster, &update), 4, &["old: updated, paused", "(1 updated)"]);
    says(&orloj(cluster, &["job", "get", "old"]), 0, &["paused", "0 0 4 * * *"]);
}
