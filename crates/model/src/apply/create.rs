//! A task is made: by a submission, or by a job.

use std::sync::Arc;

use crate::apply::callback;
use crate::apply::context::Context;
use crate::command::Reply;
use crate::event::Event;
use crate::graph::is_broadcast;
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
    /// What it waits for first.
    pub(crate) start: Start,
}

/// What a new task waits for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Its time, and a slot.
    Free,
    /// The end of the other tasks of its job.
    Queued,
    /// The end of so many parents.
    Parents(u16),
    /// It is a run: it has no shards, and counts its steps in their place.
    Run {
        /// How many.
        steps: u16,
        /// It waits for the end of the other runs of its job.
        queued: bool,
    },
}

impl Start {
    fn blocks(self) -> bool {
        match self {
            Start::Free => false,
            Start::Queued | Start::Parents(_) => true,
            Start::Run { queued, .. } => queued,
        }
    }
}

/// Makes a task, with its shards and in every index.
pub(crate) fn create<T: Write>(cx: &mut Context<'_, T>, new: &New<'_>) -> Result<Reply, T::Error> {
    let New { task, spec, due_at, clock, start } = *new;
    let (now, blocked) = (cx.now(), start.blocks());
    let (unmet, shards) = match start {
        Start::Parents(open) => (open, first_shards(spec)),
        Start::Run { steps, .. } => (0, steps),
        Start::Free | Start::Queued => (0, first_shards(spec)),
    };
    let state = TaskState {
        caller: spec.caller.clone(),
        status: Status::Pending,
        reason: match due_at <= cx.shown(clock) {
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
        unmet,
        shards,
        running: 0,
        succeeded: 0,
        failed: 0,
    };
    cx.tables.put::<SpecTable>(&task, spec)?;
    cx.tables.put::<TaskTable>(&task, &state)?;
    index(cx, task, spec, &state)?;
    if let Some(url) = &spec.callback_url {
        callback::create(cx, (task, &spec.caller), url)?;
    }
    if start == Start::Free && is_told(spec) {
        cx.events.push(Event::Submitted { task, due_at, spec: Arc::new(spec.clone()) });
    }
    if !matches!(start, Start::Run { .. }) {
        create_shards(cx, new, state.shards)?;
    }
    cx.events.push(Event::TaskChanged { task, version: state.version, status: state.status });
    Ok(submitted(task, &state, false))
}

/// How many shards a task begins with: a broadcast gets its own when it is due.
fn first_shards(spec: &TaskSpec) -> u16 {
    if is_broadcast(spec) { 1 } else { spec.shard_total }
}

/// Whether the leader may place and push the task by what it is told, without a look at the tables.
fn is_told(spec: &TaskSpec) -> bool {
    spec.params.len() <= TOLD_PARAMS && spec.depends_on.is_empty() && !is_broadcast(spec)
}

fn create_shards<T: Write>(cx: &mut Context<'_, T>, new: &New<'_>, shards: u16) -> Result<(), T::Error> {
    let New { task, due_at, clock, start, .. } = *new;
    for shard in 0..shards {
        let key = ShardKey { task, shard };
        if start.blocks() {
            cx.tables.put::<ShardTable>(&key, &new_shard(Phase::Blocked))?;
            continue;
        }
        cx.tables.put::<ShardTable>(&key, &new_shard(Phase::Due { at: due_at, clock }))?;
        cx.tables.insert::<DueTable>(&DueKey { at: due_at, shard: key, clock }, &())?;
        cx.events.push(Event::Waiting { shard: key, due_at, clock });
    }
    Ok(())
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
    cx.tables.insert::<StatusTasksTable>(
        &StatusTaskKey { caller: caller.clone(), status, created_at, task },
        &(),
    )?;
    if let Some(business_key) = &spec.business_key {
        let key = CallerTextKey { caller, text: business_key.clone() };
        cx.tables.put::<BusinessKeyTable>(&BusinessTaskKey { key, task }, &())?;
    }
    if let Some(at) = state.expire_at {
        cx.tables.insert::<ExpireTable>(&TimeKey { at, task }, &())?;
        cx.events.push(Event::Expires { task, at });
    }
    Ok(())
}

/// A shard without a past.
pub(crate) fn new_shard(phase: Phase) -> Shard {
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
