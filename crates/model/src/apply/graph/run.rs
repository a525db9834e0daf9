//! Runs of workflows: one for each fire. A run counts its steps; the leader has them made, and of a cancelled run
//! cancelled, in bounded commands.

use std::collections::BTreeSet;

use super::{Child, create_child, keep_policy, look_at_parents};
use crate::apply::cancel::cancel;
use crate::apply::context::Context;
use crate::apply::create::{self, New, Start};
use crate::command::{MadeStep, Refusal, Reply};
use crate::event::Event;
use crate::graph::{Node, Role, RunFlow, RunRow, STEPS_PER_COMMAND, STOP_PER_COMMAND, Step, WorkKind};
use crate::id::{Millis, TaskId};
use crate::key::{ShardKey, WorkKey};
use crate::schema::{NodeTable, RunFlowTable, RunStepTable, RunTable, SpecTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{Dependency, DueClock, MAX_SHARDS, Origin, Reason, Status, TaskEvent, TaskSpec, TaskState};

/// A run that is to be made; there must be no such task.
pub(crate) struct NewRun<'a> {
    pub(crate) task: TaskId,
    pub(crate) spec: &'a TaskSpec,
    pub(crate) due_at: Millis,
    pub(crate) clock: DueClock,
    /// It waits for the other runs of its job.
    pub(crate) queued: bool,
    pub(crate) flow: RunFlow,
}

/// Makes a run. Its steps follow.
pub(crate) fn create_run<T: Write>(cx: &mut Context<'_, T>, new: &NewRun<'_>) -> Result<(), T::Error> {
    let &NewRun { task, spec, due_at, clock, queued, ref flow } = new;
    // At most [`crate::graph::MAX_STEPS`].
    let total = flow.steps.len() as u16;
    create::create(cx, &New { task, spec, due_at, clock, start: Start::Run { steps: total, queued } })?;
    let row = RunRow { total, made: 0, stopped: 0, begun: !queued };
    cx.tables.put::<RunTable>(&task, &row)?;
    cx.tables.put::<RunFlowTable>(&task, flow)?;
    cx.tables.put::<NodeTable>(&task, &Node { role: Role::Run, waiters: 0, clock })?;
    if queued { Ok(()) } else { cx.want(WorkKind::Make, task) }
}

/// A run waits for the other ones of its job no more.
pub(super) fn begin<T: Write>(
    cx: &mut Context<'_, T>,
    run: TaskId,
    mut state: TaskState,
) -> Result<(), T::Error> {
    let Some(row) = cx.tables.get::<RunTable>(&run)? else { return Ok(()) };
    cx.tables.put::<RunTable>(&run, &RunRow { begun: true, ..row })?;
    state.reason = Reason::Ready;
    cx.put_task(run, &mut state, None)?;
    cx.want(WorkKind::Make, run)
}

pub(super) fn make_steps<T: Write>(
    cx: &mut Context<'_, T>,
    run: TaskId,
    from: u16,
    steps: &[MadeStep],
) -> Result<Reply, T::Error> {
    let (Some(mut state), Some(mut row), Some(spec)) = (
        cx.tables.get::<TaskTable>(&run)?,
        cx.tables.get::<RunTable>(&run)?,
        cx.tables.get::<SpecTable>(&run)?,
    ) else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let Some(flow) = cx.tables.get::<RunFlowTable>(&run)?.filter(|_| row.begun && row.made == from) else {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    };
    if state.expire_at.is_some_and(|at| at <= cx.wall()) {
        return Ok(Reply::Refused(Refusal::Expired));
    }
    let next = flow.steps.get(usize::from(from)..).unwrap_or_default();
    if let Some(refusal) = check_steps(cx, next.len(), steps)? {
        return Ok(Reply::Refused(refusal));
    }
    if from == 0 {
        cx.drop_expiry(run, &mut state)?;
        state.running = row.total;
        state.reason = Reason::None;
        state.started_at = Some(cx.now());
        cx.put_task(run, &mut state, Some(TaskEvent::Granted))?;
    }
    let mut shards = 0;
    for (step, made) in next.iter().zip(steps) {
        if shards >= MAX_SHARDS {
            break;
        }
        make_step(cx, (run, &spec), row.made, step, made)?;
        shards += step.template.shard_total;
        row.made += 1;
    }
    cx.tables.put::<RunTable>(&run, &row)?;
    if row.made == row.total {
        cx.tables.delete::<RunFlowTable>(&run)?;
        cx.unlist(WorkKind::Make, run)?;
    } else {
        cx.events.push(Event::GraphWaits { work: WorkKey { kind: WorkKind::Make, task: run } });
    }
    Ok(Reply::Done)
}

fn check_steps<T: Write>(
    cx: &Context<'_, T>,
    left: usize,
    steps: &[MadeStep],
) -> Result<Option<Refusal>, T::Error> {
    let ids: BTreeSet<TaskId> = steps.iter().map(|step| step.task).collect();
    if !(1..=STEPS_PER_COMMAND.min(left)).contains(&steps.len())
        || ids.len() != steps.len()
        || !steps.iter().all(|step| step.filled.is_within_bounds())
    {
        return Ok(Some(Refusal::Invalid));
    }
    for task in &ids {
        if cx.tables.has::<TaskTable>(task)? {
            return Ok(Some(Refusal::TaskExists));
        }
    }
    Ok(None)
}

fn make_step<T: Write>(
    cx: &mut Context<'_, T>,
    (run, spec): (TaskId, &TaskSpec),
    index: u16,
    step: &Step,
    made: &MadeStep,
) -> Result<(), T::Error> {
    let (job, scheduled_at) = spec.origin.job().unwrap_or_default();
    let origin = Origin::Step { job: job.to_owned(), scheduled_at, run, step: step.name.clone() };
    let now = cx.now();
    let mut child = step.template.task(&spec.caller, origin, now, &made.filled);
    for need in &step.needs {
        let key = ShardKey { task: run, shard: need.step };
        if let Some(task) = cx.tables.get::<RunStepTable>(&key)? {
            child.depends_on.push(Dependency { task, on: need.on });
        }
    }
    // Each of them was made before, of this caller, and once.
    let Ok(parents) = look_at_parents(cx, &child)? else { return Ok(()) };
    let role = Role::Step { run, index };
    let clock = DueClock::Cluster;
    create_child(cx, &Child { task: made.task, spec: &child, due_at: now, clock, role }, &parents)?;
    keep_policy(cx, made.task, &child, step.on_shard_failure)?;
    cx.tables.put::<RunStepTable>(&ShardKey { task: run, shard: index }, &made.task)
}

/// A running run is to be cancelled: no more steps are made, and a leader cancels those that were.
pub(crate) fn stop_run<T: Write>(
    cx: &mut Context<'_, T>,
    run: TaskId,
    mut state: TaskState,
) -> Result<Reply, T::Error> {
    let Some(row) = cx.tables.get::<RunTable>(&run)? else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let unmade = row.total.saturating_sub(row.made);
    state.cancel_requested = true;
    state.running = state.running.saturating_sub(unmade);
    state.failed += unmade;
    cx.tables.delete::<RunFlowTable>(&run)?;
    cx.unlist(WorkKind::Make, run)?;
    if state.running > 0 {
        cx.want(WorkKind::Stop, run)?;
    }
    settle(cx, run, state)
}

/// The last steps first: none of them is let go by the end of an earlier one on the way.
pub(super) fn stop_steps<T: Write>(
    cx: &mut Context<'_, T>,
    run: TaskId,
    from: u16,
) -> Result<Reply, T::Error> {
    let (Some(state), Some(mut row)) = (cx.tables.get::<TaskTable>(&run)?, cx.tables.get::<RunTable>(&run)?)
    else {
        return Ok(Reply::Refused(Refusal::TaskNotFound));
    };
    let stops = state.status == Status::Running && state.cancel_requested;
    if !stops || row.stopped != from || row.stopped >= row.made {
        return Ok(Reply::Refused(Refusal::StaleGraph));
    }
    let mut shards = 0;
    for _ in 0..STOP_PER_COMMAND {
        if row.stopped == row.made || shards >= MAX_SHARDS {
            break;
        }
        row.stopped += 1;
        let key = ShardKey { task: run, shard: row.made - row.stopped };
        let Some(step) = cx.tables.get::<RunStepTable>(&key)? else { continue };
        shards += cx.tables.get::<TaskTable>(&step)?.map_or(0, |state| state.shards);
        cancel(cx, step, None, None)?;
    }
    cx.tables.put::<RunTable>(&run, &row)?;
    if row.stopped == row.made {
        cx.unlist(WorkKind::Stop, run)?;
    } else {
        cx.events.push(Event::GraphWaits { work: WorkKey { kind: WorkKind::Stop, task: run } });
    }
    Ok(Reply::Done)
}

/// A step has ended: its run counts it.
pub(super) fn step_ended<T: Write>(
    cx: &mut Context<'_, T>,
    step: TaskId,
    run: TaskId,
) -> Result<(), T::Error> {
    let (Some(step), Some(mut state)) =
        (cx.tables.get::<TaskTable>(&step)?, cx.tables.get::<TaskTable>(&run)?)
    else {
        return Ok(());
    };
    if state.status.is_terminal() {
        return Ok(());
    }
    let not_needed = step.status == Status::Skipped && step.reason == Reason::Dependency;
    if step.status == Status::Success || not_needed {
        state.succeeded += 1;
    } else {
        state.failed += 1;
    }
    state.running = state.running.saturating_sub(1);
    settle(cx, run, state)?;
    Ok(())
}

/// Brings a run's status in line with its steps.
fn settle<T: Write>(cx: &mut Context<'_, T>, run: TaskId, mut state: TaskState) -> Result<Reply, T::Error> {
    let event = if state.running > 0 {
        None
    } else if state.succeeded == state.shards {
        Some(TaskEvent::Succeeded)
    } else if state.cancel_requested {
        Some(TaskEvent::Cancelled)
    } else {
        Some(TaskEvent::FailedForGood)
    };
    cx.put_task(run, &mut state, event)
}

/// A run has ended: nothing is left to be done for it.
pub(super) fn ended<T: Write>(cx: &mut Context<'_, T>, run: TaskId) -> Result<(), T::Error> {
    cx.tables.delete::<RunFlowTable>(&run)?;
    cx.unlist(WorkKind::Make, run)?;
    cx.unlist(WorkKind::Stop, run)
}
