//! Under `cancelOther` the open tasks of a job make room for the one that is queued: they are cancelled a few in each
//! command, and a leader goes on until none is left. The row of the job says how far that has come.

use crate::apply::cancel::cancel;
use crate::apply::context::Context;
use crate::command::{Refusal, Reply};
use crate::event::Event;
use crate::graph::WorkKind;
use crate::id::TaskId;
use crate::job::{JobKey, JobState, REPLACED_PER_COMMAND};
use crate::key::{JobTaskKey, KeyWriter, WorkKey, after_prefix};
use crate::schema::{JobStateTable, JobTasksTable, TaskJobTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};

/// Asks the first open tasks to end so that `queued`, which is the queued one, may start. The caller stores the row.
pub(super) fn begin<T: Write>(
    cx: &mut Context<'_, T>,
    job: &JobKey,
    state: &mut JobState,
    queued: TaskId,
) -> Result<(), T::Error> {
    state.replace_from = Some(TaskId([0; 16]));
    cancel_some(cx, job, state)?;
    if state.replace_from.is_some() { cx.want(WorkKind::Replace, queued) } else { Ok(()) }
}

/// Nothing more is cancelled for the sake of a task that was queued.
pub(super) fn stop<T: Write>(
    cx: &mut Context<'_, T>,
    state: &mut JobState,
    queued: TaskId,
) -> Result<(), T::Error> {
    match state.replace_from.take() {
        Some(_) => cx.unlist(WorkKind::Replace, queued),
        None => Ok(()),
    }
}

/// The next open tasks are asked to end.
pub(crate) fn replace_more<T: Write>(
    cx: &mut Context<'_, T>,
    queued: TaskId,
    from: TaskId,
) -> Result<Reply, T::Error> {
    let Some(job) = cx.tables.get::<TaskJobTable>(&queued)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let state = cx.tables.get::<JobStateTable>(&job)?;
    let Some(mut state) =
        state.filter(|state| state.queued == Some(queued) && state.replace_from == Some(from))
    else {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    };
    cancel_some(cx, &job, &mut state)?;
    if state.replace_from.is_some() {
        cx.events.push(Event::GraphWaits { work: WorkKey { kind: WorkKind::Replace, task: queued } });
    } else {
        cx.unlist(WorkKind::Replace, queued)?;
    }
    cx.tables.put::<JobStateTable>(&job, &state)?;
    Ok(Reply::Done)
}

/// Cancels open tasks from `replace_from` on, at most [`REPLACED_PER_COMMAND`]. The job hears of those that end at once
/// when the command has been applied.
fn cancel_some<T: Write>(
    cx: &mut Context<'_, T>,
    job: &JobKey,
    state: &mut JobState,
) -> Result<(), T::Error> {
    let Some(from) = state.replace_from.take() else { return Ok(()) };
    let end = after_prefix(&KeyWriter::default().job(job).finish());
    let from = KeyWriter::default().job(job).task(from).finish();
    // One that is the queued task itself, and one to begin with the next time.
    let found = cx.tables.keys::<JobTasksTable>(&from, &end, REPLACED_PER_COMMAND + 2)?;
    let others = found.into_iter().map(|JobTaskKey { task, .. }| task);
    for (number, task) in others.filter(|task| state.queued != Some(*task)).enumerate() {
        if number == REPLACED_PER_COMMAND {
            state.replace_from = Some(task);
            break;
        }
        cancel(cx, task, None, None)?;
    }
    Ok(())
}
