//! What replicas say of themselves, and their tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TaskSeen;

/// What one replica says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Replica id; 0 while it has none.
    pub id: u64,
    /// The life of its data directory.
    pub birth: String,
    /// Its process, counted by the supervisor from 1: what may go back with a restart is told apart by it.
    pub life: u64,
    /// Raft term.
    pub term: u64,
    /// Whom it voted for in that term, where it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vote: Option<u64>,
    /// `leader`, `follower`, `candidate`, `learner`, `joining`, `stopped`.
    pub role: String,
    /// Whom it takes for the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<u64>,
    /// The scheduling round in its table.
    pub round: u64,
    /// The round in which its leader loop serves, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<u64>,
    /// Last index of its log.
    pub last_log: u64,
    /// Last committed index that it knows.
    pub committed: u64,
    /// Last applied index.
    pub applied: u64,
    /// Log entries up to here are purged.
    pub purged: u64,
    /// Last index of its snapshot.
    pub snapshot: u64,
    /// Snapshots installed from a leader since the process began.
    pub snapshots_installed: u64,
    /// Digests of its tables at fixed indexes: index to 16 hex digits.
    #[serde(with = "crate::by_index")]
    pub digests: BTreeMap<u64, String>,
    /// Terms of the last few entries of its log: index to term.
    #[serde(with = "crate::by_index")]
    pub log_terms: BTreeMap<u64, u64>,
    /// Timers in the wheel (leader).
    pub wheel: u64,
    /// What waits for a slot (leader).
    pub waiting: u64,
    /// Running attempts in the leader's view.
    pub running: u64,
    /// Its wall clock minus the harness's, in ms.
    pub wall_offset_ms: i64,
    /// Resident memory in bytes.
    pub rss: u64,
    /// Open files.
    pub fds: u64,
    /// `ok`, `disk_low`, `failed`.
    pub state: String,
}

/// One task of one replica's table at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalTask {
    /// The task.
    #[serde(flatten)]
    pub task: TaskSeen,
    /// Its label, from the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its Idempotency-Key, where the table tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How many shards it has; 0 where that was not told.
    #[serde(skip_serializing_if = "is_zero")]
    pub shard_total: u64,
    /// Of a task of several shards: the digest of each one's result, in the order of the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Every attempt that is kept, oldest first.
    pub attempts: Vec<AttemptRow>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One attempt as the table has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptRow {
    /// The shard.
    pub shard: u16,
    /// The attempt.
    pub attempt: u32,
    /// Granted to.
    pub executor: String,
    /// In which life.
    pub incarnation: u64,
    /// In which round.
    pub round: u64,
    /// The log index of the grant.
    pub fence: u64,
    /// When, by the cluster.
    pub granted_at_ms: i64,
    /// When it ended, by the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// `succeeded`, `failed`, `timedOut`, `cancelled`, `lost`, `refused`; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// What a report said that came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_outcome: Option<String>,
}

/// The end of one replica's table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalTable {
    /// What it had applied.
    pub applied: u64,
    /// Digest of its tables at that index.
    pub digest: String,
    /// How many tasks were read.
    pub tasks: u64,
    /// The table of this other replica, which was read before, has the same digest at the same index: its tasks are
    /// not told again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
}
