//! The executor protocol: what crosses the wire between the leader and the executors.
//!
//! Bodies are JSON in camelCase; instants are milliseconds since the Unix epoch; opaque bytes are base64.
//! Both directions are signed ([`crate::sign`]). An executor dials the internal listener of any replica;
//! one that does not lead answers `421 not_leader` with [`NotLeader`].
//!
//! | direction | call | body | answer |
//! |---|---|---|---|
//! | executor → leader | `POST /internal/v1/executors/register` | [`Register`] | [`Registered`] |
//! | executor → leader | `POST /internal/v1/executors/heartbeat` | [`Heartbeat`] | [`HeartbeatAck`] |
//! | executor → leader | `POST /internal/v1/executors/report` | [`Reports`] | [`ReportsAck`] |
//! | executor → leader | `POST /internal/v1/executors/save` | [`Saves`] | [`SavesAck`] |
//! | executor → leader | `POST /internal/v1/executors/leave` | [`Leave`] | empty |
//! | leader → executor | `POST /v1/run` | [`Run`] | [`RunAck`] |
//! | leader → executor | `POST /v1/cancel` | [`Cancel`] | [`CancelAck`] |
//! | leader → executor | `POST /v1/round` | [`AnnounceRound`] | [`Holdings`] |
//! | leader → executor | `POST /v1/log` | [`LogRequest`] | [`LogChunk`] |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The slice of a log and the like: bytes as base64 in JSON.
pub mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes bytes as base64.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    /// Reads bytes from base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }

    /// The same for bytes that may be absent.
    pub mod option {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        use serde::{Deserialize, Deserializer, Serializer};

        /// Writes bytes as base64, or null.
        pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
            match bytes {
                Some(bytes) => serializer.serialize_some(&STANDARD.encode(bytes)),
                None => serializer.serialize_none(),
            }
        }

        /// Reads bytes from base64, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
            match Option::<String>::deserialize(deserializer)? {
                None => Ok(None),
                Some(text) => STANDARD.decode(text).map(Some).map_err(serde::de::Error::custom),
            }
        }
    }
}

/// Names one grant of one attempt. The fence makes it unique for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRef {
    /// The task, `tsk_…`.
    pub task_id: String,
    /// The shard, from 0.
    pub shard_index: u16,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The log index of the grant.
    pub fence: u64,
}

/// An executor introduces itself. Sent at start, and again whenever an answer says `register`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Register {
    /// Its id.
    pub executor_id: String,
    /// Its life; grows with every start (the greater of the last one plus one and the wall clock in ms).
    pub incarnation: u64,
    /// Where it takes pushes: `host:port`.
    pub address: String,
    /// The handlers that it can run.
    pub handlers: Vec<String>,
    /// How many attempts it runs at once, 1-100,000.
    pub slots: u32,
    /// How many attempts it takes beyond its slots, at most 100,000.
    pub queue: u32,
    /// Base weight on the ring.
    pub weight: u32,
    /// Its zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// Labels that tasks may ask for.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Version of its software.
    pub version: String,
    /// Every attempt that it holds, queued or running, and every outcome not yet acknowledged.
    pub holding: Vec<Held>,
}

/// An attempt that an executor holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// Which.
    #[serde(flatten)]
    pub attempt: AttemptRef,
    /// Where it stands there.
    pub state: HeldState,
    /// For how long the handler has been running, by the executor's monotonic clock, in ms.
    #[serde(default)]
    pub running_ms: Option<u64>,
}

/// Where an attempt stands inside its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeldState {
    /// In the queue.
    Queued,
    /// In a slot.
    Running,
    /// Over; its report has not been acknowledged.
    Reporting,
}

/// The answer to a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The round in force.
    pub round: u64,
    /// How often to send heartbeats, in ms.
    pub heartbeat_ms: u64,
    /// Attempts that the executor holds but has no lease for any more: to be stopped and forgotten.
    pub stale: Vec<AttemptRef>,
    /// The internal address of every replica, the leader's first.
    pub replicas: Vec<String>,
}

/// Sent every `heartbeatMs`, and at once when a full executor frees a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The sender.
    pub executor_id: String,
    /// Its life.
    pub incarnation: u64,
    /// The highest round that it has seen. Of one of another round than the leader's nothing is taken: its answer tells the
    /// leader's.
    pub round: u64,
    /// Attempts in the queue and in slots.
    pub holding: Vec<Held>,
    /// Free slots.
    pub free_slots: u32,
    /// Attempts in the queue.
    pub queued: u32,
    /// Load of the last minute as a share of all cores, in per cent; above 100 when overloaded.
    pub cpu_pct: f64,
    /// It is leaving: give it nothing.
    #[serde(default)]
    pub draining: bool,
    /// Counts since the start, by handler.
    #[serde(default)]
    pub handlers: BTreeMap<String, HandlerStats>,
}

/// What an executor has done with one handler since it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandlerStats {
    /// Attempts started.
    pub started: u64,
    /// Attempts that failed or timed out.
    pub failed: u64,
    /// Mean duration in ms over the last 256.
    pub mean_ms: f64,
    /// 95th percentile of the duration in ms over the last 256.
    pub p95_ms: f64,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAck {
    /// The round in force.
    pub round: u64,
    /// The leader does not know this life of the executor: register (again).
    #[serde(default)]
    pub register: bool,
    /// A newer process lives under this id: stop everything and exit.
    #[serde(default)]
    pub superseded: bool,
    /// Attempts without a lease any more: to be stopped and forgotten.
    #[serde(default)]
    pub stale: Vec<AttemptRef>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReportOutcome {
    /// The handler succeeded.
    Succeeded,
    /// The handler failed.
    Failed,
    /// It outran its timeout and was stopped.
    TimedOut,
    /// It was stopped because its task was cancelled.
    Cancelled,
    /// It is handed back without having been started.
    Returned,
}

/// One outcome, sent until it is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Which attempt.
    #[serde(flatten)]
    pub attempt: AttemptRef,
    /// The life that ran it; may be an earlier one of the sender.
    pub incarnation: u64,
    /// How it ended.
    pub outcome: ReportOutcome,
    /// Of a failure: whether another try can help.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// Of a failure: the least delay that the handler asks for, in ms; what is above seven days counts as seven.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    /// In the handler's words; at most 4 KiB.
    #[serde(default)]
    pub message: Option<String>,
    /// What the handler returned: JSON text; at most 64 KiB.
    #[serde(default)]
    pub result: Option<String>,
    /// The end of the log, at most 16 KiB.
    #[serde(default, with = "base64_bytes::option")]
    pub log_tail: Option<Vec<u8>>,
    /// When the handler started.
    #[serde(default)]
    pub started_at: Option<i64>,
    /// When it ended.
    pub ended_at: i64,
}

fn yes() -> bool {
    true
}

/// A batch of outcomes; a sender may lend those that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports<R = Report> {
    /// The sender.
    pub executor_id: String,
    /// At most 256.
    pub reports: Vec<R>,
}

/// What became of one report. Any of them acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReportVerdict {
    /// Committed.
    Accepted,
    /// Committed before.
    Repeated,
    /// Too late: the lease was over. It had no effect.
    Late,
}

/// The answer to [`Reports`], in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportsAck {
    /// One for each.
    pub verdicts: Vec<ReportVerdict>,
    /// The round in force.
    pub round: u64,
}

/// Progress and checkpoint of a running attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Save {
    /// Which attempt.
    #[serde(flatten)]
    pub attempt: AttemptRef,
    /// 0-100.
    #[serde(default)]
    pub percent: Option<u8>,
    /// In the handler's words; at most 1 KiB.
    #[serde(default)]
    pub note: Option<String>,
    /// At most 64 KiB.
    #[serde(default, with = "base64_bytes::option")]
    pub checkpoint: Option<Vec<u8>>,
}

/// A batch of [`Save`]s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saves {
    /// The sender.
    pub executor_id: String,
    /// The highest round that it has seen; 0 where it does not say. A leader of a later one takes nothing, so that
    /// nobody can bring back what was saved under its predecessor.
    #[serde(default)]
    pub round: u64,
    /// At most 256.
    pub saves: Vec<Save>,
}

/// The answer to [`Saves`], in their order: whether each was taken. One that was not has no lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavesAck {
    /// One for each.
    pub taken: Vec<bool>,
}

/// A drained executor says goodbye.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Leave {
    /// The sender.
    pub executor_id: String,
    /// Its life.
    pub incarnation: u64,
}

/// The answer of a replica that does not lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotLeader {
    /// Always `not_leader`.
    pub code: String,
    /// The leader's internal address, where it is known.
    pub leader: Option<String>,
}

/// One attempt, handed to an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dispatch {
    /// Which grant.
    #[serde(flatten)]
    pub attempt: AttemptRef,
    /// How many shards the task has.
    pub shard_total: u16,
    /// The handler.
    pub handler: String,
    /// Its parameters: any JSON.
    pub params: serde_json::Value,
    /// The owner of the task.
    pub caller_id: String,
    /// For the handler's idempotency.
    #[serde(default)]
    pub business_key: Option<String>,
    /// Names the work for the memory of outcomes.
    pub dedupe_key: String,
    /// The longest it may run, in ms, counted from its start.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// When it became due.
    pub due_at: i64,
    /// Of a fire: the scheduled instant.
    #[serde(default)]
    pub scheduled_at: Option<i64>,
    /// Of a fire: the job.
    #[serde(default)]
    pub job_id: Option<String>,
    /// What the attempt before it saved.
    #[serde(default, with = "base64_bytes::option")]
    pub checkpoint: Option<Vec<u8>>,
}

/// A batch of attempts for one executor. May be sent again, also by a later leader: same fence, same grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The executor that is meant; any other refuses the whole batch.
    pub executor_id: String,
    /// The life that is meant.
    pub incarnation: u64,
    /// The sender's round; an older one than the executor has seen is refused.
    pub round: u64,
    /// At most 256, and less than 4 MiB together.
    pub attempts: Vec<Dispatch>,
}

/// What an executor says to one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunVerdict {
    /// It is in the queue.
    Accepted,
    /// It was known: queued, running, or ended (then its report is sent again).
    Duplicate,
    /// No place, draining, no such handler, or a grant that was refused or dropped before.
    Refused,
}

/// The answer to [`Run`]. `409 stale_round`, `409 wrong_executor` and `409 wrong_incarnation` refuse the
/// batch as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAck {
    /// One for each attempt, in their order.
    pub verdicts: Vec<RunVerdict>,
    /// Why the refused ones were: `queue_full`, `draining`, `unknown_handler`, `stale_fence`.
    #[serde(default)]
    pub refusal: Option<String>,
    /// Free slots after it.
    pub free_slots: u32,
    /// Free places in slots and queue after it.
    pub free_places: u32,
}

/// Why attempts shall be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CancelReason {
    /// The task was cancelled: report `cancelled`.
    Cancelled,
    /// It outran its timeout: report `timedOut`.
    TimedOut,
    /// Its lease is over: report nothing.
    LeaseLost,
}

/// Stops attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cancel {
    /// The executor that is meant.
    pub executor_id: String,
    /// The sender's round.
    pub round: u64,
    /// Why.
    pub reason: CancelReason,
    /// Which.
    pub attempts: Vec<AttemptRef>,
}

/// The answer to [`Cancel`], in order: whether the executor held the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelAck {
    /// One for each.
    pub held: Vec<bool>,
}

/// A new leader's round. From its answer on, the executor refuses every older round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnounceRound {
    /// The executor that is meant.
    pub executor_id: String,
    /// The round.
    pub round: u64,
    /// The new leader's internal address.
    pub leader: String,
}

/// Everything that an executor holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holdings {
    /// Its life.
    pub incarnation: u64,
    /// The highest round that it has seen, now at least the announced one.
    pub round: u64,
    /// Queued, running, and ended but not acknowledged.
    pub holding: Vec<Held>,
    /// Free slots.
    pub free_slots: u32,
    /// Free places in slots and queue.
    pub free_places: u32,
    /// It is leaving.
    #[serde(default)]
    pub draining: bool,
}

/// Reads a part of an attempt's whole log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRequest {
    /// The executor that is meant.
    pub executor_id: String,
    /// Which attempt.
    #[serde(flatten)]
    pub attempt: AttemptRef,
    /// From this byte.
    pub offset: u64,
    /// At most so many bytes, up to 256 KiB.
    pub limit: u32,
    /// Waits up to so many ms, at most 20,000, for bytes after `offset` while the attempt runs.
    #[serde(default)]
    pub wait_ms: u64,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogChunk {
    /// The bytes from `offset`.
    #[serde(with = "base64_bytes")]
    pub data: Vec<u8>,
    /// Where the next part begins.
    pub next_offset: u64,
    /// Nothing will be added any more.
    pub complete: bool,
}
