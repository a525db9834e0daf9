//! Reads over the tables, by index. Nothing here scans a table; each page is bounded by its caller.

mod access;
mod callback;
mod graph;
mod job;
mod limit;

pub use access::{
    Access, CallerView, access, access_key, access_keys_of, access_meta, audit, caller, caller_limits,
    callers, keys_of,
};
pub use callback::{callback, callbacks_due, callbacks_of_lane, next_callback_lane};
pub use graph::{
    GRAPH_BYTES_LIMIT, GRAPH_LINKS_LIMIT, GraphBounds, first_waiter, graph, graph_within, graph_work,
    job_flow, replaced_from, run, shard_plan, stopped_steps,
};
pub use job::{
    JobView, backfill, backfills, calendar, calendars_of, due_jobs, due_jobs_from, history, job, jobs,
    jobs_of, open_tasks_of, spreading, users_of, wanted_jobs,
};
pub use limit::{Reached, reached_limit};

use crate::apply::{Meta, is_forgotten};
use crate::command::Idempotency;
use crate::executor::Executor;
use crate::id::{CallerId, ExecutorId, Millis, TaskId};
use crate::key::{
    CallerTaskKey, CallerTextKey, DueKey, KeyWriter, ReadyKey, RunningKey, ShardKey, Single, StatusTaskKey,
    TableKey as _, TimeKey, after_prefix,
};
use crate::schema::{
    CallerTasksTable, DueTable, ExecutorTable, ExpireTable, IdempotencyTable, MetaTable, ReadyTable,
    RunningRow, RunningTable, ShardTable, SpecTable, StatusTasksTable, TaskTable,
};
use crate::tables::{Read, ReadExt as _};
use crate::task::{Shard, Status, TaskSpec, TaskState};

/// A task, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// Its id.
    pub id: TaskId,
    /// What was asked for.
    pub spec: TaskSpec,
    /// Where it stands.
    pub state: TaskState,
    /// Its shards, in order.
    pub shards: Vec<Shard>,
}

/// Where a page of a list ended: the next one begins after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the last task of the page was created.
    pub created_at: Millis,
    /// The last task of the page.
    pub task: TaskId,
}

/// The state machine's own row.
pub fn meta<R: Read>(tables: &R) -> Result<Meta, R::Error> {
    Ok(tables.get::<MetaTable>(&Single)?.unwrap_or_default())
}

/// A task, whole.
pub fn task<R: Read>(tables: &R, id: TaskId) -> Result<Option<TaskView>, R::Error> {
    let Some(state) = tables.get::<TaskTable>(&id)? else { return Ok(None) };
    let Some(spec) = tables.get::<SpecTable>(&id)? else { return Ok(None) };
    let mut shards = Vec::with_capacity(usize::from(state.shards));
    for shard in 0..state.shards {
        if let Some(shard) = tables.get::<ShardTable>(&ShardKey { task: id, shard })? {
            shards.push(shard);
        }
    }
    Ok(Some(TaskView { id, spec, state, shards }))
}

/// Tasks of every caller by id; at most `limit`, after `after`.
pub fn tasks<R: Read>(tables: &R, after: Option<TaskId>, limit: usize) -> Result<Vec<TaskId>, R::Error> {
    let from = after.map(|id| next(id.encode())).unwrap_or_default();
    tables.keys::<TaskTable>(&from, &after_prefix(&[]), limit)
}

/// A caller's tasks, newest first, of one status or of all; at most `limit`, after `after`.
pub fn tasks_of<R: Read>(
    tables: &R,
    caller: &CallerId,
    status: Option<Status>,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Vec<TaskId>, R::Error> {
    let prefix = KeyWriter::default().text(caller.as_str());
    match status {
        None => {
            let prefix = prefix.finish();
            let from = after.map(|Cursor { created_at, task }| {
                next(CallerTaskKey { caller: caller.clone(), created_at, task }.encode())
            });
            let from = from.unwrap_or_else(|| prefix.clone());
            let keys = tables.keys::<CallerTasksTable>(&from, &after_prefix(&prefix), limit)?;
            Ok(keys.into_iter().map(|key| key.task).collect())
        }
        Some(status) => {
            let prefix = prefix.byte(status as u8).finish();
            let from = after.map(|Cursor { created_at, task }| {
                next(StatusTaskKey { caller: caller.clone(), status, created_at, task }.encode())
            });
            let from = from.unwrap_or_else(|| prefix.clone());
            let keys = tables.keys::<StatusTasksTable>(&from, &after_prefix(&prefix), limit)?;
            Ok(keys.into_iter().map(|key| key.task).collect())
        }
    }
}

/// Whether a request repeats one that was taken: its Idempotency-Key stands for a task that the very same request made,
/// and still will at `until`.
pub fn is_repeated<R: Read>(
    tables: &R,
    caller: &CallerId,
    idempotency: &Idempotency,
    until: Millis,
) -> Result<bool, R::Error> {
    let key = CallerTextKey { caller: caller.clone(), text: idempotency.key.clone() };
    let row = tables.get::<IdempotencyTable>(&key)?;
    Ok(row.is_some_and(|row| {
        row.fingerprint == idempotency.fingerprint && !is_forgotten(row.created_at, until)
    }))
}

/// Every executor ever registered. Their number is bounded by the fleet, not by the load.
pub fn executors<R: Read>(tables: &R) -> Result<Vec<Executor>, R::Error> {
    let rows = tables.range::<ExecutorTable>(&[], &after_prefix(&[]), usize::MAX)?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// One executor.
pub fn executor<R: Read>(tables: &R, id: &ExecutorId) -> Result<Option<Executor>, R::Error> {
    tables.get::<ExecutorTable>(id)
}

/// Shards that wait for their time and are due before `until`, in order; at most `limit`, after `after`.
pub fn due<R: Read>(
    tables: &R,
    after: Option<DueKey>,
    until: Millis,
    limit: usize,
) -> Result<Vec<DueKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<DueTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// The first page of [`due`] from an instant on.
pub fn due_from<R: Read>(
    tables: &R,
    from: Millis,
    until: Millis,
    limit: usize,
) -> Result<Vec<DueKey>, R::Error> {
    let from = KeyWriter::default().millis(from).finish();
    tables.keys::<DueTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// The first page of [`expiring`] from an instant on.
pub fn expiring_from<R: Read>(
    tables: &R,
    from: Millis,
    until: Millis,
    limit: usize,
) -> Result<Vec<TimeKey>, R::Error> {
    let from = KeyWriter::default().millis(from).finish();
    tables.keys::<ExpireTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// Shards in the waiting room, most urgent first; at most `limit`, after `after`.
pub fn ready<R: Read>(tables: &R, after: Option<ReadyKey>, limit: usize) -> Result<Vec<ReadyKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<ReadyTable>(&from, &after_prefix(&[]), limit)
}

/// Leases in force, by executor; at most `limit`, after `after`.
pub fn running<R: Read>(
    tables: &R,
    after: Option<&RunningKey>,
    limit: usize,
) -> Result<Vec<(RunningKey, RunningRow)>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.range::<RunningTable>(&from, &after_prefix(&[]), limit)
}

/// Leases of one executor; at most `limit`.
pub fn running_on<R: Read>(
    tables: &R,
    executor: &ExecutorId,
    limit: usize,
) -> Result<Vec<(RunningKey, RunningRow)>, R::Error> {
    let prefix = KeyWriter::default().text(executor.as_str()).finish();
    tables.range::<RunningTable>(&prefix, &after_prefix(&prefix), limit)
}

/// Deadlines to first start before `until`, in order; at most `limit`, after `after`.
pub fn expiring<R: Read>(
    tables: &R,
    after: Option<TimeKey>,
    until: Millis,
    limit: usize,
) -> Result<Vec<TimeKey>, R::Error> {
    let from = after.map(|key| next(key.encode())).unwrap_or_default();
    tables.keys::<ExpireTable>(&from, &KeyWriter::default().millis(until).finish(), limit)
}

/// The smallest key after this one.
fn next(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}
