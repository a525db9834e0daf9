//! A stretch of the past is made up for, in steps that the leader takes. The row says how far it has come, so that
//! another leader goes on from there and no instant is made up for twice.

use super::fire::{Made, Make, holds_one_alone, make_task};
use super::{check_version, or_refuse};
use crate::apply::cancel::{has_started, take_back};
use crate::apply::context::Context;
use crate::apply::nonce::spend;
use crate::command::{Claim, Refusal, Reply, StepBackfill};
use crate::event::Event;
use crate::id::{Millis, TaskId};
use crate::job::{BACKFILL_STEP, BackfillRow, Cause, Definition, JobKey, JobOutcome, JobState, OPEN_LIMIT};
use crate::key::{JobTaskKey, KeyWriter, after_prefix};
use crate::schema::{BackfillTable, JobStateTable, JobTasksTable, SpecTable, TaskTable};
use crate::tables::{ReadExt as _, Write, WriteExt as _};
use crate::task::{DueClock, MAX_SHARDS, Origin, Reason, Status, TaskState};
use crate::trigger::overlap::OverlapPolicy;

pub(super) fn start<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    (from, to): (Millis, Millis),
    overlap: OverlapPolicy,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if from > to || to > cx.wall() || from == Millis::MIN {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (_, mut state) = or_refuse!(cx.load_job(key)?);
    if state.backfilling {
        return Ok(Reply::Refused(Refusal::BackfillRunning));
    }
    let created_at = cx.now();
    let row = BackfillRow { from, to, overlap, through: from - 1, fired: 0, skipped: 0, created_at };
    cx.tables.put::<BackfillTable>(key, &row)?;
    state.backfilling = true;
    cx.tables.put::<JobStateTable>(key, &state)?;
    cx.events.push(Event::BackfillWaits { job: key.clone() });
    Ok(reply(&row, false))
}

/// `triggers` says by which trigger each fire is; of an entry of before that was said it is the first one.
pub(super) fn step<T: Write>(
    cx: &mut Context<'_, T>,
    step: &StepBackfill,
    triggers: &[u16],
) -> Result<Reply, T::Error> {
    let key = &step.job;
    let (job, mut state) = or_refuse!(cx.load_job(key)?);
    or_refuse!(check_version(Some(step.version), job.version));
    let row = cx.tables.get::<BackfillTable>(key)?.filter(|row| row.through == step.from);
    let Some(mut row) = row else { return Ok(Reply::Refused(Refusal::BackfillNotFound)) };
    if is_stopped(&row) {
        let waiting = waiting(cx, key, (row.from, row.through))?;
        take_all_back(cx, key, &mut state, (&row, waiting.tasks))?;
        cx.tables.put::<JobStateTable>(key, &state)?;
        return Ok(reply(&row, !state.backfilling));
    }
    if !is_valid(step, &row) {
        return Ok(Reply::Refused(Refusal::Invalid));
    }
    for fire in &step.fires {
        if cx.tables.has::<TaskTable>(&fire.task)? {
            return Ok(Reply::Refused(Refusal::TaskExists));
        }
    }
    let fired = row.fired;
    let came_through = make_up(cx, (step, triggers), &job.definition, &mut state, &mut row)?;
    if row.fired > fired {
        cx.opened_beside(key, &mut state)?;
    }
    if came_through {
        row.through = step.through;
    }
    if row.through == step.from {
        return Ok(reply(&row, false));
    }
    let ended = row.through >= row.to;
    if ended {
        end(cx, key, &mut state, &row)?;
    } else {
        cx.tables.put::<BackfillTable>(key, &row)?;
        cx.events.push(Event::BackfillWaits { job: key.clone() });
    }
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(reply(&row, ended))
}

pub(super) fn stop<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    claim: Option<&Claim>,
) -> Result<Reply, T::Error> {
    if let Some(refusal) = spend(cx, claim)? {
        return Ok(Reply::Refused(refusal));
    }
    let (_, mut state) = or_refuse!(cx.load_job(key)?);
    let Some(mut row) = cx.tables.get::<BackfillTable>(key)? else {
        return Ok(Reply::Refused(Refusal::BackfillNotFound));
    };
    if is_stopped(&row) {
        return Ok(reply(&row, true));
    }
    let waiting = waiting(cx, key, (row.from, row.through))?;
    let came = BackfillRow {
        through: waiting.through.unwrap_or(row.through),
        fired: row.fired.saturating_sub(waiting.tasks.len() as u64),
        ..row.clone()
    };
    record(cx, key, &mut state, &came)?;
    row.to = row.through;
    take_all_back(cx, key, &mut state, (&row, waiting.tasks))?;
    cx.tables.put::<JobStateTable>(key, &state)?;
    Ok(reply(&came, true))
}

/// Whether a backfill is over but for tasks that are to be taken back. Any other one that has come to its end is gone.
fn is_stopped(row: &BackfillRow) -> bool {
    row.through >= row.to
}

/// Tasks of a backfill that have not begun.
struct Waiting {
    tasks: Vec<(TaskId, TaskState)>,
    /// Up to where nothing waits, where anything does: the last instant before whose task is open, or else the
    /// millisecond before.
    through: Option<Millis>,
}

/// Finds the tasks of a backfill that have not begun. Of a task with several shards one that was ever handed out counts
/// as begun, so that no more than a row or two of each task is read.
fn waiting<T: Write>(
    cx: &Context<'_, T>,
    job: &JobKey,
    (from, through): (Millis, Millis),
) -> Result<Waiting, T::Error> {
    let (mut tasks, mut first, mut begun) = (Vec::new(), None::<Millis>, Vec::new());
    let prefix = KeyWriter::default().job(job).finish();
    for JobTaskKey { task, .. } in
        cx.tables.keys::<JobTasksTable>(&prefix, &after_prefix(&prefix), OPEN_LIMIT as usize)?
    {
        let Some(spec) = cx.tables.get::<SpecTable>(&task)? else { continue };
        let Origin::Backfill { scheduled_at, .. } = spec.origin else { continue };
        let Some(state) = cx.tables.get::<TaskTable>(&task)? else { continue };
        if !(from..=through).contains(&scheduled_at) {
            continue;
        }
        let was_handed_out =
            state.started_at.is_some() && (state.shards != 1 || has_started(cx, task, &state)?);
        if state.status != Status::Pending || was_handed_out {
            begun.push(scheduled_at);
            continue;
        }
        first = Some(first.map_or(scheduled_at, |first| first.min(scheduled_at)));
        tasks.push((task, state));
    }
    let before = |first: Millis| begun.into_iter().filter(|at| *at < first).max().unwrap_or(first - 1);
    Ok(Waiting { tasks, through: first.map(before) })
}

/// Takes tasks back, as many as one command may. The backfill is gone with the last one; until then a leader goes on.
/// The caller stores the job's row.
fn take_all_back<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    state: &mut JobState,
    (row, tasks): (&BackfillRow, Vec<(TaskId, TaskState)>),
) -> Result<(), T::Error> {
    let mut shards = 0;
    for (task, task_state) in tasks {
        if shards >= MAX_SHARDS {
            cx.tables.put::<BackfillTable>(key, row)?;
            cx.events.push(Event::BackfillWaits { job: key.clone() });
            return Ok(());
        }
        shards += task_state.shards;
        take_back(cx, task, task_state, Reason::BackfillStopped)?;
    }
    cx.tables.delete::<BackfillTable>(key)?;
    state.backfilling = false;
    Ok(())
}

/// Makes the tasks of a step, as many as there is room for; whether it was all of them.
fn make_up<T: Write>(
    cx: &mut Context<'_, T>,
    (step, triggers): (&StepBackfill, &[u16]),
    definition: &Definition,
    state: &mut JobState,
    row: &mut BackfillRow,
) -> Result<bool, T::Error> {
    let mut shards = 0;
    for (place, fire) in step.fires.iter().enumerate() {
        if shards >= MAX_SHARDS || !has_room(state, row.overlap) {
            return Ok(false);
        }
        let make = Make {
            job: &step.job,
            definition,
            cause: Cause::Backfill,
            scheduled_at: fire.scheduled_at,
            due_at: cx.now(),
            clock: DueClock::Cluster,
            task: fire.task,
            filled: &fire.filled,
            overlap: row.overlap,
            trigger: Some(triggers.get(place).copied().unwrap_or_default()),
        };
        match make_task(cx, state, &make)? {
            Made::Task { .. } => {
                shards += definition.template.shard_total;
                row.fired += 1;
            }
            Made::Skipped(_) => row.skipped += 1,
        }
        row.through = fire.scheduled_at;
    }
    Ok(true)
}

/// Whether another instant may be decided: a backfill skips nothing for want of room, it waits.
fn has_room(state: &JobState, overlap: OverlapPolicy) -> bool {
    let is_free = overlap != OverlapPolicy::Queue || state.queued.is_none();
    state.open < OPEN_LIMIT && (is_free || holds_one_alone(state, overlap))
}

fn is_valid(step: &StepBackfill, row: &BackfillRow) -> bool {
    let fires = &step.fires;
    let tasks = fires.iter().enumerate();
    let repeated = |(place, task): (usize, &crate::command::BackfillFire)| {
        fires[..place].iter().any(|f| f.task == task.task)
    };
    fires.len() <= BACKFILL_STEP
        && fires.windows(2).all(|pair| pair[0].scheduled_at < pair[1].scheduled_at)
        && fires.first().is_none_or(|first| first.scheduled_at > row.through)
        && fires.last().is_none_or(|last| last.scheduled_at <= step.through)
        && (row.through..=row.to).contains(&step.through)
        && fires.iter().all(|fire| fire.filled.is_within_bounds())
        && !tasks.into_iter().any(repeated)
}

/// Ends a backfill. The caller stores the job's row.
fn end<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    state: &mut JobState,
    row: &BackfillRow,
) -> Result<(), T::Error> {
    cx.tables.delete::<BackfillTable>(key)?;
    state.backfilling = false;
    record(cx, key, state, row)
}

/// Writes down where a backfill ended. The caller stores the job's row.
fn record<T: Write>(
    cx: &mut Context<'_, T>,
    key: &JobKey,
    state: &mut JobState,
    row: &BackfillRow,
) -> Result<(), T::Error> {
    let &BackfillRow { from, to, through, fired, skipped, .. } = row;
    cx.record(key, state, JobOutcome::Backfilled { from, to, through, fired, skipped })
}

fn reply(row: &BackfillRow, ended: bool) -> Reply {
    Reply::Backfill { through: row.through, fired: row.fired, skipped: row.skipped, ended }
}
