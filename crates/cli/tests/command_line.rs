//! The command line without a cluster: what it refuses, what it says, and with which code it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const SECRET: &str = "0123456789012345678901234567890123456789";

fn orloj(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orloj")).args(arguments).env_clear().output().unwrap()
}

/// The end of a command that must fail with `code`: what it says on standard error.
fn refused(code: i32, arguments: &[&str]) -> String {
    let output = orloj(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

fn write(dir: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

fn secrets(dir: &Path, mode: u32) -> String {
    let text = format!("cluster-secret = \"{SECRET}\"\nexecutor-secret = \"{SECRET}x\"\n");
    write(dir, "secrets.toml", &text, mode)
}

fn replica(dir: &Path, secrets: &str, more: &str) -> String {
    let data = dir.join("data");
    let text = format!(
        "secrets-file = {secrets:?}\n{more}\n[store]\ndir = {data:?}\n\
         members = [{{ id = 1, internal = \"127.0.0.1:7071\", api = \"http://127.0.0.1:7070\" }}]\n"
    );
    write(dir, "replica.toml", &text, 0o644)
}

#[test]
fn the_configuration_is_shown_with_defaults_and_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let config = replica(dir.path(), &secrets(dir.path(), 0o600), "audience = \"blue\"");
    let output = orloj(&["server", "--config", &config, "--print-config"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(shown.contains("audience = \"blue\"") && shown.contains("tick-ms = 10"), "{shown}");
    assert!(!shown.contains(SECRET));
    let again = write(dir.path(), "again.toml", &shown, 0o644);
    assert!(
        orloj(&["server", "--config", &again, "--print-config"]).status.success(),
        "what is shown is a file"
    );
    let executor =
        format!("id = \"e1\"\ndir = \"d\"\nreplicas = [\"127.0.0.1:7071\"]\nsecret = \"{SECRET}\"\n");
    let executor = write(dir.path(), "executor.toml", &executor, 0o600);
    let output = orloj(&["executor", "--config", &executor, "--print-config"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && shown.contains("id = \"e1\"") && !shown.contains(SECRET),
        "{output:?}"
    );
    assert!(shown.contains("kill-grace-ms = 5000") && shown.contains("slots = "), "{shown}");
}

#[test]
fn a_wrong_configuration_is_named_by_file_key_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = secrets(dir.path(), 0o600);
    let unknown = replica(dir.path(), &secrets, "colour = \"red\"");
    let said = refused(2, &["server", "--config", &unknown]);
    assert!(said.contains("replica.toml") && said.contains("colour"), "{said}");
    let audience = replica(dir.path(), &secrets, "audience = \"Blue!\"");
    let said = refused(2, &["server", "--config", &audience]);
    assert!(said.contains("audience") && said.contains("Blue!"), "{said}");
    let threads = replica(dir.path(), &secrets, "worker-threads = 0");
    let said = refused(2, &["server", "--config", &threads]);
    assert!(said.contains("worker-threads = 0"), "{said}");
    let said = refused(2, &["server", "--config", "/no/such/file.toml"]);
    assert!(said.contains("/no/such/file.toml"), "{said}");
    let executor = write(dir.path(), "executor.toml", "id = \"a b\"\n", 0o600);
    let said = refused(2, &["executor", "--config", &executor]);
    assert!(said.contains("executor.toml") && said.contains("id") && said.contains("a b"), "{said}");
}

#[test]
fn a_log_that_nobody_reads_any_more_neither_ends_nor_hangs_an_executor() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    // Nobody answers there, so that it goes on logging that it is not registered.
    let config = format!(
        "id = \"e1\"\ndir = {folder:?}\nreplicas = [\"127.0.0.1:1\"]\nsecret = \"{SECRET}\"\nlisten = \"127.0.0.1:0\"\n"
    );
    let config = write(dir.path(), "executor.toml", &config, 0o600);
    let mut child = Command::new(env!("CARGO_BIN_EXE_orloj"))
        .args(["executor", "--config", &config])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    log.read_line(&mut first).unwrap();
    drop(log);
    assert!(first.contains("e1"), "{first}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let (tell, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait()));
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(status) => assert!(status.as_ref().unwrap().success(), "{status:?}"),
        Err(_) => {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("it did not stop");
        }
    }
}

#[test]
fn an_open_listener_and_a_readable_secret_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = replica(dir.path(), &secrets(dir.path(), 0o600), "listen = \"0.0.0.0:7070\"");
    let said = refused(2, &["server", "--config", &open]);
    assert!(said.contains("0.0.0.0:7070") && said.contains("--insecure-plaintext"), "{said}");
    let shown = orloj(&["server", "--config", &open, "--insecure-plaintext", "--print-config"]);
    assert!(shown.status.success(), "{shown:?}");
    let readable = replica(dir.path(), &secrets(dir.path(), 0o644), "");
    let said = refused(2, &["server", "--config", &readable]);
    assert!(said.contains("0644") && said.contains("chmod 600"), "{said}");
}

#[test]
fn commands_without_a_cluster_say_what_is_missing() {
    assert!(refused(2, &["task", "list"]).contains("ORLOJ_URL"));
    assert!(refused(2, &["task", "submit", "echo", "--params", "{"]).contains("ORLOJ_URL"));
    assert!(refused(2, &["frobnicate"]).contains("frobnicate"));
    // Nobody listens on port 1.
    let lost = Command::new(env!("CARGO_BIN_EXE_orloj"))
        .args(["cluster", "status"])
        .env_clear()
        .envs([
            ("ORLOJ_URL", "http://127.0.0.1:1"),
            ("ORLOJ_ACCESS_KEY", "ak_A"),
            ("ORLOJ_SECRET_KEY", SECRET),
        ])
        .env("ORLOJ_DEADLINE_MS", "300")
        .output()
        .unwrap();
    assert_eq!(lost.status.code(), Some(3), "{lost:?}");
    assert!(!String::from_utf8_lossy(&lost.stderr).contains(SECRET));
}

#[test]
fn a_file_of_jobs_is_checked_before_a_cluster_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let bad = write(
        dir.path(),
        "jobs.toml",
        "jobId = \"j\"\nhandler = \"echo\"\n[[triggers]]\nkind = \"cron\"\nexpression = \"0 0 30 2 *\"\n",
        0o644,
    );
    let said = refused(2, &["job", "apply", "-f", &bad]);
    assert!(
        said.contains("jobs.toml: jobs[0]: \"j\"") && said.contains("\n    0 0 30 2 *\n        ^"),
        "{said}"
    );
    let good = write(dir.path(), "good.json", "{\"jobId\": \"j\", \"handler\": \"echo\"}", 0o644);
    assert!(refused(2, &["job", "diff", "-f", &good]).contains("ORLOJ_URL"));
    assert!(refused(2, &["job", "apply", "-f", "no-such-file.yaml"]).contains("no-such-file.yaml"));
    assert!(refused(2, &["job", "preview"]).contains("JOB"));
    let dkron = "[{\"name\": \"a\", \"schedule\": \"@daily\", \"executor\": \"http\", \"executor_config\": {\"url\": \"http://h/\"}}]";
    let dkron = write(dir.path(), "dkron.json", dkron, 0o644);
    let output = orloj(&["job", "import", "--from", "dkron", &dkron, "--dry-run"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("a: would be created"), "{output:?}");
    let json = orloj(&["job", "import", "--from", "dkron", &dkron, "--dry-run", "--json"]);
    assert!(String::from_utf8_lossy(&json.stdout).contains("\"handler\": \"http\""), "{json:?}");
}

#[test]
fn completions_are_printed() {
    let output = orloj(&["completions", "bash"]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("orloj"));
    // `orloj completions bash | head` ends well: nobody reads what is longer than the pipe.
    let mut child = Command::new(env!("CARGO_BIN_EXE_orloj"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
