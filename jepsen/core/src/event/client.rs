//! What clients ask for and are told.

use serde::{Deserialize, Serialize};

/// A submission. `label` and the request stand in every line of it, `answer` in its `ok`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submit {
    /// The harness's own name of the work, carried in `params.label`: what an executor reports of an unknown
    /// submission can be told by it. Repeats of one submission (same Idempotency-Key) have the same label.
    pub label: String,
    /// The handler.
    pub handler: String,
    /// Due so long after the commit, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Due at an instant, ms since the epoch by the harness's wall clock, which nothing steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at_ms: Option<i64>,
    /// Skipped when not started by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_at_ms: Option<i64>,
    /// The longest an attempt may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Tries after the first for failed and timed-out attempts.
    pub max_retries: u64,
    /// Tries after lost attempts.
    pub max_lost: u64,
    /// Delay before each retry; the last repeats.
    pub backoff_ms: Vec<u64>,
    /// 0-9.
    pub priority: u64,
    /// The Idempotency-Key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// For the handler's idempotency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// How many shards.
    pub shard_total: u64,
    /// It runs once on each executor that has the handler, with one shard for each.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broadcast: bool,
    /// When a shard has failed for good the others are told to stop.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stops_shards: bool,
    /// Tasks that must end first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Edge>,
    /// Its end is to be announced to the sink.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub callback: bool,
    /// Its routing key, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Whether every executor that has the handler may take it: not pinned, and without a routing key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anywhere: Option<bool>,
    /// The behaviour that the parameters ask of the mock executor (`ok`, `fail`, `fail_for_good`, `hang`, …).
    pub behaviour: String,
    /// How long the handler works, in ms.
    pub work_ms: u64,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
}

/// A parent of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Edge {
    /// The parent.
    pub task: String,
    /// On which end of it the child may start: `success`, `completed` or `failure`.
    pub on: String,
}

/// Where the callback of a task stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallbackState {
    /// `waiting`, `pending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was sent.
    pub sends: u64,
    /// When it is sent next, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at_ms: Option<i64>,
    /// Why the last send failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A task as somebody saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskSeen {
    /// Its id.
    pub task_id: String,
    /// `PENDING`, `RUNNING`, `SUCCESS`, `FAILED`, `CANCELLED` or `SKIPPED`.
    pub status: String,
    /// Why it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Grows by one with every change.
    pub version: u64,
    /// The number of the newest attempt.
    pub attempt: u32,
    /// A cancel waits for the executor.
    pub cancel_requested: bool,
    /// Digest of the result, where there is one and it was in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
    /// The error's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// When it was created, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at_ms: Option<i64>,
    /// When it is due, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<i64>,
    /// When it ended, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<i64>,
    /// Where its callback stands, where that was in the answer. It changes without the task's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackState>,
}

impl TaskSeen {
    /// Whether its status is final.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILED" | "CANCELLED" | "SKIPPED")
    }
}

/// A read of one task. A task that does not exist is an `ok` without an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Get {
    /// What was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
    /// A read of the final phase.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// A cancel. A task that has ended refuses it: `fail` with `task_already_terminal`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cancel {
    /// Where it stands after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<TaskSeen>,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct List {
    /// The status asked for, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Which page, from 0.
    pub page: u32,
    /// What was seen, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<TaskSeen>>,
    /// There is another page.
    pub more: bool,
}

/// How much a key may do: told once, when its clients begin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyLimits {
    /// The access key.
    pub key: String,
    /// Calls a second, all together.
    pub requests_per_s: f64,
    /// Calls at once after a pause.
    pub requests_burst: u32,
    /// Submissions a second.
    pub submits_per_s: f64,
    /// Submissions at once after a pause.
    pub submits_burst: u32,
}

/// One call of a client that asks faster than its key may; told when it was answered. Only whether it was let in is
/// judged, so it is none of the operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Knock {
    /// The access key.
    pub key: String,
    /// Whether it is a submission, which takes from that limit as well.
    pub submits: bool,
    /// When it was sent, on the clock of the history, in ns.
    pub from_ns: u64,
    /// Whether it got past the limits, whatever it was answered then.
    pub let_in: bool,
    /// HTTP status; 0 where nobody answered.
    pub status: u16,
}
