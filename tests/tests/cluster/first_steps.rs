//! What a new user does, and that nothing is left behind.

use std::process::{Command, Output};
use std::time::Duration;

use orloj_tests::cluster::{Cluster, Setup};
use orloj_tests::process::{binary, ended, is_alive, send};
use orloj_wire::rest::Submit;
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

fn orloj(cluster: &Cluster, place: usize, arguments: &[&str]) -> Output {
    let environment = cluster.environment(place);
    Command::new(binary()).args(arguments).envs(environment).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_task_runs_through_every_replica() {
    let cluster = Cluster::start(Setup::default()).await;
    for place in 0..3 {
        let said = format!("hello from {place}");
        let params = json!({"command": format!("echo {said}")}).to_string();
        let submit = ["task", "submit", "shell", "--params", &params, "--wait", "--wait-timeout-ms", "30000"];
        let output = orloj(&cluster, place, &submit);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = stdout(&output);
        assert!(text.contains("SUCCESS") && text.contains(&said), "{text}");
    }
    let list = orloj(&cluster, 1, &["task", "list", "--json"]);
    let tasks: Vec<Value> = serde_json::from_str(&stdout(&list)).unwrap();
    assert_eq!(tasks.len(), 3);
    let status: Value =
        serde_json::from_str(&stdout(&orloj(&cluster, 2, &["cluster", "status", "--json"]))).unwrap();
    assert_eq!(status["members"].as_array().unwrap().len(), 3, "{status}");
    let executors: Value =
        serde_json::from_str(&stdout(&orloj(&cluster, 0, &["executor", "list", "--json"]))).unwrap();
    assert_eq!(executors["executors"].as_array().unwrap().len(), 2, "{executors}");
    the_command_says_what_went_wrong(&cluster);
}

fn the_command_says_what_went_wrong(cluster: &Cluster) {
    let fail = json!({"message": "no", "retryable": false}).to_string();
    let failed =
        orloj(cluster, 0, &["task", "submit", "fail", "--params", &fail, "--retries", "0", "--wait"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let unknown = orloj(cluster, 0, &["task", "get", "tsk_AAECAwQFBgcICQoLDA0ODw"]);
    assert_eq!(unknown.status.code(), Some(5), "{unknown:?}");
    let refused = orloj(cluster, 0, &["task", "submit", "no-such-handler"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let slow = [
        "task",
        "submit",
        "sleep",
        "--params",
        "{\"durationMs\":60000}",
        "--wait",
        "--wait-timeout-ms",
        "100",
    ];
    assert_eq!(orloj(cluster, 0, &slow).status.code(), Some(6));
    let keyless = Command::new(binary()).args(["task", "list"]).env_clear().output().unwrap();
    assert_eq!(keyless.status.code(), Some(2), "{keyless:?}");
    assert!(String::from_utf8_lossy(&keyless.stderr).contains("ORLOJ_URL"), "{keyless:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_on_the_same_folder_goes_on() {
    let mut cluster = Cluster::start(Setup::default()).await;
    let before = cluster.ready().clone();
    let client = cluster.client();
    let now = client.submit(&Submit::new("echo", json!({"n": 1})), None).await.unwrap();
    let done = client.wait(&now.task_id, PATIENCE).await.unwrap();
    let mut later = Submit::new("echo", json!({"n": 2}));
    later.delay_ms = Some(2_000);
    let later = client.submit(&later, None).await.unwrap();
    let status = cluster.stop().await;
    assert!(status.success(), "the supervisor ended: {status}");
    cluster.start_on_the_same_folder().await;
    let after = cluster.ready();
    assert_eq!((&after.access_key, &after.secret_key), (&before.access_key, &before.secret_key));
    assert_eq!(after.replicas[0].api, before.replicas[0].api);
    let client = cluster.client();
    let kept = client.get(&now.task_id).await.unwrap();
    assert_eq!((kept.status.as_str(), kept.result), ("SUCCESS", done.result));
    let later = client.wait(&later.task_id, PATIENCE).await.unwrap();
    assert_eq!(later.status, "SUCCESS", "{later:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_outlives_its_supervisor() {
    let cluster = Cluster::start(Setup::default()).await;
    let pids: Vec<u32> = cluster.ready().pids().collect();
    assert!(pids.len() == 5 && pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    send(cluster.supervisor(), Signal::KILL);
    for pid in pids {
        ended(pid, Duration::from_secs(10)).await;
    }
}
