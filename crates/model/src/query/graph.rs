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
use crate::task::TaskSpec;

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

/// The most parents and children that are read for one graph.
pub const GRAPH_LINKS_LIMIT: usize = 20_000;
/// The most bytes of parameters that are read over for one graph; none of them is kept.
pub const GRAPH_BYTES_LIMIT: usize = 32 << 20;

/// How much is read for one graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphBounds {
    /// Tasks.
    pub tasks: usize,
    /// Parents and children.
    pub links: usize,
    /// Bytes of parameters, beyond the last task.
    pub bytes: usize,
}

/// The tasks around one: of a run or a step the whole run, else everything that is reached over parents and children,
/// nearest first. At most `limit`, and no more of them and of their links than [`GRAPH_BYTES_LIMIT`] and
/// [`GRAPH_LINKS_LIMIT`] allow.
pub fn graph<R: Read>(tables: &R, task: TaskId, limit: usize) -> Result<Option<Graph>, R::Error> {
    graph_within(
        tables,
        task,
        GraphBounds { tasks: limit, links: GRAPH_LINKS_LIMIT, bytes: GRAPH_BYTES_LIMIT },
    )
}

/// The same within other bounds.
pub fn graph_within<R: Read>(
    tables: &R,
    task: TaskId,
    bounds: GraphBounds,
) -> Result<Option<Graph>, R::Error> {
    if !tables.has::<TaskTable>(&task)? {
        return Ok(None);
    }
    let node = tables.get::<NodeTable>(&task)?.unwrap_or_default();
    let reader = Reader { tables, nodes: Vec::new(), left: bounds, truncated: false };
    match node.role {
        Role::Run => reader.of_run(task, bounds.tasks),
        Role::Step { run, .. } => reader.of_run(run, bounds.tasks),
        Role::Plain => reader.around(task, bounds.tasks),
    }
    .map(Some)
}

/// Reads a graph, and what it may still read.
struct Reader<'a, R> {
    tables: &'a R,
    nodes: Vec<GraphNode>,
    left: GraphBounds,
    truncated: bool,
}

impl<R: Read> Reader<'_, R> {
    fn of_run(mut self, run: TaskId, limit: usize) -> Result<Graph, R::Error> {
        let made = self.tables.get::<RunTable>(&run)?.map_or(0, |row| row.made);
        self.read(run)?;
        for index in 0..made {
            if self.nodes.len() >= limit || self.left.bytes == 0 {
                self.truncated = true;
                break;
            }
            if let Some(step) = self.tables.get::<RunStepTable>(&ShardKey { task: run, shard: index })? {
                self.read(step)?;
            }
        }
        Ok(self.done())
    }

    fn around(mut self, task: TaskId, limit: usize) -> Result<Graph, R::Error> {
        let (mut seen, mut queue) = (BTreeSet::from([task]), VecDeque::from([task]));
        while let Some(task) = queue.pop_front() {
            if self.left.bytes == 0 && !self.nodes.is_empty() {
                self.truncated = true;
                break;
            }
            let Some(parents) = self.read(task)? else { continue };
            // When there is no room and that is said already, children tell nothing more.
            let children = match self.truncated && seen.len() >= limit {
                true => Vec::new(),
                false => self.children(task, limit)?,
            };
            for other in parents.into_iter().chain(children) {
                if seen.contains(&other) {
                    continue;
                }
                if seen.len() >= limit {
                    self.truncated = true;
                    break;
                }
                seen.insert(other);
                queue.push_back(other);
            }
        }
        Ok(self.done())
    }

    /// Reads a task and keeps what is shown of it; its parents, or `None` where there is no such task.
    fn read(&mut self, task: TaskId) -> Result<Option<Vec<TaskId>>, R::Error> {
        let (Some(state), Some(spec)) =
            (self.tables.get::<TaskTable>(&task)?, self.tables.get::<SpecTable>(&task)?)
        else {
            return Ok(None);
        };
        let Node { role, .. } = self.tables.get::<NodeTable>(&task)?.unwrap_or_default();
        self.left.bytes = self.left.bytes.saturating_sub(spec.params.len());
        let TaskSpec { handler, origin, mut depends_on, .. } = spec;
        if depends_on.len() > self.left.links {
            depends_on.truncate(self.left.links);
            depends_on.shrink_to_fit();
            self.truncated = true;
        }
        self.left.links -= depends_on.len();
        let parents = depends_on.iter().map(|dependency| dependency.task).collect();
        self.nodes.push(GraphNode { task, handler, origin, depends_on, state, role });
        Ok(Some(parents))
    }

    fn children(&mut self, task: TaskId, limit: usize) -> Result<Vec<TaskId>, R::Error> {
        let (prefix, most) = (task.encode(), self.left.links.min(limit.saturating_add(1)));
        let keys = self.tables.keys::<DepsTable>(&prefix, &after_prefix(&prefix), most)?;
        // There may be more of them than were left to read.
        self.truncated |= keys.len() == self.left.links;
        self.left.links -= keys.len();
        Ok(keys.into_iter().map(|DepKey { child, .. }| child).collect())
    }

    fn done(self) -> Graph {
        Graph { nodes: self.nodes, truncated: self.truncated }
    }
}
