//! Cancellation and expiry.

use crate::apply::context::Context;
use crate::apply::graph::stop_run;
use crate::apply::nonce::spend;
use crate::command::{Claim, Refusal, Reply};
use crate::event::Event;
use crate::graph::Role;
use crate::id::{CallerId, TaskId};
use crate::key::ShardKey;
use crate::mutant::{Mutant, is_on};
use crate::schema::{ShardTable, TaskTable};
use crate::tables::{ReadExt as _, Write};
use crate::task::{Outcome, Phase, Reason, Status, TaskEvent, TaskState};

/// A pending task is cancelled at once; a running one when its executor confirms or is gone. Asking again
/// changes nothing.
pub(crate) fn cancel<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    caller: Option<&CallerId>,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    // Another caller's task answers as one that does not exist.
    let state = cx.tables.get::<TaskTable>(&task)?;
    let Some(mut state) = state.filter(|state| caller.is_none_or(|caller| *caller == state.caller)) else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    match state.status {
        Status::Pending => {
            if !is_on(Mutant::CancelIgnored) {
                end_waiting(cx, task, &state)?;
            }
            state.reason = Reason::None;
            cx.put_task(task, &mut state, Some(TaskEvent::Cancelled))
        }
        Status::Running if !state.cancel_requested => {
            if cx.node(task)?.role == Role::Run {
                return stop_run(cx, task, state);
            }
            state.cancel_requested = true;
            ask_executors(cx, task, &state)?;
            cx.put_task(task, &mut state, None)
        }
        Status::Running | Status::Cancelled => Ok(Reply::Task {
            status: state.status,
            version: state.version,
            cancel_requested: state.cancel_requested,
        }),
        status => Ok(Reply::Refused(Refusal::AlreadyTerminal { status, version: state.version })),
    }
}

/// A task that has not begun is cancelled, for this reason.
pub(crate) fn take_back<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    mut state: TaskState,
    reason: Reason,
) -> Result<(), T::Error> {
    end_waiting(cx, task, &state)?;
    state.reason = reason;
    cx.put_task(task, &mut state, Some(TaskEvent::Cancelled)).map(drop)
}

/// The deadline to first start passed: a task that no executor has started is skipped.
pub(crate) fn expire<T: Write>(cx: &mut Context<'_, T>, task: TaskId) -> Result<Reply, T::Error> {
    let Some(mut state) = cx.tables.get::<TaskTable>(&task)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    // Whether the wall clock has shown it is the leader's word; the cluster's time, which is never behind that, refuses
    // what no clock has shown.
    let passed = state.expire_at.is_some_and(|at| at <= cx.now());
    if state.status != Status::Pending || !passed || has_started(cx, task, &state)? {
        return Ok(Reply::Refused(Refusal::NotExpired));
    }
    end_waiting(cx, task, &state)?;
    state.reason = Reason::Expired;
    cx.put_task(task, &mut state, Some(TaskEvent::Expired))
}

/// Whether an executor has taken any of it.
pub(crate) fn has_started<T: Write>(
    cx: &Context<'_, T>,
    task: TaskId,
    state: &TaskState,
) -> Result<bool, T::Error> {
    for shard in 0..state.shards {
        if let Some(shard) = cx.tables.get::<ShardTable>(&ShardKey { task, shard })?
            && shard.attempts.iter().any(|attempt| attempt.outcome != Some(Outcome::Refused))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Nothing of a pending task waits any more.
pub(crate) fn end_waiting<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    state: &TaskState,
) -> Result<(), T::Error> {
    for shard in 0..state.shards {
        let key = ShardKey { task, shard };
        if let Some(mut shard) = cx.tables.get::<ShardTable>(&key)? {
            cx.set_phase(key, state.priority, &mut shard, Phase::Done)?;
            cx.put_shard(key, &shard)?;
        }
    }
    Ok(())
}

/// Waiting shards end at once, running ones are asked to stop.
pub(crate) fn ask_executors<T: Write>(
    cx: &mut Context<'_, T>,
    task: TaskId,
    state: &TaskState,
) -> Result<(), T::Error> {
    for shard in 0..state.shards {
        let key = ShardKey { task, shard };
        let Some(mut shard) = cx.tables.get::<ShardTable>(&key)? else { continue };
        match shard.open_attempt() {
            Some(open) => {
                let (executor, fence) = (open.executor.clone(), open.fence);
                cx.events.push(Event::CancelRequested { shard: key, executor, fence });
            }
            None if shard.phase != Phase::Done => {
                cx.set_phase(key, state.priority, &mut shard, Phase::Done)?;
                cx.put_shard(key, &shard)?;
            }
            None => {}
        }
    }
    Ok(())
}
