//! The replicated vocabulary. Append-only: the order of the variants and of their fields is the format of
//! the log (golden bytes in `tests/golden.rs`), so a new variant goes to the end and a changed meaning is
//! a new variant.

mod access;
mod asked;
mod callback;
mod graph;
mod job;

use serde::{Deserialize, Serialize};

use crate::executor::Registration;
use crate::id::{CalendarName, CallerId, ExecutorId, Fence, Incarnation, Millis, NodeId, Round, TaskId};
use crate::key::ShardKey;
use crate::task::{Outcome, Progress, Status, TaskSpec};
use crate::trigger::SkipReason;

pub use access::AccessCommand;
pub use asked::Asked;
pub use callback::CallbackCommand;
pub use graph::{GraphCommand, MadeStep, PutFlow, Sibling, SubmitGraph};
pub use job::{
    BackfillBy, BackfillFire, Computed, EditJob, Fire, JobCommand, PutJob, PutOfCaller, RunNow, SkipFire,
    StepBackfill,
};

/// What one log entry carries: many changes, stamped once by the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The cluster's time as the leader knew it when it proposed: its wall clock, or what has passed since a clock
    /// that was further ahead was committed.
    pub now_ms: Millis,
    /// The round in which the leader proposed; 0 before its first.
    pub round: Round,
    /// The changes, in order.
    pub changes: Vec<Command>,
}

impl Batch {
    /// The leader's wall clock when it proposed.
    pub fn wall_ms(&self) -> Millis {
        match self.changes.first() {
            Some(Command::WallClock { wall_ms }) => *wall_ms,
            _ => self.now_ms,
        }
    }
}

/// A signed request's nonce, spent by the command that the request asks for (one entry, one effect).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// First 16 bytes of SHA-256(access key LF nonce).
    pub nonce: [u8; 16],
    /// When it may be forgotten: the request's timestamp and 360 s.
    pub expires_at: Millis,
}

/// A caller's Idempotency-Key with what it was first used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The unquoted key.
    pub key: String,
    /// SHA-256 over method, path, query and body of the request.
    pub fingerprint: [u8; 32],
}

/// When a submitted task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DueTime {
    /// At an instant; one that has passed means at once.
    At(Millis),
    /// So many milliseconds after the commit.
    After(u64),
}

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submit {
    /// Chosen by the proposer from the operating system's random numbers.
    pub task: TaskId,
    /// What is asked for.
    pub spec: TaskSpec,
    /// When it is due.
    pub due: DueTime,
    /// The signed request's nonce.
    pub claim: Option<Claim>,
    /// The Idempotency-Key, where the caller sent one.
    pub idempotency: Option<Idempotency>,
}

/// How an executor says an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The shard.
    pub shard: ShardRef,
    /// The attempt.
    pub attempt: u32,
    /// The lease under which it ran.
    pub fence: Fence,
    /// The reporter.
    pub executor: ExecutorId,
    /// The life of the reporter that ran it.
    pub incarnation: Incarnation,
    /// How it ended.
    pub outcome: Outcome,
    /// In the handler's words; at most [`crate::task::MESSAGE_LIMIT`] bytes.
    pub message: Option<String>,
    /// What the handler returned; at most [`crate::task::RESULT_LIMIT`] bytes.
    #[serde(with = "crate::blob::option")]
    pub result: Option<Vec<u8>>,
    /// The end of the log; at most [`crate::task::LOG_TAIL_LIMIT`] bytes.
    #[serde(with = "crate::blob::option")]
    pub log_tail: Option<Vec<u8>>,
    /// When the handler started, by the executor's clock.
    pub started_at: Option<Millis>,
    /// When it ended, by the executor's clock.
    pub ended_at: Option<Millis>,
    /// 0-1000, drawn by the leader, for the jitter of a retry.
    pub chance: u16,
}

/// A shard, named in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRef {
    /// The task.
    pub task: TaskId,
    /// The shard, from 0.
    pub shard: u16,
}

impl From<ShardKey> for ShardRef {
    fn from(key: ShardKey) -> Self {
        ShardRef { task: key.task, shard: key.shard }
    }
}

impl From<ShardRef> for ShardKey {
    fn from(shard: ShardRef) -> Self {
        ShardKey { task: shard.task, shard: shard.shard }
    }
}

/// One change. Those marked *round* are the leader's own and are refused when the round has moved on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A new leader raises the round by one.
    BeginRound {
        /// The new leader.
        leader: NodeId,
    },
    /// A caller submits a task.
    Submit(Box<Submit>),
    /// *Round.* A due shard finds no slot and joins the waiting room.
    MakeReady {
        /// The shard.
        shard: ShardRef,
    },
    /// *Round.* An executor gets the lease of the next attempt.
    Grant {
        /// The shard.
        shard: ShardRef,
        /// The attempt that the leader believes to be next.
        attempt: u32,
        /// The executor.
        executor: ExecutorId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// An executor reports how an attempt ended.
    Report(Box<Report>),
    /// *Round.* The executor would not take the attempt, or hands it back unstarted.
    Requeue {
        /// The shard.
        shard: ShardRef,
        /// The lease that ends.
        fence: Fence,
        /// Why, for the attempt's record.
        message: String,
    },
    /// *Round.* An attempt went away with its executor.
    Lose {
        /// The shard.
        shard: ShardRef,
        /// The lease that ends.
        fence: Fence,
        /// 0-1000, for the jitter of the retry.
        chance: u16,
    },
    /// *Round.* The executor did not stop an attempt that outran its timeout.
    TimeOut {
        /// The shard.
        shard: ShardRef,
        /// The lease that ends.
        fence: Fence,
        /// 0-1000, for the jitter of the retry.
        chance: u16,
    },
    /// *Round.* The deadline to first start passed.
    Expire {
        /// The task.
        task: TaskId,
    },
    /// A caller cancels a task.
    Cancel {
        /// The task.
        task: TaskId,
        /// The caller that asks; `None` for an administrator.
        caller: Option<CallerId>,
        /// The signed request's nonce.
        claim: Option<Claim>,
    },
    /// A running handler says how far it is or saves a checkpoint.
    Save {
        /// The shard.
        shard: ShardRef,
        /// The lease under which it runs.
        fence: Fence,
        /// How far it is.
        progress: Option<Progress>,
        /// At most [`crate::task::CHECKPOINT_LIMIT`] bytes.
        #[serde(with = "crate::blob::option")]
        checkpoint: Option<Vec<u8>>,
    },
    /// *Round.* An executor registers, or registers again.
    RegisterExecutor(Registration),
    /// *Round.* An executor's heartbeats stopped.
    ExecutorGone {
        /// The executor.
        executor: ExecutorId,
        /// The life that the leader means.
        incarnation: Incarnation,
    },
    /// An executor shall take no more work, or take work again.
    Drain {
        /// The executor.
        executor: ExecutorId,
        /// `false` takes the drain back.
        on: bool,
    },
    /// *Round.* A drained executor leaves.
    ExecutorLeft {
        /// The executor.
        executor: ExecutorId,
        /// The life that leaves.
        incarnation: Incarnation,
    },
    /// An administrator's request is let in: its nonce is spent before what it asks for is done, since a
    /// change of the members is no command of its own.
    Spend {
        /// The signed request's nonce.
        claim: Claim,
    },
    /// A change of jobs or calendars.
    Job(Box<JobCommand>),
    /// A change of graphs of tasks.
    Graph(Box<GraphCommand>),
    /// A change of callbacks.
    Callback(Box<CallbackCommand>),
    /// A change of callers, keys or the audit.
    Access(Box<AccessCommand>),
    /// What the leader's wall clock showed for the changes behind it, where the cluster's time is ahead of that. The
    /// first of its batch, or nothing; no reply stands for it.
    WallClock {
        /// The leader's wall clock.
        wall_ms: Millis,
    },
    /// A change that somebody asked for with a key of the tables. Refused when the key or its caller is off, or gone,
    /// by the time it is applied. A key of the secrets file has no row, and what it asks for stands for itself.
    OfKey {
        /// The access key that signed the request.
        access_key: String,
        /// The change.
        change: Asked,
    },
}

impl Command {
    /// Whether an administrator asks for it whose hands must not be tied by a disk that is nearly full: to take a key
    /// away, to drain an executor, or to have another change recorded and its nonce spent. Such commands are few and
    /// small.
    pub fn is_of_administrators(&self) -> bool {
        match self {
            Command::Access(command) | Command::OfKey { change: Asked::Access(command), .. } => {
                !matches!(**command, AccessCommand::Denied { .. } | AccessCommand::Unsigned { .. })
            }
            Command::Drain { .. } | Command::OfKey { change: Asked::Drain { .. }, .. } => true,
            _ => false,
        }
    }
}

/// What a command answers to its proposer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The new round.
    Round(Round),
    /// The task as it stands after the submission, or as it stands now for a repeated one.
    Submitted {
        /// The task.
        task: TaskId,
        /// Its status.
        status: Status,
        /// Its version.
        version: u64,
        /// When it was created.
        created_at: Millis,
        /// When it is due.
        due_at: Millis,
        /// The Idempotency-Key had made it before.
        replayed: bool,
    },
    /// The lease.
    Granted {
        /// The log index of the grant.
        fence: Fence,
    },
    /// The task after the change.
    Task {
        /// Its status.
        status: Status,
        /// Its version.
        version: u64,
        /// A cancel waits for the executor.
        cancel_requested: bool,
    },
    /// The report had been taken before.
    Repeated,
    /// Nothing to add.
    Done,
    /// No effect, and why.
    Refused(Refusal),
    /// The job after the change.
    Job {
        /// The version of its definition.
        version: u64,
        /// The revision of its state.
        revision: u64,
    },
    /// The calendar after the change.
    Calendar {
        /// Its version.
        version: u64,
    },
    /// A job made a task.
    Fired {
        /// The task.
        task: TaskId,
        /// It waits until the job's other tasks have ended.
        queued: bool,
    },
    /// A job made no task, which its history shows.
    FireSkipped {
        /// Why.
        reason: SkipReason,
    },
    /// A backfill goes on.
    Backfill {
        /// Every instant up to this one is done.
        through: Millis,
        /// Tasks that it has made.
        fired: u64,
        /// Instants that it has skipped.
        skipped: u64,
        /// It has ended.
        ended: bool,
    },
    /// The caller after the change.
    Caller {
        /// Its version.
        version: u64,
    },
}

/// Why a command had no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The leader's round is over.
    StaleRound {
        /// The round in force.
        current: Round,
    },
    /// No such task (or another caller's).
    TaskNotFound,
    /// The id is taken.
    TaskExists,
    /// The shard is not waiting.
    NotWaiting,
    /// The shard is not due yet.
    NotDue {
        /// When it is.
        due_at: Millis,
    },
    /// Another attempt is next.
    WrongAttempt {
        /// The next attempt.
        next: u32,
    },
    /// The lease is over.
    StaleFence,
    /// The task has ended.
    AlreadyTerminal {
        /// How.
        status: Status,
        /// Its version.
        version: u64,
    },
    /// The signed request has been used.
    NonceReplayed,
    /// The Idempotency-Key stands for another request.
    IdempotencyKeyReused,
    /// No such executor.
    ExecutorUnknown,
    /// The executor takes no work, or is another life than meant.
    ExecutorNotOnline,
    /// The executor may still hold the attempt.
    ExecutorAlive,
    /// A newer process lives under the executor's id.
    IncarnationSuperseded {
        /// The newer life.
        current: Incarnation,
    },
    /// A deadline that has not passed.
    NotExpired,
    /// The deadline to first start has passed.
    Expired,
    /// A value outside its bounds; the edge should have refused it.
    Invalid,
    /// No such job (or another caller's).
    JobNotFound,
    /// No such calendar of this caller.
    CalendarNotFound {
        /// Its name.
        calendar: CalendarName,
    },
    /// The job or the calendar is at another version than expected; 0 where there is none.
    VersionMismatch {
        /// The version that there is.
        current: u64,
    },
    /// Jobs use the calendar.
    CalendarInUse,
    /// The job's state has moved on.
    StaleJob {
        /// The revision that there is.
        revision: u64,
    },
    /// The instant is not the job's next one.
    NotNext,
    /// A calendar of the job has changed, and the job has not been told yet.
    CalendarSpreading {
        /// The calendar.
        calendar: CalendarName,
    },
    /// A backfill of this job is under way.
    BackfillRunning,
    /// No backfill of this job is under way, or it stands elsewhere.
    BackfillNotFound,
    /// A parent is no task of this caller.
    ParentNotFound {
        /// Which.
        parent: TaskId,
    },
    /// The graph does not stand where the command says.
    StaleGraph,
    /// The task has no callback.
    CallbackNotFound,
    /// The callback stands elsewhere than the leader believes.
    StaleCallback,
    /// The callback has not been decided yet.
    CallbackOpen,
    /// No such caller.
    CallerNotFound,
    /// No such access key.
    AccessKeyNotFound,
    /// The access key's name is taken.
    AccessKeyExists,
    /// No such webhook secret of this caller.
    WebhookSecretNotFound,
    /// The owner has as many keys or secrets as it may have.
    TooManyKeys,
    /// There are as many callers as there may be.
    TooManyCallers,
    /// The caller has jobs.
    CallerHasJobs,
    /// The key that asked for it, or its caller, was switched off before it took effect.
    AccessKeyDisabled,
    /// The key that asked for it, or its caller, was taken away before it took effect.
    AccessKeyGone,
}
