//! `orloj bench` measures what really happened, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use orloj_tests::cluster::alone;
use orloj_tests::process::{binary, send, until};
use orloj_tests::setup::{long, pick};
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::Command;

/// In the long form submissions beside a hammer take at most so many times as long as before it came: half of them, and
/// 95 %. A ratio of one run, since a debug build on any machine says nothing of a time; `orloj bench callers` does.
const SLOWER: [(&str, f64); 2] = [("p50", 5.0), ("p95", 10.0)];
/// For one small run.
const PATIENCE: Duration = Duration::from_secs(120);

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
    let report = bench(dir.path(), &["burst", "--tasks", "200", "--batch", "50", "--lead-s", "8"]).await;
    let run = &report["runs"][0];
    assert_eq!((run["workload"].as_str(), run["seed"].as_u64()), (Some("burst, batch"), Some(7)));
    for (name, want) in [("success", 100.0), ("lost", 0.0), ("duplicates", 0.0), ("early", 0.0)] {
        assert!((figure(run, name) - want).abs() < 1e-9, "{name}: {run}");
    }
    for name in ["whole lives", "submitted", "replicas' CPU per task", "peak memory of one replica"] {
        assert!(figure(run, name) > 0.0, "{name}: {run}");
    }
    assert_eq!(run["faults"], serde_json::json!([]), "{run}");
    assert!(figure(run, "never started").abs() < 1e-9 && figure(run, "looked up") > 199.0, "{run}");
    assert_eq!(run["latencies"]["lateness"]["count"], 200, "every start was recorded: {run}");
    let steps = run["latencies"]["lateness"]["stepsUs"].as_array().unwrap();
    let counted: u64 = steps.iter().map(|step| step[1].as_u64().unwrap()).sum();
    assert_eq!(counted, 200, "the whole histogram is told: {run}");
    assert_eq!(run["latencies"]["end to end"]["count"], 200, "every end was looked up: {run}");
    assert!(run["processes"].as_array().unwrap().len() == 5, "three replicas, load, executors: {run}");
    for ceiling in ["append", "overwrite", "loopback"] {
        assert!(run["ceilings"][ceiling]["perS"].as_f64().unwrap() > 0.0, "{ceiling}: {run}");
    }
    assert!(figure(run, "CPU of everything else on the machine") >= 0.0, "{run}");
    assert!(run["startedAt"].as_str().unwrap().ends_with('Z') && report["version"].is_string(), "{report}");
    let text = report.to_string();
    assert!(!text.contains("sk_") && !text.contains("exs_"), "a secret in the report");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the folder is left as it was");
}

/// The parts of this name that the bench with this process id has started.
fn parts(bench: u32, part: &str) -> Vec<u32> {
    let own = bench.to_string();
    let is_part = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        ["bench-part", part, own.as_str()].iter().all(|word| words.contains(&word.as_bytes()))
    };
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).filter(is_part).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_measured_is_kept_when_a_later_run_breaks() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report.json");
    let mut command = Command::new(binary());
    command.args(["bench", "steady", "--json", "--executors", "1", "--runs", "2", "--seconds", "1"]);
    command.args(["--rate", "20", "--sleep-ms", "1", "--dir"]).arg(dir.path()).arg("--out").arg(&out);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let bench = child.id().unwrap();
    // Before it there is a report without runs.
    let has_run = || {
        let report = fs::read(&out).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        report.is_some_and(|report| report["runs"].as_array().is_some_and(|runs| !runs.is_empty()))
    };
    until("the first run is written", PATIENCE, async || has_run()).await;
    // Whichever load it is: one that measures the machine may end by itself before it is killed.
    let killing = until("the bench ends", PATIENCE, async || {
        parts(bench, "load").into_iter().for_each(|pid| send(pid, Signal::KILL));
        false
    });
    let output = tokio::select! {
        biased;
        output = child.wait_with_output() => output.unwrap(),
        () = killing => panic!("it was not waited for"),
    };
    assert_eq!(output.status.code(), Some(70), "{output:?}");
    let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(report["runs"].as_array().unwrap().len(), 1, "{report}");
    assert!(report["broken"].is_string(), "{report}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, report, "what is printed is what is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_nobody_takes_is_measured_before_and_after_its_leader_is_killed() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let workloads = ["pending", "failover", "--tasks", "60", "--soon", "20", "--ready", "30"];
    let resting = ["--idle-s", "1", "--changes", "1"];
    let killing = ["--kills", "1", "--every-s", "10", "--rate", "20", "--sleep-ms", "1"];
    let report = bench(dir.path(), &[&workloads[..], &resting[..], &killing[..]].concat()).await;
    let (pending, failover) = (&report["runs"][0], &report["runs"][1]);
    for (name, want) in [("pending tasks", 60.0), ("ready tasks", 30.0)] {
        assert!((figure(pending, name) - want).abs() < 1e-9, "{name}: {pending}");
    }
    for name in ["memory of one replica, ready", "restart of one replica", "restart of one replica, killed"] {
        assert!(figure(pending, name) > 0.0, "{name}: {pending}");
    }
    for (name, want) in [("ready tasks that nobody can take", 30.0), ("leaders killed", 1.0), ("lost", 0.0)] {
        assert!((figure(failover, name) - want).abs() < 1e-9, "{name}: {failover}");
    }
    assert!(figure(failover, "kill to next dispatch max") > 0.0, "{failover}");
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
    for name in ["lost", "too many", "duplicates", "early", "open", "skipped, as the API tells it"] {
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
