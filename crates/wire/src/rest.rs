//! The bodies of the REST API: what a caller sends and what it gets.
//!
//! Names are camelCase; instants are RFC 3339 ([`Time`]); durations are whole milliseconds with the unit in
//! the name. Requests refuse unknown fields; answers may grow new ones, so a reader ignores what it does
//! not know. The headers that the API adds to HTTP's own are named here too.

mod access;
mod batch;
mod callback;
mod depends;
mod graph;
pub mod job;
pub mod preview;
pub mod reference;
mod sealing;
pub mod step;
mod submit;
pub mod trigger;
pub mod words;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use access::{
    AccessKey, AccessKeys, Audit, AuditRecord, Caller, CallerChanged, Callers, KeyChanged, KeyLimits,
    MadeKey, MadeWebhookSecret, NewKey, PutCaller, WebhookSecretInfo,
};
pub use batch::{BATCH_BODY_LIMIT, BATCH_LIMIT, BatchResult, SubmitBatch, SubmittedBatch};
pub use callback::{Callback, CallbackSend, Callbacks, Redelivering};
pub use depends::{DEPENDS_LIMIT, OnShardFailure, Parent};
pub use graph::{GRAPH_LIMIT, GraphEdge, GraphNode, TaskGraph};
pub use sealing::{Renewed, Sealing};
pub use step::{StepNeed, StepSpec};
pub use submit::{
    BackoffMs, DEFAULT_PRIORITY, DependsOn, DependsOnEnd, MAX_ATTEMPT_MS, MAX_BACKOFF_MS, MAX_DELAY_MS,
    PARAMS_LIMIT, Retry, Strategy, Submit, TEXT_LIMIT,
};

use crate::time::Time;

/// The index of the log up to which the answering replica had applied when it read the answer.
pub const APPLIED_INDEX_HEADER: &str = "orloj-applied-index";
/// On the answer to a repeated submission: `true`.
pub const REPLAYED_HEADER: &str = "idempotency-replayed";
/// Names one request in answers and logs.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The largest request body, in bytes, of any call but a batch ([`BATCH_BODY_LIMIT`]) and a job ([`JOB_BODY_LIMIT`]).
pub const BODY_LIMIT: usize = 256 * 1024;
/// The largest body, in bytes, that says what a job is.
pub const JOB_BODY_LIMIT: usize = 1024 * 1024;
/// A synchronous submission is taken when it is expected to end in less, and answered at the latest then, in ms.
pub const SYNC_LIMIT_MS: u64 = 3_000;
/// The longest that a long poll waits, in ms.
pub const MAX_WAIT_MS: u64 = 30_000;
/// The largest page of a list.
pub const MAX_PAGE: usize = 100;
/// The largest page of the audit.
pub const MAX_AUDIT_PAGE: usize = 500;
/// The largest piece of a log in one answer, in bytes.
pub const MAX_LOG_PIECE: u32 = 256 * 1024;

/// The answer to a submission: 202.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// Where it stands: `PENDING`, or of a repeated submission where it stands by now.
    pub status: String,
    /// Its version.
    pub version: u64,
    /// When it was created.
    pub created_at: Time,
    /// When it is due.
    pub due_at: Time,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// How far a handler says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// 0-100.
    pub percent: u8,
    /// In the handler's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Why a task did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskError {
    /// `failed`, `timedOut`, `lost`, `cancelled`, `expired` or `dependency`.
    pub code: String,
    /// In the handler's or the scheduler's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One try at a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The shard, from 0.
    pub shard_index: u16,
    /// Counted from 1 within the shard.
    pub attempt: u32,
    /// The executor that it was granted to.
    pub executor_id: String,
    /// That executor's life.
    pub incarnation: u64,
    /// The round of the grant.
    pub round: u64,
    /// The log index of the grant.
    pub fence: u64,
    /// When it was granted.
    pub granted_at: Time,
    /// When the handler started, by the executor's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// `succeeded`, `failed`, `timedOut`, `cancelled`, `lost` or `refused`; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What a report said that came after the lease was over; it had no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_outcome: Option<String>,
    /// Of a failure: whether another try could help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// In the handler's or the scheduler's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A task. In a list, `params`, `attempts`, `result`, `logTail` and `checkpoint` are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// What it runs.
    pub handler: String,
    /// `PENDING`, `RUNNING`, `SUCCESS`, `FAILED`, `CANCELLED` or `SKIPPED`; the last four are final.
    pub status: String,
    /// Why it is there, for instance `scheduled` or `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A cancel waits for the executor.
    pub cancel_requested: bool,
    /// Grows with every change.
    pub version: u64,
    /// The number of the newest attempt (of the shard that has had most); 0 before the first.
    pub attempt: u32,
    /// 0-9.
    pub priority: u8,
    /// When it was submitted.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// When it is due; while it waits for a retry, when that is.
    pub due_at: Time,
    /// When its first attempt was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// It must have started by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_at: Option<Time>,
    /// The longest an attempt may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the caller expected it to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_duration_ms: Option<u64>,
    /// When and how often to try again.
    pub retry: Retry,
    /// Labels that the executor must carry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Place on the ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Preferred zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How an executor is chosen.
    pub strategy: Strategy,
    /// Handed to the handler, so that it can be idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Names the work for the executor's memory of outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<String>,
    /// How many shards.
    pub shard_total: u16,
    /// Shards that succeeded.
    pub shards_succeeded: u16,
    /// Shards that run now.
    pub shards_running: u16,
    /// Shards that failed for good.
    #[serde(default)]
    pub shards_failed: u16,
    /// Tasks that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
    /// Of one that was retried by hand: the task that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Of a step of a workflow: the task that stands for the run of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Of a step of a workflow: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// The handler's last word on how far it is; of several shards how far they are together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Bytes of checkpoint saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<u64>,
    /// What the handler returned; of a sharded task the list of the shards' results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// What it waits for while it is `ready`: an executor, or a place below `maxRunning`. In words for people; not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Where its callback stands. Not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// The end of the log of the newest attempt, at most 16 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_tail: Option<String>,
    /// Every attempt that is kept, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

impl Task {
    /// Whether its status is final.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.as_str(), "SUCCESS" | "FAILED" | "CANCELLED" | "SKIPPED")
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    /// Newest first.
    pub tasks: Vec<Task>,
    /// For the next page; absent on the last one. Good for an hour, for the same caller and filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The answer to a cancel: 200 when the task is cancelled, 202 when its executor has been asked to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The task.
    pub task_id: String,
    /// Where it stands.
    pub status: String,
    /// The executor has been asked to stop; the task may still end in another way.
    pub cancel_requested: bool,
    /// The task's version.
    pub version: u64,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// Every attempt of a task that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempts {
    /// The task.
    pub task_id: String,
    /// Oldest first within a shard.
    pub attempts: Vec<Attempt>,
    /// The task's version.
    pub version: u64,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// Where a piece of a log came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogSource {
    /// From the executor that holds the whole log.
    Executor,
    /// The executor cannot be reached: the end of the log as it is kept in the task; offsets count in it.
    Tail,
    /// There is no attempt yet.
    None,
}

/// A piece of an attempt's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogPiece {
    /// The task.
    pub task_id: String,
    /// The shard.
    pub shard_index: u16,
    /// The attempt; 0 when there is none yet.
    pub attempt: u32,
    /// Where the text begins, in bytes of the log.
    pub offset: u64,
    /// The text; bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Where the next piece begins.
    pub next_offset: u64,
    /// Nothing will be added to this attempt's log.
    pub complete: bool,
    /// Where the text came from.
    pub source: LogSource,
}

/// One executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Executor {
    /// Its id.
    pub executor_id: String,
    /// `online`, `suspect` (heartbeats are missing: no new work), `draining`, `offline` or `left`.
    pub state: String,
    /// Its life.
    pub incarnation: u64,
    /// Where it takes pushes.
    pub address: String,
    /// What it can run.
    pub handlers: Vec<String>,
    /// How many attempts it runs at once.
    pub slots: u32,
    /// How many more it takes.
    pub queue: u32,
    /// Base weight on the ring.
    pub weight: u32,
    /// Its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Version of its software.
    pub version: String,
    /// When it registered.
    pub registered_at: Time,
    /// Free slots, by its last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_slots: Option<u32>,
    /// Attempts in its queue, by its last heartbeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u32>,
    /// Load of the last minute as a share of all its cores, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_pct: Option<f64>,
    /// How long ago its last heartbeat came, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_ms: Option<u64>,
}

/// Every executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Executors {
    /// By id.
    pub executors: Vec<Executor>,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// Drains an executor, or takes the drain back. An empty body drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drain {
    /// `false` takes the drain back.
    #[serde(default = "yes")]
    pub on: bool,
}

fn yes() -> bool {
    true
}

/// The answer to [`Drain`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drained {
    /// The executor.
    pub executor_id: String,
    /// Whether it drains now.
    pub draining: bool,
    /// The log index up to which the answering replica had applied.
    pub applied_index: u64,
}

/// The cluster as the answering replica sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The cluster's own id.
    pub cluster_id: String,
    /// The id of the replica that leads and is heard by the replica that answers, or null.
    pub leader: Option<u64>,
    /// The scheduling round.
    pub round: u64,
    /// The Raft term.
    pub term: u64,
    /// Every member.
    pub members: Vec<Member>,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its id; never used again once it is removed.
    pub id: u64,
    /// Where it serves the API.
    pub api: String,
    /// `leader`, `follower`, `candidate`, `learner`, `joining` or `stopped`; `isolated` of a leader that has not heard
    /// a majority for a while; `unknown` when it did not answer.
    pub role: String,
    /// `ok`, `disk_low`, `failed`, or `unreachable` when it did not answer.
    pub state: String,
    /// What it has applied; null when it did not answer.
    pub applied_index: Option<u64>,
    /// Digest of its tables at `appliedIndex`, 16 hex digits; null when it did not answer.
    pub digest: Option<String>,
    /// How many entries it is behind the most advanced member; null when it did not answer.
    pub lag_entries: Option<u64>,
}

/// Moves leadership.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transfer {
    /// The replica that shall lead.
    pub to: u64,
}

/// The answer to [`Transfer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transferred {
    /// The replica that leads now.
    pub leader: u64,
}

/// Adds a replica that has been started without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddMember {
    /// Its internal address, `host:port`.
    pub internal: String,
    /// Where it serves the API, for instance `http://10.0.0.4:8080`.
    pub api: String,
}

/// The answer to adding or removing a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberChanged {
    /// The member.
    pub id: u64,
    /// Whether it belongs to the cluster now.
    pub member: bool,
}
