//! The task: its record, its life, and the one table of allowed transitions.
//!
//! A task is stored in three kinds of rows, so that the hot transitions do not rewrite its parameters:
//! [`TaskSpec`] (what was asked for, never changed), [`TaskState`] (where it stands), and one [`Shard`]
//! per shard (attempts, lease, result).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CallerId, ExecutorId, Fence, Incarnation, Millis, Round, TaskId};

/// The most retries that a task may ask for.
pub const MAX_RETRIES: u8 = 10;
/// The most shards of a task.
pub const MAX_SHARDS: u16 = 1024;
/// The largest result kept in the table, in bytes; the rest stays with the executor.
pub const RESULT_LIMIT: usize = 64 * 1024;
/// The largest log tail kept in the table, in bytes.
pub const LOG_TAIL_LIMIT: usize = 16 * 1024;
/// The largest checkpoint, in bytes.
pub const CHECKPOINT_LIMIT: usize = 64 * 1024;
/// The largest message of an attempt, in bytes.
pub const MESSAGE_LIMIT: usize = 4 * 1024;
/// The most attempts kept in a shard's row: every counted one (retries and losses) and the newest refused.
pub const ATTEMPT_LIMIT: usize = 32;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    /// Waits; [`Reason`] says for what.
    Pending = 1,
    /// At least one shard is leased to an executor.
    Running = 2,
    /// Every shard succeeded. Terminal.
    Success = 3,
    /// A shard failed for good. Terminal.
    Failed = 4,
    /// Cancelled before or while it ran. Terminal.
    Cancelled = 5,
    /// Never run: it expired, or a dependency could not be met. Terminal.
    Skipped = 6,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 6] = [
        Status::Pending,
        Status::Running,
        Status::Success,
        Status::Failed,
        Status::Cancelled,
        Status::Skipped,
    ];

    /// Whether the status is final.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Status::Pending | Status::Running)
    }

    /// The status with this number on disk.
    pub fn from_number(number: u8) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as u8 == number)
    }

    /// The name in the API: upper case.
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Running => "RUNNING",
            Status::Success => "SUCCESS",
            Status::Failed => "FAILED",
            Status::Cancelled => "CANCELLED",
            Status::Skipped => "SKIPPED",
        }
    }

    /// The status with this name in the API.
    pub fn from_name(name: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// Why a task is where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// Nothing to say.
    None,
    /// Pending until its time.
    Scheduled,
    /// Pending until other tasks end.
    Dependencies,
    /// Pending until an executor has a free slot.
    Ready,
    /// Pending until the backoff after a failed attempt is over.
    Retry,
    /// Pending while its job, a trigger of which has queued it, is paused.
    Paused,
    /// Skipped: it had not started by its deadline.
    Expired,
    /// Skipped: a dependency cannot be met any more.
    Dependency,
    /// Cancelled: the backfill that made it was stopped before it had begun.
    BackfillStopped,
}

impl Reason {
    /// The name in the API, or `None` for [`Reason::None`].
    pub fn name(self) -> Option<&'static str> {
        match self {
            Reason::None => None,
            Reason::Scheduled => Some("scheduled"),
            Reason::Dependencies => Some("dependencies"),
            Reason::Ready => Some("ready"),
            Reason::Retry => Some("retry"),
            Reason::Paused => Some("paused"),
            Reason::Expired => Some("expired"),
            Reason::Dependency => Some("dependency"),
            Reason::BackfillStopped => Some("backfillStopped"),
        }
    }
}

/// What happens to a task as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEvent {
    /// An attempt at one of its shards was granted.
    Granted,
    /// No attempt is running any more, and there is more to do.
    Paused,
    /// The last shard succeeded.
    Succeeded,
    /// A shard failed for good.
    FailedForGood,
    /// It was cancelled while pending, or its running attempts confirmed the cancel.
    Cancelled,
    /// Its deadline to first start passed.
    Expired,
    /// A dependency cannot be met any more.
    DependencyLost,
}

/// The transition table: where `event` leads from `from`, or `None` where it is not allowed. Every change
/// of a task's status goes through here.
pub fn transition(from: Status, event: TaskEvent) -> Option<Status> {
    use Status::{Cancelled, Failed, Pending, Running, Skipped, Success};
    match (from, event) {
        (Pending | Running, TaskEvent::Granted) => Some(Running),
        (Running, TaskEvent::Paused) => Some(Pending),
        (Running, TaskEvent::Succeeded) => Some(Success),
        (Running, TaskEvent::FailedForGood) => Some(Failed),
        (Pending | Running, TaskEvent::Cancelled) => Some(Cancelled),
        (Pending, TaskEvent::Expired | TaskEvent::DependencyLost) => Some(Skipped),
        _ => None,
    }
}

/// Where a task came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// Submitted through the API.
    Submission,
    /// Fired by a trigger of a job.
    Fire {
        /// The job.
        job: String,
        /// The scheduled instant.
        scheduled_at: Millis,
    },
    /// A new try of a failed task, asked for through the API.
    RetryOf(TaskId),
    /// A person ran a job now.
    Run {
        /// The job.
        job: String,
        /// The instant at which it was asked for.
        scheduled_at: Millis,
    },
    /// A person had an instant of the past made up for.
    Backfill {
        /// The job.
        job: String,
        /// The scheduled instant.
        scheduled_at: Millis,
    },
    /// A step of a workflow.
    Step {
        /// The job.
        job: String,
        /// The instant that its run stands for.
        scheduled_at: Millis,
        /// The run.
        run: TaskId,
        /// The step's name.
        step: String,
    },
}

impl Origin {
    /// The job that made the task, and the instant that it stands for; `None` of one that was submitted.
    pub fn job(&self) -> Option<(&str, Millis)> {
        match self {
            Origin::Fire { job, scheduled_at }
            | Origin::Run { job, scheduled_at }
            | Origin::Backfill { job, scheduled_at }
            | Origin::Step { job, scheduled_at, .. } => Some((job, *scheduled_at)),
            Origin::Submission | Origin::RetryOf(_) => None,
        }
    }
}

/// On which end of its parent a child may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DependsOn {
    /// The parent succeeded.
    Success,
    /// The parent ended in any way.
    Completed,
    /// The parent failed.
    Failure,
}

/// One parent of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The parent.
    pub task: TaskId,
    /// On which end of it.
    pub on: DependsOn,
}

/// How an executor is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// By the weighted consistent-hash ring.
    Ring,
    /// In turn.
    RoundRobin,
    /// The one with the most free slots in proportion.
    LeastLoaded,
    /// By chance.
    Random,
    /// This one alone.
    Pinned(ExecutorId),
    /// Once on each executor that has the handler.
    Broadcast,
}

/// When and how often to try again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Tries after the first for failed and timed-out attempts; at most [`MAX_RETRIES`].
    pub max_retries: u8,
    /// Delay before each retry in milliseconds; the last repeats.
    pub backoff_ms: Vec<u64>,
    /// Up to so many per cent are added to each delay, by chance.
    pub jitter_pct: u8,
    /// Tries after attempts that were lost with their executor.
    pub max_lost: u8,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { max_retries: 2, backoff_ms: vec![10_000, 30_000, 60_000], jitter_pct: 0, max_lost: 3 }
    }
}

impl RetryPolicy {
    /// The delay before the retry that follows `tries` counted attempts, in milliseconds. `chance` is
    /// 0-1000 and comes from the leader.
    pub fn delay_ms(&self, tries: u32, chance: u16) -> u64 {
        let place = (tries.saturating_sub(1) as usize).min(self.backoff_ms.len().saturating_sub(1));
        let base = self.backoff_ms.get(place).copied().unwrap_or(0);
        let jitter = u128::from(base) * u128::from(self.jitter_pct) * u128::from(chance.min(1000)) / 100_000;
        base.saturating_add(u64::try_from(jitter).unwrap_or(u64::MAX))
    }
}

/// What was asked for. Never changes after the submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The owner.
    pub caller: CallerId,
    /// The access key that submitted it; empty for a fire.
    pub access_key: String,
    /// The handler to run.
    pub handler: String,
    /// Its parameters: JSON as it was submitted.
    #[serde(with = "crate::blob")]
    pub params: Vec<u8>,
    /// Where the task came from.
    pub origin: Origin,
    /// 0-9; orders what waits for a slot.
    pub priority: u8,
    /// Labels that the executor must carry.
    pub labels: BTreeMap<String, String>,
    /// Place on the ring; the handler's name where there is none.
    pub routing_key: Option<String>,
    /// Preferred zone.
    pub zone: Option<String>,
    /// How an executor is chosen.
    pub strategy: Strategy,
    /// Handed to the handler with every attempt, so that it can be idempotent.
    pub business_key: Option<String>,
    /// Names the work for the executor's memory of outcomes; the task id where there is none.
    pub dedupe_key: Option<String>,
    /// When and how often to try again.
    pub retry: RetryPolicy,
    /// The longest an attempt may run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Deadline to first start.
    pub expire_at: Option<Millis>,
    /// How many shards; 1-[`MAX_SHARDS`].
    pub shard_total: u16,
    /// Tasks that must end first.
    pub depends_on: Vec<Dependency>,
    /// Where to announce the end.
    pub callback_url: Option<String>,
    /// How long the caller expects it to take, in milliseconds.
    pub estimated_duration_ms: Option<u64>,
}

impl TaskSpec {
    /// About how many bytes it takes in memory, with all that it points to.
    pub fn bytes(&self) -> usize {
        // What the allocator adds to a text, and the place of a label in its map.
        const TEXT: usize = 16;
        const LABEL: usize = 96;
        let optional =
            [&self.routing_key, &self.zone, &self.business_key, &self.dedupe_key, &self.callback_url];
        let texts: usize = optional.into_iter().flatten().map(|text| TEXT + text.len()).sum();
        let names = self.caller.as_str().len() + self.access_key.len() + self.handler.len() + 4 * TEXT;
        let labels: usize = self.labels.iter().map(|(name, value)| LABEL + name.len() + value.len()).sum();
        let lists = size_of_val(self.depends_on.as_slice()) + size_of_val(self.retry.backoff_ms.as_slice());
        size_of::<TaskSpec>() + self.params.len() + texts + names + labels + lists
    }
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// The owner, again, for the indexes.
    pub caller: CallerId,
    /// The status.
    pub status: Status,
    /// Why.
    pub reason: Reason,
    /// Grows by one with every change.
    pub version: u64,
    /// When it was submitted or fired.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// When it is due (of a retry: when the retry is).
    pub due_at: Millis,
    /// When its first attempt was granted.
    pub started_at: Option<Millis>,
    /// When it became terminal.
    pub finished_at: Option<Millis>,
    /// A cancel was asked for while it ran.
    pub cancel_requested: bool,
    /// The priority, again, for the ready index.
    pub priority: u8,
    /// The deadline to first start, while it is in the expiry index.
    pub expire_at: Option<Millis>,
    /// Parents that have not ended yet.
    pub unmet: u16,
    /// How many shards it has.
    pub shards: u16,
    /// Shards that hold a lease.
    pub running: u16,
    /// Shards that succeeded.
    pub succeeded: u16,
    /// Shards that failed for good.
    pub failed: u16,
}

/// How far a handler says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// 0-100.
    pub percent: u8,
    /// In the handler's words.
    pub note: String,
}

/// The longest delay before a retry that a handler may ask for: seven days, as in a list of backoffs. More is cut down to it.
pub const MAX_RETRY_AFTER_MS: u64 = 7 * 86_400_000;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler succeeded.
    Succeeded,
    /// The handler failed.
    Failed {
        /// Whether another try can help.
        retryable: bool,
        /// The least delay that the handler asks for before the next try, in milliseconds, up to [`MAX_RETRY_AFTER_MS`];
        /// a longer backoff holds all the same.
        retry_after_ms: Option<u64>,
    },
    /// It ran longer than its timeout.
    TimedOut,
    /// It was stopped because its task was cancelled.
    Cancelled,
    /// Its executor went away.
    Lost,
    /// The executor would not take it.
    Refused,
}

impl Outcome {
    /// The name in the API.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed { .. } => "failed",
            Outcome::TimedOut => "timedOut",
            Outcome::Cancelled => "cancelled",
            Outcome::Lost => "lost",
            Outcome::Refused => "refused",
        }
    }
}

/// One try at a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1; never used twice, also not after a refusal.
    pub number: u32,
    /// The executor that it was granted to.
    pub executor: ExecutorId,
    /// That executor's life.
    pub incarnation: Incarnation,
    /// The round of the grant.
    pub round: Round,
    /// The log index of the grant.
    pub fence: Fence,
    /// When it was granted.
    pub granted_at: Millis,
    /// When the handler started, by the executor's clock.
    pub started_at: Option<Millis>,
    /// When it ended, by the executor's clock, or by the leader's where the executor said nothing.
    pub ended_at: Option<Millis>,
    /// How it ended; `None` while its lease is in force.
    pub outcome: Option<Outcome>,
    /// In the handler's or the leader's words.
    pub message: Option<String>,
    /// What its executor reported after the lease was over; without effect.
    pub late_outcome: Option<Outcome>,
}

/// By which clock a shard becomes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum DueClock {
    /// An instant that a person chose: due when the leader's wall clock shows it, so that a step back of
    /// that clock makes it wait.
    Wall = 0,
    /// So long after an event (a delay, a backoff): due by the cluster's time, which a step back does not
    /// hold up.
    Cluster = 1,
}

/// Where a shard stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its parents have not ended yet.
    Blocked,
    /// In the due index: waits for its time.
    Due {
        /// When.
        at: Millis,
        /// By which clock.
        clock: DueClock,
    },
    /// In the ready index: waits for a slot.
    Ready {
        /// Since when.
        since: Millis,
    },
    /// Leased: its last attempt is open.
    Running,
    /// Ended; in no index.
    Done,
}

/// A shard's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Where it stands.
    pub phase: Phase,
    /// The number of the next attempt.
    pub next_attempt: u32,
    /// The attempts, oldest first; at most [`ATTEMPT_LIMIT`].
    pub attempts: Vec<Attempt>,
    /// Failed and timed-out attempts.
    pub failures: u32,
    /// Attempts lost with their executor.
    pub losses: u32,
    /// The handler's last word on how far it is.
    pub progress: Option<Progress>,
    /// Saved by the handler, handed to the next attempt.
    #[serde(with = "crate::blob::option")]
    pub checkpoint: Option<Vec<u8>>,
    /// What the handler returned: JSON, or text in a JSON string.
    #[serde(with = "crate::blob::option")]
    pub result: Option<Vec<u8>>,
    /// The end of its log.
    #[serde(with = "crate::blob::option")]
    pub log_tail: Option<Vec<u8>>,
}

impl Shard {
    /// The attempt whose lease is in force.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.outcome.is_none())
    }

    /// Makes room in the record for one more attempt: refusals go first, they tell least.
    pub(crate) fn make_room(&mut self) {
        if self.attempts.len() < ATTEMPT_LIMIT {
            return;
        }
        let refused = self.attempts.iter().position(|attempt| attempt.outcome == Some(Outcome::Refused));
        self.attempts.remove(refused.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_states_never_change() {
        let events = [
            TaskEvent::Granted,
            TaskEvent::Paused,
            TaskEvent::Succeeded,
            TaskEvent::FailedForGood,
            TaskEvent::Cancelled,
            TaskEvent::Expired,
            TaskEvent::DependencyLost,
        ];
        for from in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
            for event in events {
                assert_eq!(transition(from, event), None, "{from:?} {event:?}");
            }
        }
    }

    #[test]
    fn the_table_of_the_specification() {
        use Status::*;
        for (from, event, to) in [
            (Pending, TaskEvent::Granted, Some(Running)),
            (Pending, TaskEvent::Cancelled, Some(Cancelled)),
            (Pending, TaskEvent::Expired, Some(Skipped)),
            (Pending, TaskEvent::DependencyLost, Some(Skipped)),
            (Pending, TaskEvent::Succeeded, None),
            (Pending, TaskEvent::FailedForGood, None),
            (Running, TaskEvent::Succeeded, Some(Success)),
            (Running, TaskEvent::Paused, Some(Pending)),
            (Running, TaskEvent::FailedForGood, Some(Failed)),
            (Running, TaskEvent::Cancelled, Some(Cancelled)),
            (Running, TaskEvent::Expired, None),
        ] {
            assert_eq!(transition(from, event), to, "{from:?} {event:?}");
        }
    }

    #[test]
    fn b70_the_last_backoff_repeats_and_jitter_is_bounded() {
        let policy = RetryPolicy { jitter_pct: 50, ..RetryPolicy::default() };
        assert_eq!(policy.delay_ms(1, 0), 10_000);
        assert_eq!(policy.delay_ms(2, 0), 30_000);
        assert_eq!(policy.delay_ms(9, 0), 60_000);
        assert_eq!(policy.delay_ms(1, 1000), 15_000);
        assert_eq!(policy.delay_ms(1, u16::MAX), 15_000);
        let none = RetryPolicy { backoff_ms: vec![], ..policy.clone() };
        assert_eq!(none.delay_ms(3, 500), 0);
        let vast = RetryPolicy { backoff_ms: vec![u64::MAX], jitter_pct: 100, ..policy };
        assert_eq!(vast.delay_ms(1, 1000), u64::MAX);
    }
}
