//! `orloj bench` measures what really happened, and leaves nothing behind.

use std::fs;
use std::path::Path;

use orloj_tests::cluster::alone;
use orloj_tests::process::binary;
use orloj_tests::setup::{long, pick};
use serde_json::Value;
use tokio::process::Command;

/// In the long form submissions beside a hammer take at most so many times as long as before it came: half of them, and
/// 95 %. A ratio of one run, since a debug build on any machine says nothing of a time; `orloj bench callers` does.
const SLOWER: [(&str, f64); 2] = [("p50", 5.0), ("p95", 10.0)];

/// Runs `orloj bench` with data in `dir`; returns its JSON.
async fn bench(dir: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(binary());
    command.args(["bench", "--json", "--seed", "7", "--executors", "1", "--dir"]).arg(dir).args(arguments);
    let output = command.kill_on_drop(true).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure(run: &Value, name: &str) -> f64 {
    let figures = run["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.unwrap_or_else(|| panic!("no figure {name} in {run}"))["value"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_burst_is_measured_whole() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let report = bench(dir.path(), &["burst", "--tasks", "200", "--batch", "50", "--lead-s", "1"]).await;
    let run = &report["runs"][0];
    assert_eq!((run["workload"].as_str(), run["seed"].as_u64()), (Some("burst, batch"), Some(7)));
    for (name, want) in [("success", 100.0), ("lost", 0.0), ("duplicates", 0.0), ("early", 0.0)] {
        assert!((figure(run, name) - want).abs() < 1e-9, "{name}: {run}");
    }
    for name in ["whole lives", "submitted", "replicas' CPU per task", "peak memory of one replica"] {
        assert!(figure(run, name) > 0.0, "{name}: {run}");
    }
    assert_eq!(run["latencies"]["lateness"]["count"], 200, "every start was recorded: {run}");
    assert_eq!(run["latencies"]["end to end"]["count"], 200, "every end was looked up: {run}");
    assert!(run["processes"].as_array().unwrap().len() == 5, "three replicas, load, executors: {run}");
    assert!(report["ceilings"]["fdatasync"]["perS"].as_f64().unwrap() > 0.0, "{report}");
    let text = report.to_string();
    assert!(!text.contains("sk_") && !text.contains("exs_"), "a secret in the report");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the folder is left as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_with_keys_are_measured_through_every_replica() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let steady = [
        "steady",
        "--seconds",
        "2",
        "--rate",
        "50",
        "--sleep-ms",
        "10",
        "--idempotency-keys",
        "--via",
        "any",
    ];
    let report = bench(dir.path(), &steady).await;
    let run = &report["runs"][0];
    assert!((figure(run, "success") - 100.0).abs() < 1e-9, "{run}");
    assert_eq!(run["latencies"]["submit"]["count"], 100, "each submission has its latency: {run}");
    assert_eq!(run["latencies"]["lateness"]["count"], 100, "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fire_of_every_job_is_counted_while_leaders_change() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let jobs = ["jobs", "--jobs", "40", "--fires", "10", "--seconds", "4", "--idle-s", "1", "--changes", "1"];
    let report = bench(dir.path(), &jobs).await;
    let run = &report["runs"][0];
    for name in ["lost", "too many", "duplicates", "early", "skipped, as the API tells it"] {
        assert!(figure(run, name).abs() < 1e-9, "{name}: {run}");
    }
    assert!((figure(run, "fires") - 10.0).abs() < 1e-9, "{run}");
    assert_eq!(run["latencies"]["lateness"]["count"], 30, "{run}");
    assert_eq!(run["latencies"]["lateness, all of a second at once"]["count"], 10, "{run}");
    assert!(figure(run, "instants of jobs") > 40.0, "{run}");
    assert!((figure(run, "timers in the wheel") - 40.0).abs() < 1e-9, "a job each: {run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_keeps_to_no_limit_gets_429_and_the_others_nothing_of_it_over_tls() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let (seconds, clients) = pick(("3", "1"), ("20", "4"));
    let callers = [
        "callers",
        "--tls",
        "--keys",
        "5",
        "--rate",
        "10",
        "--seconds",
        seconds,
        "--hammer-clients",
        clients,
        "--sleep-ms",
        "1",
    ];
    let report = bench(dir.path(), &callers).await;
    let run = &report["runs"][0];
    assert!((figure(run, "success") - 100.0).abs() < 1e-9, "{run}");
    for (name, want) in [("lost", 0.0), ("duplicates", 0.0), ("hammer's other failures", 0.0)] {
        assert!((figure(run, name) - want).abs() < 1e-9, "{name}: {run}");
    }
    let submissions = 10 * seconds.parse::<u64>().unwrap();
    for name in ["submit", "submit, beside a hammer"] {
        assert_eq!(run["latencies"][name]["count"], submissions, "{name}: {run}");
    }
    // Few submissions say nothing of a share of them.
    for (share, times) in SLOWER.into_iter().filter(|_| long()) {
        let of = |name: &str| run["latencies"][name][share].as_f64().unwrap();
        let (before, beside) = (of("submit"), of("submit, beside a hammer"));
        assert!(beside <= times * before, "{share}: {before} ms, then {beside} ms: {run}");
    }
    assert!(figure(run, "hammer refused with 429") > 50.0, "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_makes_no_sense_is_told() {
    let rest = "--access-key ak_X --secret-file s --internal 127.0.0.1:2 --executor-secret-file e";
    let cases = [
        ("bench --servers http://127.0.0.1:1".to_owned(), "--secret-file"),
        (format!("bench pending --servers http://127.0.0.1:1 {rest}"), "pending"),
    ];
    for (line, named) in cases {
        let wrong = Command::new(binary()).args(line.split(' ')).output().await.unwrap();
        assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
        let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(told.contains(named), "{told}");
    }
}
