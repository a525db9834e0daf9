//! What the leader knows and decides: plain data in, plain data out. No IO, no clock, no async.
//!
//! The shell ([`crate::lead`]) feeds it what happened (applied changes, heartbeats, answers of executors,
//! the time) and carries out the [`Step`]s that it asks for. Everything in here is rebuilt from the tables
//! by a new leader, and dropped with the leadership.
//!
//! A shard that the leader has in hand is in one of four places:
//!
//! ```text
//!  due index ──window──▶ Timed ──its time──▶ Waiting ──placed──▶ Granting ──committed──▶ Held ──ended──▶ gone
//!                           ▲                   ▲                    │ refused              │ refused, retry
//!                           └───────────────────┴────────────────────┴──────────────────────┘
//! ```
//!
//! A task that a job is about to make is placed before it is there: it waits for one plan, and is Granting or gone.
//!
//! A shard is never placed from memory alone: the grant is a guarded command, so a wrong or stale belief in
//! here costs a refused command and nothing else.

mod clocks;
mod executors;
mod fires;
mod jobs;
mod leases;
mod limits;
mod plan;
mod sharded;
mod strays;
mod timers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use orloj_model::Command;
use orloj_model::id::{ExecutorId, Fence, Incarnation, Millis, Round, TaskId};
use orloj_model::job::JobKey;
use orloj_model::key::ShardKey;
use orloj_model::task::{DueClock, TaskSpec};
use orloj_wire::protocol::CancelReason;

use crate::options::Options;
use crate::placement::{ClassId, ExecutorIdx, Fleet};
use crate::waiting::WaitingRoom;
use crate::wheel::{TimerId, Wheel};

use clocks::Clocks;
pub(crate) use executors::chance;
pub(crate) use executors::{Exec, Liveness};
pub(crate) use fires::Planned;
use jobs::Jobs;
pub(crate) use jobs::{After, Duty};
pub(crate) use leases::{Over, attempt_ref, ended};
use limits::Limits;
use sharded::Sharded;

/// The instant of an input, by every clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// Monotonic, in milliseconds.
    pub mono_ms: u64,
    /// The wall clock.
    pub wall_ms: Millis,
    /// The cluster's time.
    pub cluster_ms: Millis,
}

/// A lease in the words of the executor protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub shard: ShardKey,
    pub attempt: u32,
    pub fence: Fence,
}

/// What the shell shall do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Propose these in the round.
    Propose(Vec<Command>),
    /// Push these attempts to an executor, in one batch.
    Push { executor: ExecutorId, leases: Vec<Lease> },
    /// Ask an executor to stop these attempts.
    Cancel { executor: ExecutorId, reason: CancelReason, leases: Vec<Lease> },
    /// Announce the round to an executor.
    Announce { executor: ExecutorId },
    /// Find out what these come to, for jobs.
    Jobs(Vec<Duty>),
}

/// What sits in the wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Timer {
    /// A shard becomes due.
    Due { shard: ShardKey, at: Millis, clock: DueClock },
    /// A task must have started.
    Expire { task: TaskId, at: Millis },
    /// A job fires.
    Job { job: Arc<JobKey>, at: Millis },
}

/// A due shard, read from the tables.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub shard: ShardKey,
    /// The number of its next attempt.
    pub attempt: u32,
    /// Since when it has been due.
    pub since: Millis,
    /// It is in the ready index already.
    pub ready: bool,
    pub spec: Arc<TaskSpec>,
    /// Who had its last attempt, which came to nothing: another one is tried first.
    pub last: Option<ExecutorId>,
    /// It is of a broadcast: until that has its shards, or pinned to the executor that this shard is for.
    pub broadcast: bool,
}

/// Where the leader has a shard in hand.
#[derive(Debug)]
enum Tracked {
    /// In the wheel.
    Timed(TimerId),
    /// Its time has come; its rows are about to be read.
    Due,
    /// In the waiting room.
    Waiting(Box<Candidate>),
    /// Its grant has been proposed.
    Granting { candidate: Box<Candidate>, executor: ExecutorIdx },
    /// Leased.
    Held(Held),
}

/// A lease in force.
#[derive(Debug)]
struct Held {
    executor: ExecutorId,
    incarnation: Incarnation,
    lease: Lease,
    phase: HeldPhase,
    timeout_ms: Option<u64>,
    /// Heartbeats in a row that did not name it although the executor had accepted it.
    missing: u8,
    /// Its task shall end: it is not pushed any more.
    cancelled: bool,
    /// When the leader asked to stop it for outrunning its timeout, monotonic.
    overrun_at: Option<u64>,
}

/// How far a lease has got to its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldPhase {
    /// Granted by an earlier leader: whether the executor has it is not known yet.
    InDoubt,
    /// In the executor's outbox.
    Outbox,
    /// In a push that has not been answered.
    InFlight,
    /// The executor has it.
    Accepted,
}

/// Figures for the probe and the metrics.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub timed: usize,
    pub waiting: usize,
    pub granting: usize,
    pub held: usize,
    pub job_timers: usize,
    pub jobs_waiting: usize,
    pub clock_steps: u64,
    pub wall_offset_ms: i64,
}

/// See the module.
pub(crate) struct Core {
    options: Options,
    round: Round,
    clocks: Clocks,
    wheel: Wheel<Timer>,
    /// Wheel timers of expiries, so that a task has one at most.
    expiries: HashMap<TaskId, TimerId>,
    /// Everything due before this instant is in hand; the rest is in the due index.
    loaded_until: Millis,
    tracked: HashMap<ShardKey, Tracked>,
    /// Became due; their rows are read in this order.
    due: VecDeque<ShardKey>,
    /// The present tick's beginning, monotonic, and how many more may become due in it.
    budget: (u64, usize),
    /// Tasks whose deadline to first start has passed.
    expired: Vec<TaskId>,
    waiting: WaitingRoom,
    /// Waiting shards that are still in the due index, oldest first.
    unready: VecDeque<(ShardKey, u64)>,
    fleet: Fleet,
    sharded: Sharded,
    limits: Limits,
    executors: BTreeMap<ExecutorId, Exec>,
    /// Grants that have been proposed and not answered.
    granting: usize,
    held: usize,
    /// Cancels of leases whose grant the loop has not heard of yet.
    early_cancels: HashSet<(ShardKey, Fence)>,
    /// The log takes nothing now: no grant is proposed before then, monotonic.
    no_grants_before: u64,
    /// Grows with every placement; input of the round-robin strategy.
    placements: u64,
    jobs: Jobs,
    /// Commands that were refused for lack of room and shall be proposed again.
    again: VecDeque<Command>,
    steps: Vec<Step>,
}

impl Core {
    /// A leader that knows nothing yet.
    pub(crate) fn new(options: Options, round: Round, now: Now) -> Self {
        let mut wheel = Wheel::new(options.tick_ms);
        wheel.advance(now.mono_ms, 0, &mut Vec::new());
        let limits = Limits::new(options.max_running.clone());
        Core {
            wheel,
            round,
            clocks: Clocks::new(now),
            expiries: HashMap::new(),
            loaded_until: Millis::MIN,
            tracked: HashMap::new(),
            due: VecDeque::new(),
            budget: (now.mono_ms, options.due_per_tick),
            options,
            expired: Vec::new(),
            waiting: WaitingRoom::new(),
            unready: VecDeque::new(),
            fleet: Fleet::new(),
            sharded: Sharded::default(),
            limits,
            executors: BTreeMap::new(),
            granting: 0,
            held: 0,
            early_cancels: HashSet::new(),
            no_grants_before: 0,
            placements: 0,
            jobs: Jobs::default(),
            again: VecDeque::new(),
            steps: Vec::new(),
        }
    }

    /// What the shell shall do now.
    pub(crate) fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.steps)
    }

    /// Figures for the probe and the metrics.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            timed: self.wheel.len() - self.job_timers(),
            waiting: self.waiting.len() + self.limits.parked(),
            granting: self.granting,
            held: self.held,
            job_timers: self.job_timers(),
            jobs_waiting: self.jobs_waiting(),
            clock_steps: self.clocks.steps(),
            wall_offset_ms: self.clocks.wall_offset_ms(),
        }
    }

    /// Drops what is known of a shard, whatever place it is in, and takes it out of that place.
    fn forget(&mut self, shard: ShardKey) -> Option<Tracked> {
        let tracked = self.tracked.remove(&shard)?;
        match &tracked {
            Tracked::Timed(timer) => {
                self.wheel.cancel(*timer);
            }
            Tracked::Due => {}
            Tracked::Waiting(candidate) => {
                self.waiting.remove(&shard);
                self.limits.gone(shard, &candidate.spec);
            }
            Tracked::Granting { executor, .. } => {
                self.granting -= 1;
                self.fleet.give_back(*executor);
                self.sharded.left(shard, *executor);
                self.limits.left(shard);
            }
            Tracked::Held(held) => {
                self.held -= 1;
                self.limits.left(shard);
                if let Some(slot) = self.fleet.find(&held.executor) {
                    self.sharded.left(shard, slot);
                }
                if let Some(exec) = self.executors.get_mut(&held.executor) {
                    exec.forget(held.lease, &mut self.fleet);
                }
            }
        }
        Some(tracked)
    }

    /// The demand class of a task.
    fn class_of(&mut self, spec: &TaskSpec) -> ClassId {
        self.fleet.class(&spec.handler, &spec.labels, &spec.strategy)
    }
}
