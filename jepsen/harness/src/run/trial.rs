//! The trial of the business key: one task runs through three changes of the leader and five retries, and its
//! handler follows the recipe of the documents. Its effect must exist exactly once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orloj_jepsen_core::event::{Kind, Submit, What};
use serde_json::json;

use super::around::Around;
use super::stage::Stage;
use crate::agents::recorder::Note;
use crate::hosts::{self, REPLICAS, SINK, SINK_PORT};
use crate::wait::until;

/// The task's business key.
pub const KEY: &str = "trial-1";
/// Tries after the first.
const RETRIES: u32 = 5;
/// Tries that reach the outside world at least: the first and every retry.
pub const TRIES: u64 = 1 + RETRIES as u64;
/// Between two tries, so that all of them spread over the changes of the leader, in ms.
const BACKOFF_MS: u64 = 8_000;
/// For the submission, and for the end of the task after the load.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most losses of an attempt with its executor.
const LOSSES: u32 = 10;
/// The logical process that submits it, none of the clients'.
const PROCESS: u64 = 1_000_000;

/// What the history says of the submission: somebody has asked for the task. What became of that, the trial judges itself.
fn asked() -> Note {
    let submit = Submit {
        label: KEY.to_owned(),
        handler: "http".to_owned(),
        max_retries: u64::from(RETRIES),
        max_lost: u64::from(LOSSES),
        backoff_ms: vec![BACKOFF_MS],
        priority: 5,
        idempotency_key: Some(KEY.to_owned()),
        business_key: Some(KEY.to_owned()),
        shard_total: 1,
        ..Submit::default()
    };
    let note = Note::event(REPLICAS[0], What::Submit(submit));
    Note { proc: PROCESS, kind: Kind::Invoke, key: Some(KEY.to_owned()), ..note }
}

/// A trial that goes on.
pub struct Trial {
    task: String,
}

impl Trial {
    /// Submits the task: it posts to the sink, which takes the effect once under its key and answers with an error
    /// until the last try.
    ///
    /// # Errors
    /// Nobody takes the submission.
    pub fn begin(stage: &Stage, around: &Around<'_>) -> Result<Trial> {
        around.sink_itself().fail_first(KEY, RETRIES);
        let url = format!("http://{}/effect?label={KEY}&key={KEY}", hosts::address(SINK, SINK_PORT));
        let body = json!({
            "handler": "http",
            "params": { "method": "POST", "url": url, "timeoutMs": 3_000 },
            "businessKey": KEY,
            "retry": { "maxRetries": RETRIES, "backoffMs": [BACKOFF_MS], "maxLost": LOSSES },
        });
        stage.run.note(asked());
        let submit = || {
            let admin = &stage.cluster.admin;
            // One key makes one task, at whichever replica it is tried.
            let answers = REPLICAS
                .iter()
                .filter_map(|name| admin.submit(&stage.fabric, name, &body.to_string(), KEY).ok());
            let mut taken = answers.filter(|answer| answer.status == 202);
            Ok(taken.next())
        };
        let answer = until("the trial's task is taken", PATIENCE, submit)?;
        let task: serde_json::Value = serde_json::from_str(&answer.body)?;
        let task = task["taskId"].as_str().context("an answer without a task id")?.to_owned();
        Ok(Trial { task })
    }

    /// Waits for the end of the task, and checks that it took all of its tries and had its effect once.
    ///
    /// # Errors
    /// It did not end well.
    pub fn end(self, stage: &Stage) -> Result<()> {
        let ended = || {
            let task = stage.cluster.admin.task(&stage.fabric, &self.task).ok();
            Ok(task.filter(|task| !matches!(task["status"].as_str(), Some("PENDING" | "RUNNING"))))
        };
        let task = until("the trial's task ends", PATIENCE, ended)?;
        ensure!(task["status"] == "SUCCESS", "the task ended with {}", task["status"]);
        Ok(())
    }
}
