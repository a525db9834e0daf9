//! Graphs of tasks: who waits for whom, how the shards of a task hang together, and the workflows of jobs.
//!
//! The relation is flat. A row of [`DepsTable`](crate::schema::DepsTable) says that a child has a parent, a row of
//! [`WaitsTable`](crate::schema::WaitsTable) that it still waits for it. When a task ends, its children are told in
//! bounded commands that the leader proposes one after the other; none of them looks further down than one level.
//!
//! A job with steps makes one *run* for each fire: a task without shards of its own that counts its steps. The run is
//! what the job, its overlap policy and its callback see; the steps are ordinary tasks that wait for one another.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{CallerId, ExecutorId, Millis, TaskId, check_name};
use crate::job::Template;
use crate::task::{
    Dependency, DependsOn, DueClock, MAX_SHARDS, Origin, Status, Strategy, TaskSpec, TaskState,
};

/// The most parents of a task.
pub const MAX_PARENTS: usize = 1_000;
/// The most steps of a workflow.
pub const MAX_STEPS: usize = 1_000;
/// The longest texts of a workflow together (names, parameters, labels, keys), in bytes.
pub const FLOW_BYTES_LIMIT: usize = 512 * 1024;
/// How many children one command tells of the end of their parent at most. It also ends when those have
/// [`MAX_SHARDS`] shards.
pub const RESOLVE_PER_COMMAND: usize = 64;
/// How many steps of a run one command makes at most. It also ends when those have [`MAX_SHARDS`] shards.
pub const STEPS_PER_COMMAND: usize = 64;
/// How many steps of a cancelled run one command cancels at most.
pub const STOP_PER_COMMAND: usize = 16;

/// What becomes of the other shards of a task when one has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnShardFailure {
    /// They go on; the task fails when the last one has ended.
    #[default]
    Wait,
    /// Those that wait end at once and those that run are told to stop; the task fails when the last one has.
    Cancel,
}

/// How the shards of a task hang together. A task without a row has [`OnShardFailure::Wait`] and shards that go
/// anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShardPlan {
    /// What becomes of the others when one has failed for good.
    pub on_failure: OnShardFailure,
    /// One has, and the others have been told to stop.
    pub stopping: bool,
    /// Of a broadcast that has begun: the executor of each shard, in the order of their ids.
    pub targets: Vec<ExecutorId>,
}

/// What a task is in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Role {
    /// A task by itself.
    #[default]
    Plain,
    /// The run of a workflow.
    Run,
    /// A step of one.
    Step {
        /// The run.
        run: TaskId,
        /// Its place in the workflow, from 0.
        index: u16,
    },
}

/// A task's place in graphs; only tasks that have one have a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it is.
    pub role: Role,
    /// Children that wait for it.
    pub waiters: u32,
    /// By which clock it is due once its parents have ended.
    pub clock: DueClock,
}

impl Default for Node {
    fn default() -> Self {
        Node { role: Role::Plain, waiters: 0, clock: DueClock::Cluster }
    }
}

/// What a leader goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum WorkKind {
    /// The children of a task that has ended are told.
    Resolve = 1,
    /// The steps of a run are made.
    Make = 2,
    /// The steps of a cancelled run are cancelled.
    Stop = 3,
    /// Under `cancelOther` more open tasks of a job are cancelled for the sake of this one, which is queued.
    Replace = 4,
}

impl WorkKind {
    /// Every kind.
    pub const ALL: [WorkKind; 4] = [WorkKind::Resolve, WorkKind::Make, WorkKind::Stop, WorkKind::Replace];

    /// The kind with this number on disk.
    pub fn from_number(number: u8) -> Option<WorkKind> {
        WorkKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A step waits for this end of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The place of the earlier step.
    pub step: u16,
    /// On which end of it.
    pub on: DependsOn,
}

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name, unique in the workflow.
    pub name: String,
    /// What its task is made of. It has no callback and no deadline of its own: those are the run's.
    pub template: Template,
    /// What becomes of its other shards when one has failed for good.
    pub on_shard_failure: OnShardFailure,
    /// Earlier steps that it waits for, each once.
    pub needs: Vec<Need>,
}

/// What a job says beyond its definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobFlow {
    /// Of the tasks of a job without steps: what becomes of the other shards when one has failed for good.
    pub on_shard_failure: OnShardFailure,
    /// The steps, each after those that it needs, so that there can be no cycle; none of a plain job.
    pub steps: Vec<Step>,
}

impl JobFlow {
    /// Whether every value is within its bounds. The edge says so in better words; this keeps rows small.
    pub fn is_within_bounds(&self) -> bool {
        let names: BTreeSet<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
        self.steps.len() <= MAX_STEPS
            && names.len() == self.steps.len()
            && self.bytes() <= FLOW_BYTES_LIMIT
            && self.steps.iter().enumerate().all(|(place, step)| step.is_within_bounds(place))
    }

    /// How long its texts are together, in bytes: what a run copies of it.
    pub fn bytes(&self) -> usize {
        self.steps.iter().map(Step::bytes).sum()
    }
}

impl Step {
    fn is_within_bounds(&self, place: usize) -> bool {
        let needs: BTreeSet<u16> = self.needs.iter().map(|need| need.step).collect();
        check_name(&self.name).is_ok()
            && needs.len() == self.needs.len()
            && needs.last().is_none_or(|last| usize::from(*last) < place)
            && self.template.is_within_bounds()
            && self.template.callback_url.is_none()
            && self.template.expire_after_ms.is_none()
    }

    fn bytes(&self) -> usize {
        let template = &self.template;
        let fields = [&template.routing_key, &template.zone, &template.business_key];
        let labels: usize = template.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.name.len()
            + template.handler.len()
            + template.params.len()
            + labels
            + 4 * self.needs.len()
            + fields.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

/// Where a run stands, beside its [`TaskState`]: that counts the steps as it counts the shards of a task. A step that
/// was not needed (skipped for its dependencies) counts as one that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// How many steps the workflow has.
    pub total: u16,
    /// How many of them have been made, from the first on.
    pub made: u16,
    /// How many have been cancelled, from the last one made on; counts only once a cancel was asked for.
    pub stopped: u16,
    /// It waits for its job's other tasks no more.
    pub begun: bool,
}

/// What the steps of a run are made of: kept until all are made, so that an edit of the job does not reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFlow {
    /// The steps.
    pub steps: Vec<Step>,
    /// The zone of the trigger, for dates in their parameters.
    pub time_zone: String,
}

/// Whether a parent that stands here lets its child start; `None` while it has not ended.
pub fn is_met(on: DependsOn, parent: Status) -> Option<bool> {
    parent.is_terminal().then_some(match on {
        DependsOn::Success => parent == Status::Success,
        DependsOn::Completed => true,
        DependsOn::Failure => parent == Status::Failed,
    })
}

/// A task in a graph, for people: of what was asked for only what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    /// Which.
    pub task: TaskId,
    /// What it runs.
    pub handler: String,
    /// What made it.
    pub origin: Origin,
    /// Its parents; fewer where the graph is truncated.
    pub depends_on: Vec<Dependency>,
    /// Where it stands.
    pub state: TaskState,
    /// What it is in the graph.
    pub role: Role,
}

/// A part of a graph around a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    /// The tasks: of a run the run itself and its steps in order, else nearest first.
    pub nodes: Vec<GraphNode>,
    /// There are more tasks, or more that wait for one another.
    pub truncated: bool,
}

/// Whether a broadcast may have these targets: in the order of their ids, each once.
pub(crate) fn are_targets(targets: &[ExecutorId]) -> bool {
    (1..=usize::from(MAX_SHARDS)).contains(&targets.len())
        && targets.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str())
}

/// Whether a task is a broadcast.
pub(crate) fn is_broadcast(spec: &TaskSpec) -> bool {
    spec.strategy == Strategy::Broadcast
}

/// Who and when: of a run, for what its steps say of themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// Its owner.
    pub caller: CallerId,
    /// Its job.
    pub job: String,
    /// The instant that it stands for.
    pub scheduled_at: Millis,
    /// Where it stands.
    pub row: RunRow,
    /// What its steps are made of.
    pub flow: RunFlow,
}
