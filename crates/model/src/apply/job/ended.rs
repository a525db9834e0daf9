//! A task of a job has ended: its job hears of it in the same command, starts what was queued behind it, and looks
//! for a next fire where that counts from the end of a task.

use super::replace;
use crate::apply::context::Context;
use crate::apply::graph;
use crate::event::Event;
use crate::id::TaskId;
use crate::job::JobState;
use crate::key::JobTaskKey;
use crate::schema::{JobStateTable, JobTasksTable, SpecTable, TaskJobTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, Origin, Reason};

/// Tells jobs of their tasks that ended in this command.
pub(crate) fn hear_of_ended<T: Write>(cx: &mut Context<'_, T>) -> Result<(), T::Error> {
    while let Some(task) = cx.ended.pop() {
        ended(cx, task)?;
    }
    Ok(())
}

fn ended<T: Write>(cx: &mut Context<'_, T>, task: TaskId) -> Result<(), T::Error> {
    graph::task_ended(cx, task)?;
    let Some(job) = cx.tables.get::<TaskJobTable>(&task)? else { return Ok(()) };
    cx.tables.delete::<TaskJobTable>(&task)?;
    cx.tables.delete::<JobTasksTable>(&JobTaskKey { job: job.clone(), task })?;
    let Some(mut state) = cx.tables.get::<JobStateTable>(&job)? else { return Ok(()) };
    state.open = state.open.saturating_sub(1);
    // A fixed delay names an instant, as every trigger does.
    state.progress.end(cx.wall());
    state.progress.open = state.open > 0;
    if state.queued == Some(task) {
        state.queued = None;
        replace::stop(cx, &mut state, task)?;
    }
    release_if_alone(cx, &mut state)?;
    if state.has_delays && state.open == 0 {
        state.revision += 1;
        // Of a paused job whoever resumes it looks for the next fire, and must not do so from what was before.
        if state.paused.is_none() {
            cx.want_next(&job, &mut state)?;
        }
    }
    if state.backfilling {
        cx.events.push(Event::BackfillWaits { job: job.clone() });
    }
    cx.tables.put::<JobStateTable>(&job, &state)
}

fn is_of_a_trigger<T: Write>(cx: &Context<'_, T>, task: TaskId) -> Result<bool, T::Error> {
    let spec = cx.tables.get::<SpecTable>(&task)?;
    Ok(spec.is_some_and(|spec| matches!(spec.origin, Origin::Fire { .. })))
}

/// Lets the queued task start when no other one is open. While the job is paused, one that a trigger has queued waits on,
/// and says so; what a person asked for was asked of a paused job, too.
pub(super) fn release_if_alone<T: Write>(
    cx: &mut Context<'_, T>,
    state: &mut JobState,
) -> Result<(), T::Error> {
    let Some(task) = state.queued.filter(|_| state.open == 1) else { return Ok(()) };
    let Some(mut row) = cx.tables.get::<TaskTable>(&task)? else { return Ok(()) };
    if state.paused.is_some() && is_of_a_trigger(cx, task)? {
        row.reason = Reason::Paused;
        cx.put_task(task, &mut row, None)?;
        return Ok(());
    }
    state.queued = None;
    replace::stop(cx, state, task)?;
    // It was due when its job fired, by whichever clock: no clock holds it up any more.
    let at = row.due_at;
    graph::release(cx, task, row, at, DueClock::Cluster)
}
