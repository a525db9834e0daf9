//! For tests: a process of our own that works until it is killed with SIGKILL. It is the test binary again,
//! running the same test, which finds a task in its environment and becomes the victim.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The task of the victim, when this process is one.
const TASK: &str = "ORLOJ_TEST_VICTIM";
/// Longest wait for the victim to say its first line.
const PATIENCE: Duration = Duration::from_secs(120);

/// The task that this process was started for, if it is a victim.
pub(crate) fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Says a line to the test that will kill this process.
pub(crate) fn say(line: &str) {
    // One write, so that a kill cuts at most the last line.
    let mut output = std::io::stdout();
    output.write_all(format!("\n@{line}\n").as_bytes()).and_then(|()| output.flush()).unwrap();
}

/// Runs `test` as a victim, kills it so long after its first line, and answers every line that it has said
/// whole.
pub(crate) fn run_and_kill(test: &str, task: &str, after: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let (heard, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        while output.read_line(&mut line).unwrap() > 0 {
            // A line that the kill cut short has no end and is no promise.
            if let Some(said) = line.strip_prefix('@').and_then(|line| line.strip_suffix('\n')) {
                heard.send(said.to_owned()).unwrap();
            }
            line.clear();
        }
    });
    let first = lines.recv_timeout(PATIENCE).expect("the victim gets going");
    // The moment of the kill is what such a test varies.
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    std::iter::once(first).chain(lines.try_iter()).collect()
}
