//! What executors are told and do.

use serde::{Deserialize, Serialize};

/// Names one grant of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The task.
    pub task: String,
    /// The shard, from 0.
    #[serde(default)]
    pub shard: u16,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The log index of the grant.
    pub fence: u64,
}

/// An executor began a life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorUp {
    /// Its id.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
    /// Slots.
    pub slots: u32,
    /// Queue places.
    pub queue: u32,
    /// It forgot what an earlier life knew (its memory was taken away on purpose).
    pub amnesiac: bool,
}

/// An executor's life ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutorDown {
    /// Its id.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
}

/// An executor told the leader that it has no room for another attempt, or that it has room again.
///
/// Written where what it says (in a heartbeat, or in its answer to a push) differs from what it said last in its life;
/// a life begins with room.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoomSaid {
    /// Its id.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
    /// Whether it has room.
    pub room: bool,
}

/// An executor heard of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundHeard {
    /// Which executor.
    pub executor: String,
    /// Its life.
    pub incarnation: u64,
    /// The round.
    pub round: u64,
    /// The replica that announced it, where it was an announcement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// An attempt in a push.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recv {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Who received it.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// The sender's round.
    pub round: u64,
    /// The sender: a replica's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// When it was due, by the cluster.
    pub due_at_ms: i64,
    /// The harness's name of the work, from the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The job that made the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The instant for which it was made, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled_at_ms: Option<i64>,
    /// `accepted`, `duplicate`, `refused`.
    pub verdict: String,
    /// Of a refusal: `queue_full`, `draining`, `stale_fence`, `stale_round`, `wrong_incarnation`, or a vice's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The wall clock of the harness, ms since the epoch, which nothing steps.
    pub wall_ms: i64,
}

/// An attempt at an executor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptAt {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// The wall clock of the harness, ms since the epoch, which nothing steps.
    pub wall_ms: i64,
}

/// The end of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finish {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// `succeeded`, `failed`, `timedOut`, `cancelled`, `returned`, or `dropped` (ended without a report).
    pub outcome: String,
    /// Of a failure: another try can help.
    pub retryable: bool,
    /// Of a failure: the delay that the handler asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Digest of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
}

/// An executor was told to stop an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CancelRecv {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Where.
    pub executor: String,
    /// `cancelled`, `timedOut` or `leaseLost`.
    pub reason: String,
    /// Whether it held the attempt.
    pub held: bool,
}

/// The answer to a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportAcked {
    /// Which grant.
    #[serde(flatten)]
    pub grant: Grant,
    /// Whose report.
    pub executor: String,
    /// `accepted`, `repeated` or `late`.
    pub verdict: String,
}
