//! Reads of graphs of tasks.

use std::collections::{BTreeSet, VecDeque};

use super::next;
use crate::graph::{Graph, GraphNode, JobFlow, Node, Role, RunView, ShardPlan};
use crate::id::TaskId;
use crate::job::JobKey;
use crate::key::{DepKey, ShardKey, TableKey as _, WorkKey, after_prefix};
use crate::schema::{
    DepsTable, GraphWorkTable, JobFlowTable, JobStateTable, NodeTable, RunFlowTable, RunStepTable, RunTable,
    ShardPlanTable, SpecTable, TaskJobTable, TaskTable, WaitsTable,
};
use crate::tables::{Read, ReadExt as _};

/// What a leader goes on with in graphs; at most `limit`, after `after`.
pub fn graph_work<R: Read>(
    tables: &R,
    after: Option<WorkKey>,
    limit: usize,
) -> Result<Vec<WorkKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<GraphWorkTable>(&from, &after_prefix(&[]), limit)
}

/// The child of a task that is told first of its end.
pub fn first_waiter<R: Read>(tables: &R, parent: TaskId) -> Result<Option<TaskId>, R::Error> {
    let prefix = parent.encode();
    let keys = tables.keys::<WaitsTable>(&prefix, &after_prefix(&prefix), 1)?;
    Ok(keys.first().map(|key| key.child))
}

/// How the shards of a task hang together, where it says so.
pub fn shard_plan<R: Read>(tables: &R, task: TaskId) -> Result<Option<ShardPlan>, R::Error> {
    tables.get::<ShardPlanTable>(&task)
}

/// What a job says beyond its definition.
pub fn job_flow<R: Read>(tables: &R, job: &JobKey) -> Result<JobFlow, R::Error> {
    Ok(tables.get::<JobFlowTable>(job)?.unwrap_or_default())
}

/// A run of which steps are still to be made.
pub fn run<R: Read>(tables: &R, run: TaskId) -> Result<Option<RunView>, R::Error> {
    let (Some(row), Some(flow), Some(spec)) =
        (tables.get::<RunTable>(&run)?, tables.get::<RunFlowTable>(&run)?, tables.get::<SpecTable>(&run)?)
    else {
        return Ok(None);
    };
    let (job, scheduled_at) = spec.origin.job().unwrap_or_default();
    Ok(Some(RunView { job: job.to_owned(), scheduled_at, caller: spec.caller, row, flow }))
}

/// How many steps of a run have been cancelled.
pub fn stopped_steps<R: Read>(tables: &R, run: TaskId) -> Result<Option<u16>, R::Error> {
    Ok(tables.get::<RunTable>(&run)?.map(|row| row.stopped))
}

/// From which task on the others of its job are still to be cancelled for the sake of a queued one.
pub fn replaced_from<R: Read>(tables: &R, queued: TaskId) -> Result<Option<TaskId>, R::Error> {
    let Some(job) = tables.get::<TaskJobTable>(&queued)? else { return Ok(None) };
    let state = tables.get::<JobStateTable>(&job)?.filter(|state| state.queued == Some(queued));
    Ok(state.and_then(|state| state.replace_from))
}

/// The tasks around one: of a run or a step the whole run, else everything that is reached over parents and children,
/// nearest first. At most `limit`.
pub fn graph<R: Read>(tables: &R, task: TaskId, limit: usize) -> Result<Option<Graph>, R::Error> {
    if !tables.has::<TaskTable>(&task)? {
        return Ok(None);
    }
    let node = tables.get::<NodeTable>(&task)?.unwrap_or_default();
    match node.role {
        Role::Run => graph_of_run(tables, task, limit),
        Role::Step { run, .. } => graph_of_run(tables, run, limit),
        Role::Plain => graph_around(tables, task, limit),
    }
    .map(Some)
}

fn graph_of_run<R: Read>(tables: &R, run: TaskId, limit: usize) -> Result<Graph, R::Error> {
    let made = tables.get::<RunTable>(&run)?.map_or(0, |row| row.made);
    let mut nodes = Vec::from_iter(node(tables, run)?);
    for index in 0..made {
        if nodes.len() >= limit {
            return Ok(Graph { nodes, truncated: true });
        }
        if let Some(step) = tables.get::<RunStepTable>(&ShardKey { task: run, shard: index })? {
            nodes.extend(node(tables, step)?);
        }
    }
    Ok(Graph { nodes, truncated: false })
}

fn graph_around<R: Read>(tables: &R, task: TaskId, limit: usize) -> Result<Graph, R::Error> {
    let (mut seen, mut queue) = (BTreeSet::from([task]), VecDeque::from([task]));
    let (mut nodes, mut truncated) = (Vec::new(), false);
    while let Some(task) = queue.pop_front() {
        let Some(node) = node(tables, task)? else { continue };
        let prefix = task.encode();
        let children = tables.keys::<DepsTable>(&prefix, &after_prefix(&prefix), limit + 1)?;
        let children = children.into_iter().map(|DepKey { child, .. }| child);
        let parents = node.spec.depends_on.iter().map(|dependency| dependency.task);
        for other in parents.chain(children) {
            if seen.contains(&other) {
                continue;
            }
            if seen.len() >= limit {
                truncated = true;
                break;
            }
            seen.insert(other);
            queue.push_back(other);
        }
        nodes.push(node);
    }
    Ok(Graph { nodes, truncated })
}

fn node<R: Read>(tables: &R, task: TaskId) -> Result<Option<GraphNode>, R::Error> {
    let (Some(state), Some(spec)) = (tables.get::<TaskTable>(&task)?, tables.get::<SpecTable>(&task)?) else {
        return Ok(None);
    };
    let Node { role, .. } = tables.get::<NodeTable>(&task)?.unwrap_or_default();
    Ok(Some(GraphNode { task, spec, state, role }))
}
