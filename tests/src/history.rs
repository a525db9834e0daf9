//! What the callers were told, and what became of it: the promises are checked on the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use orloj_wire::rest::Task;

/// Submissions by their Idempotency-Key, and every task id that was ever answered for one.
#[derive(Debug, Clone, Default)]
pub struct History {
    answers: BTreeMap<String, BTreeSet<String>>,
}

impl History {
    /// An answer: this key made this task.
    pub fn acknowledged(&mut self, key: &str, task: &str) {
        self.answers.entry(key.to_owned()).or_default().insert(task.to_owned());
    }

    /// How many submissions were acknowledged.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Keys with more than one task: each is a broken promise.
    pub fn doubled(&self) -> Vec<&String> {
        self.answers.iter().filter(|(_, tasks)| tasks.len() > 1).map(|(key, _)| key).collect()
    }

    /// Key and task of every acknowledged submission.
    pub fn tasks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.answers
            .iter()
            .flat_map(|(key, tasks)| tasks.iter().map(move |task| (key.as_str(), task.as_str())))
    }

    /// Takes in another history.
    pub fn merge(&mut self, other: History) {
        for (key, tasks) in other.answers {
            self.answers.entry(key).or_default().extend(tasks);
        }
    }
}

/// What is wrong with a task that should have succeeded with one accepted attempt. Empty: nothing.
pub fn faults(task: &Task) -> Vec<String> {
    let mut faults = Vec::new();
    let id = &task.task_id;
    if task.status != "SUCCESS" {
        faults.push(format!("{id} ended {} ({:?}), not SUCCESS", task.status, task.error));
    }
    let attempts = task.attempts.as_deref().unwrap_or_default();
    let accepted = attempts.iter().filter(|attempt| attempt.outcome.as_deref() == Some("succeeded")).count();
    if accepted != 1 {
        faults.push(format!("{id} has {accepted} accepted attempts: {attempts:?}"));
    }
    // Both are the cluster's time, whatever the wall clocks say. A retry moves the due time on.
    if let Some(last) = attempts.last().filter(|last| last.granted_at < task.due_at) {
        faults.push(format!("{id} was handed out before it was due at {}: {last:?}", task.due_at));
    }
    let fences: BTreeSet<u64> = attempts.iter().map(|attempt| attempt.fence).collect();
    if fences.len() != attempts.len() {
        faults.push(format!("{id} has two attempts under one fence: {attempts:?}"));
    }
    faults
}

/// A folder in which every run of a handler leaves a line, so that runs can be counted from outside.
#[derive(Debug, Clone)]
pub struct Footprints {
    dir: PathBuf,
}

impl Footprints {
    /// Makes the folder.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn new(dir: &Path) -> Footprints {
        fs::create_dir_all(dir).expect("the folder can be made");
        Footprints { dir: dir.to_owned() }
    }

    /// Parameters of the `shell` handler that leave a footprint for `key`, then run `rest`.
    pub fn shell(&self, key: &str, rest: &str) -> serde_json::Value {
        // One short append is atomic, so two runs leave two lines.
        let command = format!("echo run >> {}; {rest}", self.dir.join(key).display());
        serde_json::json!({ "command": command })
    }

    /// How often the handler has run for `key`.
    pub fn runs(&self, key: &str) -> usize {
        fs::read_to_string(self.dir.join(key)).map_or(0, |text| text.lines().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_of_one_key_are_found() {
        let mut history = History::default();
        history.acknowledged("a", "tsk_1");
        history.acknowledged("a", "tsk_1");
        assert!(history.doubled().is_empty());
        let mut other = History::default();
        other.acknowledged("a", "tsk_2");
        history.merge(other);
        assert_eq!(history.doubled(), vec!["a"]);
        assert_eq!((history.len(), history.tasks().count()), (1, 2));
    }

    fn ended(status: &str, attempts: &[(u64, i64, &str)]) -> Task {
        let time = |ms| orloj_wire::time::Time(ms).to_string();
        let attempt = |(number, (fence, granted_at, outcome)): (usize, &(u64, i64, &str))| {
            serde_json::json!({
                "attempt": number + 1, "executorId": "e1", "incarnation": 1, "round": 1, "fence": fence,
                "grantedAt": time(*granted_at), "outcome": outcome, "shardIndex": 0,
            })
        };
        let attempts: Vec<_> = attempts.iter().enumerate().map(attempt).collect();
        serde_json::from_value(serde_json::json!({
            "taskId": "tsk_1", "handler": "echo", "status": status, "version": 4, "priority": 5,
            "cancelRequested": false, "appliedIndex": 9, "shardTotal": 1, "createdAt": time(1_000),
            "attempt": attempts.len(), "retry": orloj_wire::rest::Retry::default(), "strategy": "ring",
            "shardsSucceeded": 1, "shardsRunning": 0,
            "updatedAt": time(3_000), "dueAt": time(2_000), "attempts": attempts,
        }))
        .expect("a task as the API shows it")
    }

    #[test]
    fn every_broken_promise_of_a_task_is_a_fault() {
        let good = [(7, 2_000, "lost"), (8, 2_500, "succeeded")];
        assert_eq!(faults(&ended("SUCCESS", &good)), Vec::<String>::new());
        for (what, status, attempts) in [
            ("it failed", "FAILED", &good[..]),
            ("nothing was accepted", "SUCCESS", &good[..1]),
            ("two were accepted", "SUCCESS", &[(7, 2_000, "succeeded"), (8, 2_500, "succeeded")]),
            ("two under one fence", "SUCCESS", &[(8, 2_000, "lost"), (8, 2_500, "succeeded")]),
            ("handed out early", "SUCCESS", &[(7, 1_999, "succeeded")]),
        ] {
            assert_eq!(faults(&ended(status, attempts)).len(), 1, "{what}");
        }
    }

    #[test]
    fn footprints_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let prints = Footprints::new(&dir.path().join("prints"));
        assert_eq!(prints.runs("k"), 0);
        let params = prints.shell("k", "true");
        for _ in 0..2 {
            let command = params["command"].as_str().unwrap();
            assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
        }
        assert_eq!(prints.runs("k"), 2);
    }
}
