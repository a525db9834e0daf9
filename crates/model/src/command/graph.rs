//! What concerns graphs of tasks. Append-only as [`Command`](crate::Command) is.

use serde::{Deserialize, Serialize};

use crate::command::{PutJob, ShardRef, Submit};
use crate::graph::{JobFlow, OnShardFailure};
use crate::id::{ExecutorId, TaskId};
use crate::job::Filled;

/// A parent that was submitted in the same batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    /// Its place among the parents.
    pub place: u16,
    /// The Idempotency-Key under which it was submitted: when an earlier request has made its task, that is the parent.
    pub key: String,
}

/// A submission with parents, or with a policy for its shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitGraph {
    /// The submission.
    pub submit: Submit,
    /// What becomes of its other shards when one has failed for good.
    pub on_shard_failure: OnShardFailure,
    /// Those of its parents that were submitted in the same batch.
    pub siblings: Vec<Sibling>,
}

/// A step of a run that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeStep {
    /// Its task. Chosen by the leader from the operating system's random numbers.
    pub task: TaskId,
    /// Texts with their placeholders filled in.
    pub filled: Filled,
}

/// A job is created or edited, with more than its definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutFlow {
    /// The job.
    pub put: PutJob,
    /// The rest of it; the default says nothing more than [`crate::command::JobCommand::Put`].
    pub flow: JobFlow,
}

/// A change of graphs. Those marked *round* are the leader's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphCommand {
    /// A caller submits a task. Reads [`crate::graph::MAX_PARENTS`] tasks and touches two rows for each, and its own
    /// shards.
    Submit(Box<SubmitGraph>),
    /// *Round.* The next children of a task that has ended are told: at most
    /// [`crate::graph::RESOLVE_PER_COMMAND`], with at most twice [`crate::task::MAX_SHARDS`] shards.
    Resolve {
        /// The parent.
        parent: TaskId,
        /// The first child that has not been told.
        first: TaskId,
    },
    /// *Round.* A broadcast begins: one shard for each of these executors.
    Aim {
        /// The task.
        task: TaskId,
        /// The executors, in the order of their ids; at most [`crate::task::MAX_SHARDS`].
        targets: Vec<ExecutorId>,
    },
    /// *Round.* The executor of a broadcast's shard went away before it got it.
    Strand {
        /// The shard.
        shard: ShardRef,
        /// Its executor.
        executor: ExecutorId,
    },
    /// A job is created or edited.
    PutJob(Box<PutFlow>),
    /// *Round.* The next steps of a run are made: at most [`crate::graph::STEPS_PER_COMMAND`], with at most twice
    /// [`crate::task::MAX_SHARDS`] shards.
    MakeSteps {
        /// The run.
        run: TaskId,
        /// How many have been made.
        from: u16,
        /// The next ones.
        steps: Vec<MadeStep>,
    },
    /// *Round.* The next steps of a cancelled run are cancelled, from the last one on: at most
    /// [`crate::graph::STOP_PER_COMMAND`].
    StopSteps {
        /// The run.
        run: TaskId,
        /// How many have been.
        from: u16,
    },
    /// *Round.* More open tasks of a job are cancelled so that a queued one may start: at most
    /// [`crate::job::REPLACED_PER_COMMAND`], with their shards.
    ReplaceMore {
        /// The queued task.
        queued: TaskId,
        /// The first task that has not been looked at.
        from: TaskId,
    },
}

impl GraphCommand {
    /// Whether it is the leader's own, and holds only in the round in which it was decided.
    pub fn is_of_the_round(&self) -> bool {
        match self {
            GraphCommand::Resolve { .. }
            | GraphCommand::Aim { .. }
            | GraphCommand::Strand { .. }
            | GraphCommand::MakeSteps { .. }
            | GraphCommand::StopSteps { .. }
            | GraphCommand::ReplaceMore { .. } => true,
            GraphCommand::Submit(_) | GraphCommand::PutJob(_) => false,
        }
    }
}
