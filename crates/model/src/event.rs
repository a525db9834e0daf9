//! What applied entries changed, for the leader's loop and for long polls: a hint to look, never a second
//! truth. A reader that missed events reads the tables again.

use std::sync::Arc;

use crate::id::{CallerId, ExecutorId, Fence, Millis, NodeId, Round, TaskId};
use crate::job::{CalendarKey, JobKey};
use crate::key::{ShardKey, WorkKey};
use crate::task::{DueClock, Outcome, Status, TaskSpec};

/// What the names in an event take in memory, as a rule, in bytes.
const NAMES: usize = 64;

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new round began.
    RoundBegan {
        /// The round.
        round: Round,
        /// Its leader.
        leader: NodeId,
    },
    /// A task was submitted; its shards wait. Told of tasks with small parameters only.
    Submitted {
        /// The task.
        task: TaskId,
        /// When it is due.
        due_at: Millis,
        /// What was asked for.
        spec: Arc<TaskSpec>,
    },
    /// A shard waits: for its time, or (when `due_at` has passed) for a slot.
    Waiting {
        /// The shard.
        shard: ShardKey,
        /// When it is due.
        due_at: Millis,
        /// By which clock.
        clock: DueClock,
    },
    /// A shard's attempt was granted.
    Granted {
        /// The shard.
        shard: ShardKey,
        /// The executor that holds the lease.
        executor: ExecutorId,
        /// The lease.
        fence: Fence,
    },
    /// A shard's attempt is over.
    AttemptEnded {
        /// The shard.
        shard: ShardKey,
        /// The executor that held the lease.
        executor: ExecutorId,
        /// The lease.
        fence: Fence,
        /// How it ended.
        outcome: Outcome,
    },
    /// A running attempt shall be stopped.
    CancelRequested {
        /// The shard.
        shard: ShardKey,
        /// The executor that holds the lease.
        executor: ExecutorId,
        /// The lease.
        fence: Fence,
    },
    /// A task must have started by then.
    Expires {
        /// The task.
        task: TaskId,
        /// The deadline to first start.
        at: Millis,
    },
    /// A task's version grew.
    TaskChanged {
        /// The task.
        task: TaskId,
        /// Its version now.
        version: u64,
        /// Its status now.
        status: Status,
    },
    /// An executor's row changed.
    ExecutorChanged {
        /// The executor.
        executor: ExecutorId,
    },
    /// A job was created, edited, paused, resumed or deleted.
    JobChanged {
        /// The job.
        job: JobKey,
        /// The version of its definition; `None` where it is gone.
        version: Option<u64>,
    },
    /// A job has a next fire; any that it had before does not count any more.
    JobNext {
        /// The job.
        job: JobKey,
        /// The revision of its state.
        revision: u64,
        /// When the fire is due.
        due_at: Millis,
    },
    /// A leader must compute a job's next fire.
    JobNeedsNext {
        /// The job.
        job: JobKey,
        /// The revision of its state.
        revision: u64,
    },
    /// A calendar was created, edited or deleted, or more of its jobs have been told.
    CalendarChanged {
        /// The calendar.
        calendar: CalendarKey,
        /// There are more jobs to tell.
        spreading: bool,
    },
    /// A backfill may go on: it began, has made a step, or a task of its job has ended.
    BackfillWaits {
        /// The job.
        job: JobKey,
    },
    /// A leader must go on with a graph.
    GraphWaits {
        /// With what.
        work: WorkKey,
    },
    /// A task was skipped because a parent did not end as it asked for. To be raised as an alert.
    DependencyLost {
        /// The task.
        task: TaskId,
        /// The parent.
        parent: TaskId,
    },
    /// A callback is in the outbox.
    CallbackDue {
        /// Where: [`lane`](crate::callback::lane).
        lane: String,
        /// When its next send is due.
        at: Millis,
    },
    /// So many tasks of a caller may run at a time from now on.
    CallerLimit {
        /// The caller.
        caller: CallerId,
        /// How many; `None` where there is no limit.
        max_running: Option<u32>,
    },
}

impl Event {
    /// About how many bytes it takes in memory, with what it points to.
    pub fn bytes(&self) -> usize {
        let pointed = match self {
            Event::Submitted { spec, .. } => spec.bytes(),
            _ => NAMES,
        };
        size_of::<Event>() + pointed
    }
}
