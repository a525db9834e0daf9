//! A task is made: by a submission, or by a job.

use std::sync::Arc;

use crate::apply::callback;
use crate::apply::context::Context;
use crate::command::Reply;
use crate::event::Event;
use crate::id::{Millis, TaskId};
use crate::key::{BusinessTaskKey, CallerTaskKey, CallerTextKey, DueKey, ShardKey, StatusTaskKey, TimeKey};
use crate::mutant;
use crate::schema::{
    BusinessKeyTable, CallerTasksTable, DueTable, ExpireTable, ShardTable, SpecTable, StatusTasksTable,
    TaskTable,
};
use crate::tables::{Write, WriteExt as _};
use crate::task::{DueClock, Phase, Reason, Shard, Status, TaskSpec, TaskState};

/// The largest parameters that an event carries, in bytes: thousands of events may wait for a slow reader.
const TOLD_PARAMS: usize = 4 << 10;

/// What a task begins with.
pub(crate) struct New<'a> {
    /// Its id; there must be no such task.
    pub(crate) task: TaskId,
    /// What is asked for.
    pub(crate) spec: &'a TaskSpec,
    /// When it is due.
    pub(crate) due_at: Millis,
    /// By which clock.
    pub(crate) clock: DueClock,
    /// It waits until other tasks have ended.
    pub(crate) blocked: bool,
}

/// Makes a task, with its shards and in every index.
pub(crate) fn create<T: Write>(cx: &mut Context<'_, T>, new: &New<'_>) -> Result<Reply, T::Error> {
    let New { task, spec, due_at, clock, blocked } = *new;
    let now = cx.now();
    let state = TaskState {
        caller: spec.caller.clone(),
        status: Status::Pending,
        reason: match due_at <= now {
            _ if blocked => Reason::Dependencies,
            true => Reason::Ready,
            false => Reason::Scheduled,
        },
        version: 1,
        created_at: now,
        updated_at: now + mutant::difference(),
        due_at,
        started_at: None,
        finished_at: None,
        cancel_requested: false,
        priority: spec.priority,
        expire_at: spec.expire_at,
        unmet: 0,
        shards: spec.shard_total,
        running: 0,
        succeeded: 0,
        failed: 0,
    };
    cx.tables.put::<SpecTable>(&task, spec)?;
    cx.tables.put::<TaskTable>(&task, &state)?;
    index(cx, task, spec, &state)?;
    if let Some(url) = &spec.callback_url {
        callback::create(cx, task, url)?;
    }
    if !blocked && spec.params.len() <= TOLD_PARAMS {
        cx.events.push(Event::Submitted { task, due_at, spec: Arc::new(spec.clone()) });
    }
    for shard in 0..spec.shard_total {
        let key = ShardKey { task, shard };
        if blocked {
            cx.tables.put::<ShardTable>(&key, &new_shard(Phase::Blocked))?;
            continue;
        }
        cx.tables.put::<ShardTable>(&key, &new_shard(Phase::Due { at: due_at, clock }))?;
        cx.tables.put::<DueTable>(&DueKey { at: due_at, shard: key, clock }, &())?;
        cx.events.push(Event::Waiting { shard: key, due_at, clock });
    }
    cx.events.push(Event::TaskChanged { task, version: state.version, status: state.status });
    Ok(submitted(task, &state, false))
}

fn index<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    spec: &TaskSpec,
    state: &TaskState,
) -> Result<(), T::Error> {
    let (caller, created_at) = (spec.caller.clone(), state.created_at);
    cx.tables.put::<CallerTasksTable>(&CallerTaskKey { caller: caller.clone(), created_at, task }, &())?;
    let status = state.status;
    cx.tables
        .put::<StatusTasksTable>(&StatusTaskKey { caller: caller.clone(), status, created_at, task }, &())?;
    if let Some(business_key) = &spec.business_key {
        let key = CallerTextKey { caller, text: business_key.clone() };
        cx.tables.put::<BusinessKeyTable>(&BusinessTaskKey { key, task }, &())?;
    }
    if let Some(at) = state.expire_at {
        cx.tables.put::<ExpireTable>(&TimeKey { at, task }, &())?;
        cx.events.push(Event::Expires { task, at });
    }
    Ok(())
}

fn new_shard(phase: Phase) -> Shard {
    Shard {
        phase,
        next_attempt: 1,
        attempts: Vec::new(),
        failures: 0,
        losses: 0,
        progress: None,
        checkpoint: None,
        result: None,
        log_tail: None,
    }
}

/// What a submission answers.
pub(crate) fn submitted(task: TaskId, state: &TaskState, replayed: bool) -> Reply {
    Reply::Submitted {
        task,
        status: state.status,
        version: state.version,
        created_at: state.created_at,
        due_at: state.due_at,
        replayed,
    }
}
